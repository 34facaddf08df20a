// Readers of the sections of job.toml. TomlTable::finish() reports their mistakes.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/job_config.h"
#include "engine/config/toml_reader.h"

namespace paddle::config {

constexpr std::int64_t kCountMax = 1 << 30;

std::uint32_t read_count(TomlTable& table, std::string_view key, std::uint32_t fallback,
                         std::int64_t min = 0, std::int64_t max = kCountMax);
constexpr float kFloatMax = std::numeric_limits<float>::max();
float read_float(TomlTable& table, std::string_view key, float fallback, float min = 0,
                 float max = kFloatMax);
std::optional<float> read_optional_float(TomlTable& table, std::string_view key, float min = 0,
                                         float max = kFloatMax);
// Adds a mistake unless the key is present: "<where> has no '<key>'".
void require(TomlTable& table, std::string_view key, std::string_view where);

// "a, b, c", cut after some names: for hints, because one file may cause thousands of them.
std::string listed(std::span<const std::string_view> names);

// The list of a program and its arguments; empty when absent.
std::vector<std::string> read_program(TomlTable table, std::string_view key);

// Relative file names are below `folder`, the workspace.
DataConfig read_data(TomlTable data, const std::string& folder);
std::vector<LayerConfig> read_layers(TomlTable& root, const DataConfig& data,
                                     const std::string& folder);
// [[table]]
std::vector<TableConfig> read_own_tables(TomlTable& root);
// The data and the layers of the job must have been read.
std::vector<LayerConfig> read_evaluators(TomlTable& root, const JobConfig& job);
void read_optimizer(TomlTable table, JobConfig& job);
// The layers or the tables must have been read.
void read_strategy(TomlTable table, JobConfig& job);
// The data and the layers must have been read.
TrainConfig read_train(TomlTable table, const JobConfig& job);
// [notify], or a file with its keys.
NotifyConfig read_notify(TomlTable table);

// A format of [data]; engine/data/format.cc has the table of the formats' parsers.
struct DataFormat {
  std::string_view name;
  // Reads the format's own keys of [data].
  void (*read)(TomlTable& data, DataConfig& config);
  // The slots as the parser fills them, in the order of nn::Batch.
  std::vector<SlotConfig> (*slots)(const DataConfig& data);
};
std::span<const DataFormat> data_formats();

}  // namespace paddle::config

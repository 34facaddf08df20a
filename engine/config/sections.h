// The sections of job.toml, one reader a file. Mistakes stay in the table for TomlTable::finish().
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/job_config.h"
#include "engine/config/toml_reader.h"

namespace paddle::config {

constexpr std::int64_t kCountMax = 1 << 30;

std::uint32_t read_count(TomlTable& table, std::string_view key, std::uint32_t otherwise,
                         std::int64_t min = 0, std::int64_t max = kCountMax);
// A number that a float can hold, not negative unless `min` is.
constexpr float kFloatMax = std::numeric_limits<float>::max();
float read_float(TomlTable& table, std::string_view key, float otherwise, float min = 0,
                 float max = kFloatMax);
std::optional<float> read_optional_float(TomlTable& table, std::string_view key, float min = 0,
                                         float max = kFloatMax);
// A mistake unless the key is there; `where` is who needs it.
void require(TomlTable& table, std::string_view key, std::string_view where);

// `folder` is the workspace: relative file names are below it.
DataConfig read_data(TomlTable table, const std::string& folder);
std::vector<LayerConfig> read_layers(TomlTable& root, const DataConfig& data,
                                     const std::string& folder);
// Of a job whose data and layers are read.
std::vector<LayerConfig> read_evaluators(TomlTable& root, const JobConfig& job);
// [optimizer] and [strategy].
void read_optimizer(TomlTable table, JobConfig& job);
void read_strategy(TomlTable table, JobConfig& job);

}  // namespace paddle::config

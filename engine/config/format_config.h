// Table of the formats of [data]: the keys that each reads and the slots that it fills.
// engine/data/format.cc has the table of their parsers.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/config/data_config.h"
#include "engine/config/toml_reader.h"

namespace paddle::config {

struct DataFormat {
  std::string_view name;
  // Reads the format's own keys of [data].
  void (*read)(TomlTable& data, DataConfig& config);
  // The slots in the order of nn::Batch.
  std::vector<SlotConfig> (*slots)(const DataConfig& data);
};
std::span<const DataFormat> data_formats();

}  // namespace paddle::config

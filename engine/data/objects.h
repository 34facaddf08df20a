// The data of a trainer: files, or the objects that data.command lists.
#pragma once

#include "engine/config/data_config.h"

namespace paddle::data {

// As config::data_share(), but with data.command the files are the objects that the command lists.
// The command runs in `folder`. kData: it fails, is silent for longer than data.pipe_timeout, lists
// no objects or too many, lists one twice, or a name is invalid.
Result<config::DataShare> find_share(const config::DataConfig& data, const std::string& folder,
                                     const std::string& pattern, std::uint32_t trainer_id,
                                     std::uint32_t num_trainers, bool global_shuffle = false);

}  // namespace paddle::data

// The data of a trainer: files, or the objects that data.command lists.
#pragma once

#include "engine/config/data_config.h"

namespace paddle::data {

// As config::data_share(). A command runs in `folder`; kData: it fails, is silent for longer than
// data.pipe_timeout, or lists no objects, one twice, one that may not be named so, or too many.
Result<config::DataShare> find_share(const config::DataConfig& data, const std::string& folder,
                                     const std::string& pattern, std::uint32_t trainer_id,
                                     std::uint32_t num_trainers, bool global_shuffle = false);

}  // namespace paddle::data

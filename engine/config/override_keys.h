// The keys that --set takes.
#pragma once

#include <string>
#include <vector>

namespace paddle::config {

// "train.passes" and all others below tables, of a job.toml like the one at `path`, which may be
// missing or wrong.
std::vector<std::string> override_keys(const std::string& path);

}  // namespace paddle::config

// Options that several commands have, with one name, help text and limit each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/options/command.h"

namespace paddle::cli {

constexpr std::uint32_t kProcessesMax = 4096;

Option cluster_option(std::string& file);
Option on_option(std::string& nodes);
Option output_option(std::string& folder);
Option workspace_argument(std::string& folder);
Option overrides_option(std::vector<std::string>& overrides);

}  // namespace paddle::cli

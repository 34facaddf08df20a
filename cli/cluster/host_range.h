// "node[01-16].lab" -> node01.lab ... node16.lab: one numeric range per pattern, zero padding kept.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

constexpr std::size_t kRangeNamesMax = 4096;

// A text without '[' is itself. kUsage: more than one range, bounds that are not numbers, last <
// first, too many names.
Result<std::vector<std::string>> expand_range(const std::string& pattern);

}  // namespace paddle::cli

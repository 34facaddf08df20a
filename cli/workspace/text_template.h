// Text with {{words}} that stand for values.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

using TemplateValues = std::vector<std::pair<std::string_view, std::string>>;

// The text with each {{word}} replaced by its value, which is not searched for words in its turn.
// kUsage with `file` and the line of a word that has no value.
Result<std::string> fill_words(std::string_view file, std::string_view text,
                               const TemplateValues& values);

}  // namespace paddle::cli

#include "cli/cluster/host_range.h"

#include <charconv>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

bool parse_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

Result<std::vector<std::string>> expand_range(const std::string& pattern) {
  const auto refuse = [&](const std::string& why) {
    return Error{Errc::kUsage, fmt::format("bad range in '{}': {}", pattern, why),
                 "write a range as node[01-16].lab"};
  };
  const auto open = pattern.find('[');
  if (open == std::string::npos) {
    if (pattern.find(']') != std::string::npos) return refuse("']' without '['");
    return std::vector<std::string>{pattern};
  }
  const auto close = pattern.find(']', open);
  if (close == std::string::npos) return refuse("'[' without ']'");
  if (pattern.find_first_of("[]", close + 1) != std::string::npos) return refuse("only one range");
  const std::string inside = pattern.substr(open + 1, close - open - 1);
  const auto dash = inside.find('-');
  if (dash == std::string::npos) return refuse("expected first-last");
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  if (!parse_number(std::string_view(inside).substr(0, dash), first) ||
      !parse_number(std::string_view(inside).substr(dash + 1), last)) {
    return refuse("first and last must be numbers");
  }
  if (last < first) return refuse("last is below first");
  if (last - first >= kRangeNamesMax) return refuse(fmt::format("over {} names", kRangeNamesMax));
  const bool padded = dash > 1 && inside.front() == '0';
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i <= last - first; ++i) {
    names.push_back(fmt::format("{}{:0{}}{}", pattern.substr(0, open), first + i, padded ? dash : 1,
                                pattern.substr(close + 1)));
  }
  return names;
}

}  // namespace paddle::cli

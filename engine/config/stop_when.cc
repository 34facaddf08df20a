#include "engine/config/stop_when.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace paddle::config {
namespace {

constexpr std::chrono::seconds kDurationMax = std::chrono::hours(24 * 365 * 10);

struct Unit {
  char name;
  std::chrono::seconds length;
};
constexpr std::array<Unit, 4> kUnits{{{'d', std::chrono::hours(24)},
                                      {'h', std::chrono::hours(1)},
                                      {'m', std::chrono::minutes(1)},
                                      {'s', std::chrono::seconds(1)}}};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

bool StopWhen::holds(double value) const {
  switch (relation) {
    case Relation::kLess:
      return value < limit;
    case Relation::kAtMost:
      return value <= limit;
    case Relation::kMore:
      return value > limit;
    case Relation::kAtLeast:
      break;
  }
  return value >= limit;
}

std::optional<StopWhen> parse_stop_when(std::string_view text) {
  const std::size_t sign = text.find_first_of("<>");
  if (sign == std::string_view::npos) return {};
  const bool has_equal = text.substr(sign + 1).starts_with('=');
  StopWhen parsed;
  parsed.text = trimmed(text);
  parsed.figure = trimmed(text.substr(0, sign));
  if (text[sign] == '<') {
    parsed.relation = has_equal ? StopWhen::Relation::kAtMost : StopWhen::Relation::kLess;
  } else {
    parsed.relation = has_equal ? StopWhen::Relation::kAtLeast : StopWhen::Relation::kMore;
  }
  const std::string_view number = trimmed(text.substr(sign + (has_equal ? 2 : 1)));
  const char* const end = number.data() + number.size();
  const auto [at, error] = std::from_chars(number.data(), end, parsed.limit);
  const bool is_number = error == std::errc() && at == end && std::isfinite(parsed.limit);
  const bool has_figure = !parsed.figure.empty() && parsed.figure.find('=') == std::string::npos;
  if (!has_figure || !is_number) return {};
  return parsed;
}

std::optional<std::chrono::seconds> parse_duration(std::string_view text) {
  std::chrono::seconds total{};
  std::string_view left = trimmed(text);
  auto unit = kUnits.begin();
  while (!left.empty()) {
    std::uint32_t count = 0;
    const char* const end = left.data() + left.size();
    const auto [at, error] = std::from_chars(left.data(), end, count);
    if (error != std::errc() || at == end) return {};
    while (unit != kUnits.end() && unit->name != *at) ++unit;
    if (unit == kUnits.end() || count > kDurationMax / unit->length) return {};
    total += count * unit->length;
    if (total > kDurationMax) return {};
    ++unit;
    left.remove_prefix(static_cast<std::size_t>(at + 1 - left.data()));
  }
  if (total == std::chrono::seconds::zero()) return {};
  return total;
}

}  // namespace paddle::config

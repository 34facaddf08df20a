// Iteration over the lines of a text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace paddle::data {

// The lines of a text, without their ends ("\n" or "\r\n").
class Lines {
 public:
  explicit Lines(std::string_view text, std::uint64_t first_line = 0)
      : rest_(text), number_(first_line - 1) {}

  std::optional<std::string_view> next() {
    if (rest_.empty()) return {};
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    return line;
  }
  // Number of the line that next() has returned last, counted from 0.
  std::uint64_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::uint64_t number_;
};

}  // namespace paddle::data

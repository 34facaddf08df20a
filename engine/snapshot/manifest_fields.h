// Fields of a line of MANIFEST.
#pragma once

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "engine/parameter/parameter_set.h"

namespace paddle::snapshot {

// Parser of the fields " key=value" of a line; complete() tells whether all of them matched.
class FieldParser {
 public:
  FieldParser(std::string_view line, std::string_view kind) : rest_(line) {
    good_ = rest_.starts_with(kind);
    if (good_) rest_.remove_prefix(kind.size());
  }
  std::string_view text(std::string_view key) {
    if (!skip(key)) return {};
    const std::string_view value = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(value.size());
    return value;
  }
  // True when an optional field comes next.
  bool has(std::string_view key) const { return rest_.starts_with(fmt::format(" {}=", key)); }
  // A name may contain spaces, so it is the last field.
  std::string name() {
    if (!skip("name")) return {};
    return std::string(std::exchange(rest_, {}));
  }
  template <class T>
  T number(std::string_view key) {
    return parse<T>(text(key));
  }
  template <class T, class... Base>
  T parse(std::string_view value, Base... base) {
    T number{};
    const char* const end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, number, base...);
    if (error != std::errc() || at != end) good_ = false;
    return number;
  }
  // Whole bytes in lower case, as to_hex() writes them.
  template <std::size_t kBytes>
  std::array<std::byte, kBytes> hex(std::string_view key) {
    const std::string_view digits = text(key);
    std::array<std::byte, kBytes> bytes{};
    good_ = good_ && digits.size() == 2 * kBytes;
    for (std::size_t i = 0; good_ && i < kBytes; ++i) {
      bytes[i] = static_cast<std::byte>(parse<std::uint8_t>(digits.substr(2 * i, 2), 16));
    }
    good_ = good_ && to_hex(bytes) == digits;
    return bytes;
  }
  // A count that can be: not one from which training would wrap around.
  std::uint64_t count(std::string_view key, std::uint64_t most = parameter::kCounterMax) {
    const auto number = this->number<std::uint64_t>(key);
    good_ = good_ && number <= most;
    return number;
  }
  bool complete() const { return good_ && rest_.empty(); }

 private:
  bool skip(std::string_view key) {
    good_ = good_ && has(key);
    if (good_) rest_.remove_prefix(fmt::formatted_size(" {}=", key));
    return good_;
  }

  std::string_view rest_;
  bool good_ = true;
};

}  // namespace paddle::snapshot

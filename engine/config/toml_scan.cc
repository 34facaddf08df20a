#include "engine/config/toml_scan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paddle::config {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::size_t kQuotesOfLongString = 3;
constexpr std::size_t kQuotesAtItsEndMax = 5;  // two of them belong to the string

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '"' || c == '\'';
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  std::optional<TomlFault> find_fault() {
    while (!fault_ && !at_end()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"' || c == '\'') {
        take_string(c);
      } else {
        take(c);
      }
    }
    return std::move(fault_);
  }

 private:
  enum class Value : std::uint8_t { kNone, kExpected, kBegun };

  bool at_end() const { return at_ >= text_.size(); }
  bool is_at(char c) const { return !at_end() && text_[at_] == c; }

  void refuse(std::size_t place, std::string message) {
    const std::string_view before = text_.substr(0, place);
    const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
    const auto begins_character = [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0U) != 0x80;
    };
    const auto line_breaks = std::ranges::count(before, '\n');
    const auto characters = std::ranges::count_if(before.substr(line_begin), begins_character);
    fault_ = {static_cast<std::uint32_t>(line_breaks + 1),
              static_cast<std::uint32_t>(characters + 1), std::move(message)};
  }

  // One character outside strings and comments.
  void take(char c) {
    const std::size_t place = at_++;
    if (!is_ascii(c)) {
      return refuse(place, "a character outside ASCII belongs between quotes or into a comment");
    }
    if (is_blank(c) || c == '\r') return;
    const bool begins_statement = std::exchange(begins_statement_, c == '\n' && open_.empty());
    if (std::string_view("=,[{.").find(c) != std::string_view::npos && ++parts_ > kTomlPartsMax) {
      return refuse(place, fmt::format("the file has over {} keys and values", kTomlPartsMax));
    }
    if (c == '.' && ++dots_ >= kKeyPartsMax) {
      return refuse(place, fmt::format("a key has at most {} parts", kKeyPartsMax));
    }
    if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) dots_ = 0;
    if (c == '[' && begins_statement) return take_header(place);
    if (c == '[' || c == '{') return open(place, c);
    if (c == ']' || c == '}') return close(place, c);
    if (c == '=' && value_ != Value::kNone) {
      return refuse(place, "'=' cannot stand within a value");
    }
    if (c == '=' || (c == ',' && is_in_array())) {
      value_ = Value::kExpected;
    } else if (c == ',' || (c == '\n' && open_.empty())) {
      value_ = Value::kNone;
    } else if (c != '\n' && value_ == Value::kExpected) {
      value_ = Value::kBegun;
    }
  }

  bool is_in_array() const { return !open_.empty() && open_.back() == '['; }

  void open(std::size_t place, char c) {
    if (value_ != Value::kExpected) return refuse(place, fmt::format("'{}' cannot stand here", c));
    if (open_.size() == kNestedMax) {
      return refuse(place, fmt::format("values lie at most {} deep in each other", kNestedMax));
    }
    open_ += c;
    value_ = c == '[' ? Value::kExpected : Value::kNone;
  }

  void close(std::size_t place, char c) {
    if (open_.empty()) return;  // of a header, or refused by the parser
    if (open_.back() != (c == ']' ? '[' : '{')) {
      return refuse(place, fmt::format("'{}' does not close the '{}'", c, open_.back()));
    }
    open_.pop_back();
    value_ = Value::kBegun;
  }

  // A table's or an array's header, from behind its first bracket to its name.
  void take_header(std::size_t place) {
    if (is_at('[')) ++at_;
    while (!at_end() && is_blank(text_[at_])) ++at_;
    const bool refused_later = at_end() || is_at(']') || !is_ascii(text_[at_]);
    if (refused_later || begins_name(text_[at_])) return;
    refuse(place, "a table's name must follow '[' on the same line");
  }

  std::size_t count_quotes(char quote) const {
    const std::size_t end = std::min(text_.find_first_not_of(quote, at_), text_.size());
    return end - at_;
  }

  // The parser would read a quote within a number or a name as part of it, and then what is behind
  // it as if no string had begun. A value goes on for it up to a blank, ',', ']', '}' or '#'.
  void take_string(char quote) {
    begins_statement_ = false;
    const std::string_view before = text_.substr(0, at_);
    const bool begins_name =
        value_ == Value::kNone &&
        (before.empty() || before == kByteOrderMark ||
         std::string_view(" \t\r\n,.[{").find(before.back()) != std::string_view::npos);
    if (!begins_name && value_ != Value::kExpected)
      return refuse(at_, "a quote begins a string, and cannot stand within a word");
    if (value_ == Value::kExpected) value_ = Value::kBegun;
    skip_string(quote);
  }

  void skip_string(char quote) {
    const std::size_t opening = count_quotes(quote);
    if (opening == 2) {  // the empty string
      at_ += opening;
      return;
    }
    const bool is_long = opening >= kQuotesOfLongString;
    at_ += is_long ? kQuotesOfLongString : 1;
    while (!fault_ && !at_end()) {
      const char c = text_[at_];
      if (c == '\n' && !is_long) return;  // the parser refuses it
      if (c == '\\' && quote == '"') {
        skip_escape();
      } else if (c != quote) {
        ++at_;
      } else if (const std::size_t closing = count_quotes(quote);
                 !is_long || closing >= kQuotesOfLongString) {
        at_ += is_long ? std::min(closing, kQuotesAtItsEndMax) : 1;
        return;
      } else {
        at_ += closing;
      }
    }
  }

  // A backslash may stand at the end of a line; then it removes all blanks up to the next
  // character.
  void skip_escape() {
    const std::size_t place = at_++;
    const std::size_t next = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    if (next < text_.size() && !is_ascii(text_[next])) {
      return refuse(place, "a character outside ASCII cannot follow a backslash");
    }
    if (next == at_ && !at_end()) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string open_;  // brackets and braces of values
  Value value_ = Value::kNone;
  std::size_t dots_ = 0;   // of the key that may be read now
  std::size_t parts_ = 0;  // keys, values and tables so far
  bool begins_statement_ = true;
  std::optional<TomlFault> fault_;
};

}  // namespace

std::optional<TomlFault> find_toml_fault(std::string_view text) {
  return Scanner(text).find_fault();
}

}  // namespace paddle::config

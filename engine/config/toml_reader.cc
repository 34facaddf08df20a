#include "engine/config/toml_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 1
#include <toml++/toml.h>

#include "base/fd.h"
#include "base/text.h"

namespace paddle::config {
namespace {

// Scans TOML text before toml++ 3.3 parses it, and refuses valid and invalid text that would abort
// that library, overflow its stack or make its behaviour undefined.

// Bounds of depth: the library frees tables and arrays recursively.
constexpr std::size_t kKeyPartsMax = 32;  // of "a.b.c": 3
constexpr std::size_t kNestedMax = 32;    // arrays and inline tables
// Each part takes some 200 bytes of memory, so that a file of a megabyte takes at most 50 MB.
constexpr std::size_t kTomlPartsMax = 200000;  // keys, values and tables of a file

struct TomlFault {
  std::uint32_t line = 1;
  std::uint32_t column = 1;  // in characters, as toml++ counts
  std::string message;
};

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::size_t kQuotesOfLongString = 3;
constexpr std::size_t kClosingQuotesMax = 5;  // two of them belong to the string

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

  // Scans one character outside strings and comments.
  void take(char c) {
    const std::size_t place = at_++;
    if (!is_ascii(c)) {
      return refuse(place, "a character outside ASCII is allowed only in quotes or in a comment");
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
      return refuse(place, "'=' is not allowed within a value");
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
    if (value_ != Value::kExpected)
      return refuse(place, fmt::format("'{}' is not allowed here", c));
    if (open_.size() == kNestedMax) {
      return refuse(place, fmt::format("values can be nested at most {} deep", kNestedMax));
    }
    open_ += c;
    value_ = c == '[' ? Value::kExpected : Value::kNone;
  }

  void close(std::size_t place, char c) {
    if (open_.empty()) return;  // ends a header, or the parser refuses it
    if (open_.back() != (c == ']' ? '[' : '{')) {
      return refuse(place, fmt::format("'{}' does not close the '{}'", c, open_.back()));
    }
    open_.pop_back();
    value_ = Value::kBegun;
  }

  // Scans the header of a table or an array, from behind its first bracket to its name.
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

  // Refuses a quote within a number or a name. The parser would read it as part of that word, and
  // the text behind it as if no string had begun: for the parser, a value ends only at a blank,
  // ',', ']', '}' or '#'.
  void take_string(char quote) {
    begins_statement_ = false;
    const std::string_view before = text_.substr(0, at_);
    const bool begins_name =
        value_ == Value::kNone &&
        (before.empty() || before == kByteOrderMark ||
         std::string_view(" \t\r\n,.[{").find(before.back()) != std::string_view::npos);
    if (!begins_name && value_ != Value::kExpected)
      return refuse(at_, "a quote begins a string, and is not allowed within a word");
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
        at_ += is_long ? std::min(closing, kClosingQuotesMax) : 1;
        return;
      } else {
        at_ += closing;
      }
    }
  }

  // A backslash at the end of a line removes all blanks up to the next character.
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

// The first fault. Text without a fault may still be invalid TOML, which the parser reports.
std::optional<TomlFault> find_toml_fault(std::string_view text) {
  return Scanner(text).find_fault();
}

// Text of TOML files and overrides: lines and sections for error messages, quoting.

// The line with this number, counted from 1, with blanks for tabs; "" past the end.
std::string line_of(std::string_view text, std::size_t number) {
  for (std::size_t line = 1; line < number; ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return "";
    text.remove_prefix(end + 1);
  }
  std::string line(text.substr(0, text.find_first_of("\r\n")));
  std::ranges::replace(line, '\t', ' ');
  return line;
}

// "data.slot" on a line below [[data.slot]]; "" above the first table.
std::string section_at(std::string_view text, std::size_t line) {
  std::string section;
  for (std::size_t number = 1; number <= line && !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    const std::string_view head = text.substr(0, text.find_first_of("]#\r\n"));
    const std::size_t name = head.find_first_not_of("[ ");
    if (head.starts_with('[') && name != head.npos) section = head.substr(name);
    text.remove_prefix(end + 1);
  }
  return section;
}

// "train" for "--set train.passes=3"; "" for other text, and for a key outside of all tables.
std::string section_set_by(std::string_view source) {
  constexpr std::string_view kSet = "--set ";
  if (!source.starts_with(kSet)) return "";
  source.remove_prefix(kSet.size());
  const std::size_t end = source.find_first_of(".=");
  return end != source.npos && source[end] == '.' ? std::string(source.substr(0, end)) : "";
}

// The override `name=say "hi"` with its value as a TOML string: name="say \"hi\"".
std::string with_quoted_value(std::string_view override_text) {
  const std::size_t value = std::min(override_text.find('='), override_text.size() - 1) + 1;
  std::string quoted(override_text.substr(0, value));
  quoted += '"';
  for (const char c : override_text.substr(value)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// "data" for "data.slot".
std::string_view outermost(std::string_view section) {
  return section.substr(0, section.find('.'));
}

// The anchor of the section's heading on a page: "dataslot".
std::string anchor_of(std::string_view section) {
  std::string anchor(section);
  std::erase(anchor, '.');
  return anchor;
}

}  // namespace

constexpr std::size_t kMistakesMax = 16;  // kept; one of them is shown

// A position in the file or in an override; `name` says in which.
struct Location {
  std::string name;
  toml::source_position at;

  bool operator==(const Location&) const = default;
};

struct Mistake {
  Location location;
  std::string message;
  std::string hint;
  bool is_absence = false;     // a key is absent; the location is its table's
  bool is_wrong_type = false;  // the value is of another type than the key takes
};

struct OpenTable {
  toml::table* table = nullptr;
  toml::source_region source;           // for mistakes about the table itself
  std::vector<std::string_view> known;  // keys that were looked up, ascending
  std::string name = {};                // "train" for [train]; "" for a table below another

  bool knows(std::string_view key) const { return std::ranges::binary_search(known, key); }
};

// The document behind a TomlTable: the parsed file, the tables opened so far, and the mistakes
// found in them.
struct TomlDocument {
  std::string name;
  std::string page;  // documentation of the keys, in docs/
  std::string text;
  toml::table root;
  std::deque<toml::table> absent;  // placeholders for absent tables that were looked up
  std::deque<OpenTable> open;
  std::unordered_map<const toml::table*, std::size_t> places;  // of tables in `open`
  std::set<std::string, std::less<>> words;        // storage that OpenTable::known points to
  std::set<std::string, std::less<>> lists_below;  // "data.slot": lists in a table that were read
  std::vector<Mistake> mistakes;
  std::optional<Location> reported_first;  // a mistake there comes before all others

  Location locate(const toml::source_region& region) const {
    return {region.path ? *region.path : name, region.begin};
  }
  // "job.toml:12", or only the name for an override and for the root.
  std::string place_of(const toml::source_region& region) const;
  void add(const toml::source_region& region, std::string message, std::string_view hint = "",
           bool is_absence = false) {
    keep({locate(region), std::move(message), std::string(hint), is_absence});
  }
  // Keeps at most kMistakesMax; drops the last one in the order of verdict().
  void keep(Mistake mistake);
  // Marks the key as looked up.
  void know(OpenTable& in, std::string_view key);
  void add_wrong_type(const toml::node& found, std::string_view key, std::string_view wanted);
  // Whether --set has made a table of the list [[name]], which is a mistake.
  bool refuse_set_of_list(const toml::node* found, std::string_view list);
  // Adds the first unknown key in the order of verdict().
  void add_unknown_key();
  // Returns the first mistake. Absent keys come last, because a misspelt key is absent too.
  // Mistakes in the file come before those in overrides, each in their order. Only an override of
  // the wrong type comes before the file: it may be meant to set what the file lacks.
  Status verdict() const;

  // A table that is opened twice has one entry, so that a key looked up through either is known.
  std::size_t open_table(toml::table& table, const toml::source_region& source,
                         std::string_view called = "");
  // Every key of each table that was looked up: "train.passes".
  std::vector<std::string> known_keys() const;
  // The known key that `unknown` in this table probably means; "" if there is none.
  std::string meant_by(std::string_view unknown, const OpenTable& table) const;

  Result<toml::table> parse_text(std::string_view content, const std::string& source) const;
  Status apply(const std::string& override_text);

 private:
  std::string page_of(const Location& location) const;
  Error error(Mistake mistake) const;
  std::string below_a_table(std::string_view key) const;
};

namespace {

constexpr std::size_t kLineShownMax = 400;

// Keys by their names in pandas, scikit-learn, Keras and PyTorch. The names in the second array
// mean other keys in other tables.
using Names = std::pair<std::string_view, std::string_view>;
constexpr std::array<Names, 18> kNamesElsewhere{{
    {"lr", "learning_rate"},
    {"eta", "learning_rate"},
    {"epochs", "passes"},
    {"epoch", "passes"},
    {"num_epochs", "passes"},
    {"n_epochs", "passes"},
    {"max_epochs", "passes"},
    {"num_passes", "passes"},
    {"batch", "batch_size"},
    {"bs", "batch_size"},
    {"sep", "delimiter"},
    {"separator", "delimiter"},
    {"names", "columns"},
    {"valid", "test"},
    {"validation", "test"},
    {"patience", "stop_after_worse"},
    {"shuffle", "shuffle_records"},
    {"optimizer", "method"},
}};
constexpr std::array<Names, 5> kNamesElsewhereInATable{
    {{"type", "method"}, {"type", "format"}, {"units", "size"}, {"dim", "size"}, {"dim", "width"}}};

std::string_view type_name(const toml::node& node) {
  // In the order of toml::node_type, whose dates and times come last.
  constexpr std::array<std::string_view, 8> kNames{"none",          "a table",       "an array",
                                                   "a string",      "an integer",    "a number",
                                                   "true or false", "a date or time"};
  return kNames[std::min(static_cast<std::size_t>(node.type()), kNames.size() - 1)];
}

enum class Rank { kOverrideOfWrongType, kFile, kOverride };

std::tuple<bool, Rank, std::uint32_t, std::uint32_t> order_of(const Mistake& mistake) {
  const bool is_override = mistake.location.name.starts_with("--set ");
  const Rank rank = !is_override            ? Rank::kFile
                    : mistake.is_wrong_type ? Rank::kOverrideOfWrongType
                                            : Rank::kOverride;
  return {mistake.is_absence, rank, mistake.location.at.line, mistake.location.at.column};
}

bool precedes(const Mistake& a, const Mistake& b) {
  return order_of(a) < order_of(b);
}

// Moves every leaf of `from` over `to` and keeps its source location.
void merge(toml::table& to, toml::table&& from) {
  for (auto&& [key, node] : from) {
    toml::table* const below = to[key].as_table();
    if (below != nullptr && node.is_table()) {
      merge(*below, std::move(*node.as_table()));
      continue;
    }
    to.erase(key);  // so that the location of the new key is kept too
    node.visit([&to, &name = key](auto& value) { to.insert_or_assign(name, std::move(value)); });
  }
}

// The value of --set in TOML's notation: "0.1" for ".1"; "" if it is no number, or no integer where
// one is wanted.
std::string number_in_toml(std::string_view text, bool is_integer) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  const bool is_one = at == end && error == std::errc() && std::isfinite(number);
  if (!is_one || (is_integer && std::floor(number) != number)) return "";
  return std::abs(number) < 1e15 ? fmt::format("{}", number) : "";
}

bool is_beyond_range(std::string_view text, bool is_integer) {
  const bool is_of_digits = text.find_first_not_of("+-0123456789") == text.npos;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (at != end || text.empty()) return false;
  return error == std::errc::result_out_of_range ||
         (is_integer && is_of_digits && error == std::errc() && std::abs(number) > 1e15);
}

// The hint for "--set <key>=<text>" whose value must be of another type: `key` ends with '='. ""
// if nothing is known.
std::string hint_for_set(std::string_view key, std::string_view text, std::string_view wanted) {
  if (wanted.starts_with("an array of strings"))
    return fmt::format(R"(quote it for the shell: --set '{}["one", "two"]')", key);
  if (wanted == "true or false") {
    constexpr auto kTrue = std::to_array<std::string_view>({"true", "yes", "on"});
    constexpr auto kFalse = std::to_array<std::string_view>({"false", "no", "off"});
    const std::string lower = lower_case(text);
    if (std::ranges::find(kTrue, lower) != kTrue.end()) return fmt::format("--set {}true", key);
    if (std::ranges::find(kFalse, lower) != kFalse.end()) return fmt::format("--set {}false", key);
    return "";
  }
  const bool is_integer = wanted == "an integer";
  if (!is_integer && wanted != "a number") return "";
  if (text.starts_with('+')) text.remove_prefix(1);  // from_chars() refuses it
  if (is_beyond_range(text, is_integer)) {
    return is_integer ? "an integer is from -2^63 to 2^63-1"
                      : "a number is from -1.8e308 to 1.8e308";
  }
  const std::string number = number_in_toml(text, is_integer);
  return number.empty() ? "" : fmt::format("--set {}{}", key, number);
}

}  // namespace

void TomlDocument::keep(Mistake mistake) {
  const auto is_reported_first = [this](const Mistake& one) {
    return one.location == reported_first;
  };
  mistakes.push_back(std::move(mistake));
  if (mistakes.size() <= kMistakesMax) return;
  const auto last = std::ranges::max_element(mistakes, [&](const Mistake& a, const Mistake& b) {
    return std::pair(!is_reported_first(a), order_of(a)) <
           std::pair(!is_reported_first(b), order_of(b));
  });
  mistakes.erase(last);
}

void TomlDocument::know(OpenTable& in, std::string_view key) {
  const auto place = std::ranges::lower_bound(in.known, key);
  if (place != in.known.end() && *place == key) return;
  auto word = words.find(key);
  if (word == words.end()) word = words.emplace(key).first;
  in.known.insert(place, *word);
}

void TomlDocument::add_wrong_type(const toml::node& found, std::string_view key,
                                  std::string_view wanted) {
  const Location location = locate(found.source());
  std::string hint;
  const auto* const word = found.as_string();
  if (word != nullptr && location.name.starts_with("--set "))
    hint = hint_for_set(location.name.substr(6, location.name.find('=') - 5), word->get(), wanted);
  keep({location, fmt::format("'{}' must be {}, not {}", key, wanted, type_name(found)),
        std::move(hint), false, true});
}

bool TomlDocument::refuse_set_of_list(const toml::node* found, std::string_view list) {
  if (found == nullptr || !found->is_table()) return false;
  const Location location = locate(found->source());
  if (!location.name.starts_with("--set ")) return false;
  keep({location, fmt::format("--set cannot change [[{}]]", list), "change it in " + name, false,
        true});
  return true;
}

std::string TomlDocument::place_of(const toml::source_region& region) const {
  const Location found = locate(region);
  const bool has_line = found.name == name && found.at.line > 0;
  return has_line ? fmt::format("{}:{}", found.name, found.at.line) : found.name;
}

// The documentation of the keys in the mistake's table: "see docs/job.md#train".
std::string TomlDocument::page_of(const Location& location) const {
  const std::string section =
      location.name == name ? section_at(text, location.at.line) : section_set_by(location.name);
  const bool known = !open.empty() && open.front().knows(outermost(section));
  // Pages have a heading for a section, and for a list in it, but for no table below these.
  const bool is_list = lists_below.contains(section);
  return "see " + page + (known ? "#" + anchor_of(is_list ? section : outermost(section)) : "");
}

Error TomlDocument::error(Mistake mistake) const {
  if (mistake.hint.empty()) mistake.hint = page_of(mistake.location);
  const toml::source_position at = mistake.location.at;
  // The name of an override is its whole text.
  if (mistake.location.name != name || at.line == 0) {
    return {Errc::kUsage, fmt::format("{}: {}", mistake.location.name, mistake.message),
            mistake.hint};
  }
  std::string shown = fmt::format("{}:{}:{}: {}", name, at.line, at.column, mistake.message);
  const std::string line = escape_control(line_of(text, at.line));
  if (line.size() <= kLineShownMax) shown += fmt::format("\n  {}\n  {:>{}}", line, '^', at.column);
  return {Errc::kUsage, std::move(shown), mistake.hint};
}

std::size_t TomlDocument::open_table(toml::table& table, const toml::source_region& source,
                                     std::string_view called) {
  const auto [found, is_new] = places.emplace(&table, open.size());
  if (is_new) open.push_back({&table, source, {}, std::string(called)});
  return found->second;
}

std::vector<std::string> TomlDocument::known_keys() const {
  std::vector<std::string> keys;
  for (const OpenTable& opened : open) {
    if (opened.name.empty()) continue;
    for (const std::string_view key : opened.known)
      keys.push_back(fmt::format("{}.{}", opened.name, key));
  }
  return keys;
}

// "train.passes" for "passes" outside its table.
std::string TomlDocument::below_a_table(std::string_view key) const {
  for (const std::string& known : known_keys())
    if (known.substr(known.find('.') + 1) == key) return known;
  return "";
}

std::string TomlDocument::meant_by(std::string_view unknown, const OpenTable& table) const {
  for (const auto& [elsewhere, here] : kNamesElsewhere) {
    if (elsewhere != unknown) continue;
    if (table.knows(here)) return std::string(here);
    if (std::string key = below_a_table(here); !key.empty()) return key;
  }
  for (const auto& [elsewhere, here] : kNamesElsewhereInATable) {
    if (elsewhere == unknown && table.knows(here)) return std::string(here);
  }
  std::string near = nearest(unknown, table.known);
  const bool is_at_the_top = &table == &open.front();
  if (!near.empty() && !is_at_the_top) return near;
  const std::string key = below_a_table(unknown);
  return key.empty() ? near : key;
}

void TomlDocument::add_unknown_key() {
  std::optional<Mistake> first;
  const OpenTable* table = nullptr;
  std::string_view unknown;
  for (const OpenTable& opened : open) {
    for (const auto& [key, node] : *opened.table) {
      if (opened.knows(key.str())) continue;
      Mistake found{locate(key.source()), "", "", false};
      if (first && !precedes(found, *first)) continue;
      first = std::move(found);
      table = &opened;
      unknown = key.str();
    }
  }
  if (!first) return;
  const std::string near = meant_by(unknown, *table);
  first->message = near.empty()
                       ? fmt::format("unknown key '{}'", unknown)
                       : fmt::format("unknown key '{}', did you mean '{}'?", unknown, near);
  keep(*std::move(first));
}

Status TomlDocument::verdict() const {
  if (mistakes.empty()) return {};
  const auto first = std::ranges::find(mistakes, reported_first, &Mistake::location);
  return error(first != mistakes.end()
                   ? *first
                   : *std::min_element(mistakes.begin(), mistakes.end(), precedes));
}

Result<toml::table> TomlDocument::parse_text(std::string_view content,
                                             const std::string& source) const {
  if (auto fault = find_toml_fault(content)) {
    return error({{source, {fault->line, fault->column}}, std::move(fault->message), "", false});
  }
  toml::parse_result result = toml::parse(content, std::string_view(source));
  if (result) return std::move(result).table();
  const toml::parse_error& wrong = result.error();
  return error({{source, wrong.source().begin}, std::string(wrong.description()), "", false});
}

Status TomlDocument::apply(const std::string& override_text) {
  const std::string source = "--set " + override_text;
  const std::size_t equals = override_text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error{Errc::kUsage, source + ": not of the form key=value",
                 "for example --set train.passes=3"};
  }
  // A list of overrides in an environment variable has one override per line.
  if (override_text.find('\n') != std::string::npos) {
    const std::string key = override_text.substr(0, std::min(equals, override_text.find('\n')));
    return Error{Errc::kUsage, fmt::format("--set {}: the value has a line break", key),
                 fmt::format(R"(write \n within double quotes: --set '{}="one\ntwo"')", key)};
  }
  auto parsed = parse_text(override_text, source);
  if (!parsed) {  // a bare word is a string
    parsed = parse_text(with_quoted_value(override_text), source);
    if (!parsed) return std::move(parsed).error();
  }
  merge(root, *std::move(parsed));
  return {};
}

namespace {

// toml++ 3.3 writes some strings with a line break in a form that it cannot read again.
constexpr toml::format_flags kOneLine = toml::toml_formatter::default_flags &
                                        ~toml::format_flags::allow_multi_line_strings &
                                        ~toml::format_flags::allow_literal_strings;

// The node under `key`, which counts as looked up from here on.
toml::node* look_up(TomlDocument& document, OpenTable& in, std::string_view key) {
  document.know(in, key);
  return in.table->get(key);
}

// The value, array or table under `key`; null when it is absent, or of another type, which is a
// mistake.
template <class T>
auto look_up_as(TomlDocument& document, std::size_t index, std::string_view key,
                std::string_view wanted) {
  toml::node* const node = look_up(document, document.open[index], key);
  auto* const value = node == nullptr ? nullptr : node->as<T>();
  if (node != nullptr && value == nullptr) document.add_wrong_type(*node, key, wanted);
  return value;
}

// An array of at most so many values. Null if there is none, and with a mistake for another value.
const toml::array* look_up_array(TomlDocument& document, std::size_t index, std::string_view key,
                                 std::string_view wanted, std::size_t at_most) {
  const auto* const array = look_up_as<toml::array>(document, index, key, wanted);
  if (array == nullptr || array->size() <= at_most) return array;
  document.add(array->source(), fmt::format("'{}' has {} values, but at most {} are allowed", key,
                                            array->size(), at_most));
  return nullptr;
}

// The value if it is in its range; else the fallback, and a mistake.
template <class T>
T checked(TomlDocument& document, const toml::node& node, std::string_view key, T value, T fallback,
          T min, T max) {
  if (value >= min && value <= max) return value;
  bool has_no_max = max == std::numeric_limits<T>::max();
  if constexpr (std::is_floating_point_v<T>)  // the largest float only matters to larger values
    has_no_max = has_no_max || (value < min && max == T{std::numeric_limits<float>::max()});
  const std::string range =
      has_no_max ? fmt::format("at least {}", min) : fmt::format("from {} to {}", min, max);
  document.add(node.source(), fmt::format("'{}' is {}, but must be {}", key, value, range));
  return fallback;
}

}  // namespace

Result<TomlTable> TomlTable::read(const std::string& path,
                                  const std::vector<std::string>& overrides,
                                  std::string_view page) {
  auto text = read_file(path, kConfigBytesMax);
  if (!text) return Error{Errc::kUsage, text.error().message, text.error().hint};
  return parse(*text, path, overrides, page);
}

Result<TomlTable> TomlTable::parse(std::string_view text, const std::string& name,
                                   const std::vector<std::string>& overrides,
                                   std::string_view page) {
  auto document = std::make_shared<TomlDocument>();
  document->name = name;
  document->page = page;
  document->text = text;
  PADDLE_TRY(document->root, document->parse_text(text, name));
  for (const std::string& one : overrides) PADDLE_TRY_STATUS(document->apply(one));
  document->open_table(document->root, {});
  return TomlTable(std::move(document), 0);
}

bool TomlTable::has(std::string_view key) const {
  return document_->open[index_].table->contains(key);
}

bool TomlTable::is_string(std::string_view key) const {
  const toml::node* const node = document_->open[index_].table->get(key);
  return node != nullptr && node->is_string();
}

bool TomlTable::is_list(std::string_view key) const {
  const toml::node* const node = document_->open[index_].table->get(key);
  return node != nullptr && node->is_array();
}

std::string TomlTable::string(std::string_view key, std::string_view fallback) {
  const auto* const value = look_up_as<std::string>(*document_, index_, key, "a string");
  return value == nullptr ? std::string(fallback) : value->get();
}

std::string TomlTable::choice(std::string_view key, std::string_view fallback,
                              std::span<const std::string_view> choices) {
  std::string value = string(key, fallback);
  if (!is_string(key) || std::ranges::find(choices, value) != choices.end()) return value;
  const std::string near = nearest(value, choices);
  fail(key, fmt::format("'{}' is '{}', but must be one of '{}'{}", key, value,
                        fmt::join(choices, "', '"),
                        near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
  return std::string(fallback);
}

std::int64_t TomlTable::integer(std::string_view key, std::int64_t fallback, std::int64_t min,
                                std::int64_t max) {
  const auto* const value = look_up_as<std::int64_t>(*document_, index_, key, "an integer");
  if (value == nullptr) return fallback;
  return checked(*document_, *value, key, value->get(), fallback, min, max);
}

double TomlTable::number(std::string_view key, double fallback, double min, double max) {
  const toml::node* const node = look_up(*document_, document_->open[index_], key);
  if (node == nullptr) return fallback;
  if (!node->is_number()) {
    document_->add_wrong_type(*node, key, "a number");
    return fallback;
  }
  return checked(*document_, *node, key, node->value<double>().value_or(fallback), fallback, min,
                 max);
}

bool TomlTable::boolean(std::string_view key, bool fallback) {
  const auto* const value = look_up_as<bool>(*document_, index_, key, "true or false");
  return value == nullptr ? fallback : value->get();
}

std::vector<std::string> TomlTable::strings(std::string_view key, std::size_t at_most) {
  return texts(key, at_most, "an array of strings", false);
}

std::vector<std::string> TomlTable::words(std::string_view key, std::size_t at_most) {
  return texts(key, at_most, "an array of strings and whole numbers", true);
}

std::vector<std::string> TomlTable::texts(std::string_view key, std::size_t at_most,
                                          std::string_view wanted, bool takes_numbers) {
  std::vector<std::string> values;
  const auto* const array = look_up_array(*document_, index_, key, wanted, at_most);
  if (array == nullptr) return values;
  for (const toml::node& element : *array) {
    const auto* const number = takes_numbers ? element.as_integer() : nullptr;
    if (const auto* const text = element.as_string()) {
      values.push_back(text->get());
    } else if (number != nullptr) {
      values.push_back(fmt::format("{}", number->get()));
    } else {
      document_->add_wrong_type(element, key, wanted);
    }
  }
  return values;
}

std::vector<double> TomlTable::numbers(std::string_view key, std::size_t at_most) {
  std::vector<double> values;
  constexpr std::string_view kWanted = "an array of numbers";
  const auto* const array = look_up_array(*document_, index_, key, kWanted, at_most);
  if (array == nullptr) return values;
  for (const toml::node& element : *array) {
    if (const auto number = element.value<double>(); number && element.is_number()) {
      values.push_back(*number);
    } else {
      document_->add_wrong_type(element, key, kWanted);
    }
  }
  return values;
}

std::vector<std::string> TomlTable::literals(std::string_view key, std::size_t at_most) {
  std::vector<std::string> values;
  const auto* const array = look_up_array(*document_, index_, key, "an array", at_most);
  if (array == nullptr) return values;
  for (const toml::node& element : *array) {
    std::ostringstream text;
    if (element.is_table()) {
      document_->add_wrong_type(element, key, "an array of values");
    } else if (const auto* const number = element.as_floating_point()) {
      text << fmt::format("{}", number->get());
    } else if (const auto* const string = element.as_string()) {
      text << toml::toml_formatter(*string, kOneLine);
    } else if (const auto* const list = element.as_array()) {
      text << toml::toml_formatter(*list, kOneLine);
    } else {
      element.visit([&](const auto& value) { text << value; });
    }
    std::string line = std::move(text).str();
    std::ranges::replace(line, '\n', ' ');  // the formatter breaks long lists
    values.push_back(std::move(line));
  }
  return values;
}

TomlTable TomlTable::table(std::string_view key) {
  auto* const below = look_up_as<toml::table>(*document_, index_, key, "a table");
  const OpenTable& opened = document_->open[index_];
  const toml::node* const node = opened.table->get(key);
  const toml::source_region source = node == nullptr ? opened.source : node->source();
  toml::table& found = below == nullptr ? document_->absent.emplace_back() : *below;
  return {document_, document_->open_table(found, source, index_ == 0 ? key : "")};
}

std::vector<TomlTable> TomlTable::tables(std::string_view key, std::size_t at_most) {
  const std::string& in = document_->open[index_].name;
  const std::string name = in.empty() ? std::string(key) : fmt::format("{}.{}", in, key);
  if (!in.empty()) document_->lists_below.insert(name);
  const std::string wanted = fmt::format("an array of tables, [[{}]]", key);
  std::vector<TomlTable> found;
  if (document_->refuse_set_of_list(document_->open[index_].table->get(key), name)) {
    document_->know(document_->open[index_], key);
    return found;
  }
  auto* const array = look_up_as<toml::array>(*document_, index_, key, wanted);
  if (array == nullptr) return found;
  if (array->size() > at_most) {
    document_->add(array->source(), fmt::format("there are {} [[{}]], but at most {} are allowed",
                                                array->size(), key, at_most));
    return found;
  }
  for (toml::node& element : *array) {
    if (toml::table* const below = element.as_table()) {
      found.push_back(TomlTable(document_, document_->open_table(*below, element.source())));
    } else {
      document_->add_wrong_type(element, key, wanted);
    }
  }
  return found;
}

std::vector<std::string> TomlTable::known_keys() const {
  return document_->known_keys();
}

std::string TomlTable::location() const {
  return document_->place_of(document_->open[index_].source);
}

std::string TomlTable::location(std::string_view key) const {
  const OpenTable& opened = document_->open[index_];
  const toml::node* const node = opened.table->get(key);
  return document_->place_of(node == nullptr ? opened.source : node->source());
}

void TomlTable::fail(std::string_view key, std::string_view message, std::string_view hint) {
  OpenTable& opened = document_->open[index_];
  const toml::node* const node = look_up(*document_, opened, key);
  document_->add(node == nullptr ? opened.source : node->source(), std::string(message), hint,
                 node == nullptr);
}

void TomlTable::decides(std::string_view key) {
  const toml::node* const node = document_->open[index_].table->get(key);
  if (node != nullptr) document_->reported_first = document_->locate(node->source());
}

const std::string& TomlTable::written_text() const {
  return document_->text;
}

std::string TomlTable::resolved_text() const {
  std::ostringstream text;
  text << toml::toml_formatter(document_->root, kOneLine) << '\n';
  return std::move(text).str();
}

namespace {

void add_settings(const toml::node& node, const std::string& key,
                  std::map<std::string, std::string>& found) {
  const auto below = [&](std::string_view name) {
    return key.empty() ? std::string(name) : fmt::format("{}.{}", key, name);
  };
  if (const toml::table* const table = node.as_table()) {
    for (const auto& [name, value] : *table) add_settings(value, below(name.str()), found);
    return;
  }
  const toml::array* const list = node.as_array();
  if (list != nullptr && !list->empty() && list->is_homogeneous<toml::table>()) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      const auto name = list->get_as<toml::table>(i)->get_as<std::string>("name");
      add_settings(*list->get(i), below(name != nullptr ? name->get() : fmt::format("{}", i)),
                   found);
    }
    return;
  }
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  std::string line = node.is_string()           ? node.as_string()->get()
                     : node.is_floating_point() ? fmt::format("{}", node.as_floating_point()->get())
                                                : std::move(text).str();
  std::ranges::replace(line, '\n', ' ');
  found[key] = std::move(line);
}

}  // namespace

std::map<std::string, std::string> TomlTable::settings() const {
  std::map<std::string, std::string> found;
  add_settings(document_->root, "", found);
  return found;
}

void TomlTable::replace(std::string_view key, std::string_view value) {
  document_->open[index_].table->insert_or_assign(key, value);
}

void TomlTable::prefer_override(std::string_view key, std::string_view other) {
  if (!has(key) || !has(other)) return;
  const bool is_set = location(key).starts_with("--set ");
  const bool is_other_set = location(other).starts_with("--set ");
  if (is_set == is_other_set) return;  // both from the file, or both overrides: a mistake
  document_->open[index_].table->erase(is_set ? other : key);
}

Status TomlTable::finish() {
  document_->add_unknown_key();
  return document_->verdict();
}

}  // namespace paddle::config

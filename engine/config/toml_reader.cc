#include "engine/config/toml_reader.h"

#include <algorithm>
#include <array>
#include <deque>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "base/fd.h"
#include "base/text.h"
#include "engine/config/section.h"
#include "engine/config/toml_scan.h"

namespace paddle::config {
namespace {

constexpr std::size_t kLineShownMax = 400;

// A position in the file or in an override, which `name` tells apart.
struct Location {
  std::string name;
  toml::source_position at;
};

struct Mistake {
  Location location;
  std::string message;
  std::string hint;
  bool is_absence = false;  // of a key; the location is its table's
};

struct OpenTable {
  const toml::table* table = nullptr;
  toml::source_region source;                // for mistakes about the table itself
  std::set<std::string, std::less<>> known;  // keys that were looked up
  std::string name = {};                     // "train", of [train]
};

std::string_view type_name(const toml::node& node) {
  // In the order of toml::node_type, whose dates and times come last.
  constexpr std::array<std::string_view, 8> kNames{"none",          "a table",       "an array",
                                                   "a string",      "an integer",    "a number",
                                                   "true or false", "a date or time"};
  return kNames[std::min(static_cast<std::size_t>(node.type()), kNames.size() - 1)];
}

// Orders mistakes: absent keys come last because a misspelt key is absent too; mistakes of the file
// come before those of overrides, each in their order.
bool precedes(const Mistake& a, const Mistake& b) {
  const auto key = [](const Mistake& mistake) {
    return std::make_tuple(mistake.is_absence, mistake.location.name.starts_with("--set "),
                           mistake.location.at.line, mistake.location.at.column);
  };
  return key(a) < key(b);
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

}  // namespace

struct TomlDocument {
  std::string name;
  std::string page;  // of the keys, in docs/
  std::string text;
  toml::table root;
  std::deque<toml::table> absent;  // stand for tables that were looked up in vain
  std::deque<OpenTable> open;
  std::vector<Mistake> mistakes;

  Location locate(const toml::source_region& region) const {
    return {region.path ? *region.path : name, region.begin};
  }
  void add(const toml::source_region& region, std::string message, std::string_view hint = "",
           bool is_absence = false) {
    mistakes.push_back({locate(region), std::move(message), std::string(hint), is_absence});
  }
  void add_wrong_type(const toml::node& found, std::string_view key, std::string_view wanted) {
    add(found.source(), fmt::format("'{}' must be {}, not {}", key, wanted, type_name(found)));
  }
  // Where the keys of the mistake's table are told: "docs/job.md#train".
  std::string page_of(const Location& location) const {
    const std::string section =
        location.name == name ? section_at(text, location.at.line) : section_set_by(location.name);
    const bool known = !open.empty() && open.front().known.contains(outermost(section));
    return "see " + page + (known ? "#" + anchor_of(section) : "");
  }
  Error error(Mistake mistake) const {
    if (mistake.hint.empty()) mistake.hint = page_of(mistake.location);
    const toml::source_position at = mistake.location.at;
    // The name of an override shows all of it.
    if (mistake.location.name != name || at.line == 0) {
      return {Errc::kUsage, fmt::format("{}: {}", mistake.location.name, mistake.message),
              mistake.hint};
    }
    std::string shown = fmt::format("{}:{}:{}: {}", name, at.line, at.column, mistake.message);
    const std::string line = escape_control(line_of(text, at.line));
    if (line.size() <= kLineShownMax)
      shown += fmt::format("\n  {}\n  {:>{}}", line, '^', at.column);
    return {Errc::kUsage, std::move(shown), mistake.hint};
  }

  // A table opened twice stays one entry, so that a key looked up through either is known.
  std::size_t open_table(const toml::table& table, const toml::source_region& source,
                         std::string_view called = "") {
    const auto found = std::ranges::find(open, &table, &OpenTable::table);
    if (found != open.end()) return static_cast<std::size_t>(found - open.begin());
    open.push_back({&table, source, {}, std::string(called)});
    return open.size() - 1;
  }

  // "train.passes": every key of a table that was looked up.
  std::vector<std::string> known_keys() const {
    std::vector<std::string> keys;
    for (const OpenTable& opened : open) {
      if (opened.name.empty()) continue;
      for (const std::string& key : opened.known) keys.push_back(opened.name + "." + key);
    }
    return keys;
  }
  // "train.passes" for "passes", which stands outside its table.
  std::string below_a_table(std::string_view key) const {
    for (const std::string& known : known_keys())
      if (known.substr(known.find('.') + 1) == key) return known;
    return "";
  }

  void add_unknown_keys() {
    for (const OpenTable& opened : open) {
      const std::vector<std::string_view> known(opened.known.begin(), opened.known.end());
      for (const auto& [key, node] : *opened.table) {
        if (opened.known.contains(key.str())) continue;
        std::string near = &opened == &open.front() ? below_a_table(key.str()) : "";
        if (near.empty()) near = nearest(key.str(), known);
        add(key.source(),
            near.empty() ? fmt::format("unknown key '{}'", key.str())
                         : fmt::format("unknown key '{}', did you mean '{}'?", key.str(), near));
      }
    }
  }

  Result<toml::table> parse_text(std::string_view content, const std::string& source) const {
    if (auto fault = find_toml_fault(content)) {
      return error({{source, {fault->line, fault->column}}, std::move(fault->message), "", false});
    }
    toml::parse_result result = toml::parse(content, std::string_view(source));
    if (result) return std::move(result).table();
    const toml::parse_error& wrong = result.error();
    return error({{source, wrong.source().begin}, std::string(wrong.description()), "", false});
  }

  Status apply(const std::string& override_text) {
    const std::string source = "--set " + override_text;
    const std::size_t equals = override_text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{Errc::kUsage, source + ": not of the form key=value",
                   "for example --set train.passes=3"};
    }
    auto parsed = parse_text(override_text, source);
    if (!parsed) {  // a bare word is a string
      parsed = parse_text(with_quoted_value(override_text), source);
      if (!parsed) return std::move(parsed).error();
    }
    merge(root, *std::move(parsed));
    return {};
  }
};

namespace {

// The node under `key`, which is a known key from now on.
const toml::node* look_up(OpenTable& in, std::string_view key) {
  in.known.emplace(key);
  return in.table->get(key);
}

// The value, array or table under `key`; null when it is absent or, a mistake, of another type.
template <class T>
auto look_up_as(TomlDocument& document, std::size_t index, std::string_view key,
                std::string_view wanted) {
  const toml::node* const node = look_up(document.open[index], key);
  const auto* const value = node == nullptr ? nullptr : node->as<T>();
  if (node != nullptr && value == nullptr) document.add_wrong_type(*node, key, wanted);
  return value;
}

// A value within its range, else the fallback and a mistake.
template <class T>
T checked(TomlDocument& document, const toml::node& node, std::string_view key, T value, T fallback,
          T min, T max) {
  if (value >= min && value <= max) return value;
  const std::string range = max == std::numeric_limits<T>::max()
                                ? fmt::format("at least {}", min)
                                : fmt::format("from {} to {}", min, max);
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
  document->open.push_back({&document->root, {}, {}, {}});
  return TomlTable(std::move(document), 0);
}

bool TomlTable::has(std::string_view key) const {
  return document_->open[index_].table->contains(key);
}

bool TomlTable::is_string(std::string_view key) const {
  const toml::node* const node = document_->open[index_].table->get(key);
  return node != nullptr && node->is_string();
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
  const toml::node* const node = look_up(document_->open[index_], key);
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

std::vector<std::string> TomlTable::strings(std::string_view key) {
  constexpr std::string_view kWanted = "an array of strings";
  std::vector<std::string> values;
  const auto* const array = look_up_as<toml::array>(*document_, index_, key, kWanted);
  if (array == nullptr) return values;
  for (const toml::node& element : *array) {
    if (const auto* const value = element.as_string()) {
      values.push_back(value->get());
    } else {
      document_->add_wrong_type(element, key, kWanted);
    }
  }
  return values;
}

TomlTable TomlTable::table(std::string_view key) {
  const auto* const below = look_up_as<toml::table>(*document_, index_, key, "a table");
  const OpenTable& opened = document_->open[index_];
  const toml::node* const node = opened.table->get(key);
  const toml::source_region source = node == nullptr ? opened.source : node->source();
  const toml::table& found = below == nullptr ? document_->absent.emplace_back() : *below;
  return {document_, document_->open_table(found, source, key)};
}

std::vector<TomlTable> TomlTable::tables(std::string_view key) {
  const std::string wanted = fmt::format("an array of tables, [[{}]]", key);
  std::vector<TomlTable> found;
  const auto* const array = look_up_as<toml::array>(*document_, index_, key, wanted);
  if (array == nullptr) return found;
  for (const toml::node& element : *array) {
    if (const toml::table* const below = element.as_table()) {
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
  const Location found = document_->locate(document_->open[index_].source);
  return found.at.line == 0 ? found.name : fmt::format("{}:{}", found.name, found.at.line);
}

void TomlTable::fail(std::string_view key, std::string_view message, std::string_view hint) {
  OpenTable& opened = document_->open[index_];
  const toml::node* const node = look_up(opened, key);
  document_->add(node == nullptr ? opened.source : node->source(), std::string(message), hint,
                 node == nullptr);
}

Status TomlTable::finish() {
  document_->add_unknown_keys();
  const std::vector<Mistake>& mistakes = document_->mistakes;
  if (mistakes.empty()) return {};
  return document_->error(*std::min_element(mistakes.begin(), mistakes.end(), precedes));
}

}  // namespace paddle::config

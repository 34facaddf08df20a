#include "engine/config/toml_document.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "engine/config/section.h"
#include "engine/config/toml_scan.h"

namespace paddle::config {
namespace {

constexpr std::size_t kLineShownMax = 400;

// Keys by the names that they have in pandas, scikit-learn, Keras and PyTorch. The last ones have
// other meanings in other tables.
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
constexpr std::array<Names, 4> kNamesElsewhereInATable{
    {{"type", "method"}, {"type", "format"}, {"units", "size"}, {"dim", "size"}}};

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

}  // namespace

void TomlDocument::keep(Mistake mistake) {
  const auto is_decisive = [this](const Mistake& one) { return one.location == decisive; };
  mistakes.push_back(std::move(mistake));
  if (mistakes.size() <= kMistakesMax) return;
  const auto last = std::ranges::max_element(mistakes, [&](const Mistake& a, const Mistake& b) {
    return std::pair(!is_decisive(a), order_of(a)) < std::pair(!is_decisive(b), order_of(b));
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
  const bool is_bare_list = found.is_string() && wanted.starts_with("an array of strings") &&
                            location.name.starts_with("--set ");
  keep({location, fmt::format("'{}' must be {}, not {}", key, wanted, type_name(found)),
        is_bare_list ? fmt::format(R"(quote it for the shell: --set '{}["one", "two"]')",
                                   location.name.substr(6, location.name.find('=') - 5))
                     : "",
        false, true});
}

std::string TomlDocument::place_of(const toml::source_region& region) const {
  const Location found = locate(region);
  const bool has_line = found.name == name && found.at.line > 0;
  return has_line ? fmt::format("{}:{}", found.name, found.at.line) : found.name;
}

// Where the keys of the mistake's table are told: "docs/job.md#train".
std::string TomlDocument::page_of(const Location& location) const {
  const std::string section =
      location.name == name ? section_at(text, location.at.line) : section_set_by(location.name);
  const bool known = !open.empty() && open.front().knows(outermost(section));
  return "see " + page + (known ? "#" + anchor_of(section) : "");
}

Error TomlDocument::error(Mistake mistake) const {
  if (mistake.hint.empty()) mistake.hint = page_of(mistake.location);
  const toml::source_position at = mistake.location.at;
  // The name of an override shows all of it.
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

// "train.passes" for "passes", which stands outside its table.
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
  const std::string near = nearest(unknown, table.known);
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
  const auto first = std::ranges::find(mistakes, decisive, &Mistake::location);
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
  // A list of overrides in the environment has one a line.
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

}  // namespace paddle::config

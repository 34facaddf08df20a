#include "engine/config/toml_reader.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/text.h"
#include "engine/config/toml_document.h"

namespace paddle::config {
namespace {

// The node under `key`, which is a known key from now on.
toml::node* look_up(TomlDocument& document, OpenTable& in, std::string_view key) {
  document.know(in, key);
  return in.table->get(key);
}

// The value, array or table under `key`; null when it is absent or, a mistake, of another type.
template <class T>
auto look_up_as(TomlDocument& document, std::size_t index, std::string_view key,
                std::string_view wanted) {
  toml::node* const node = look_up(document, document.open[index], key);
  auto* const value = node == nullptr ? nullptr : node->as<T>();
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
  const auto* const array = look_up_as<toml::array>(*document_, index_, key, wanted);
  if (array == nullptr) return values;
  if (array->size() > at_most) {
    document_->add(array->source(), fmt::format("'{}' has {} values, but at most {} are taken", key,
                                                array->size(), at_most));
    return values;
  }
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

TomlTable TomlTable::table(std::string_view key) {
  auto* const below = look_up_as<toml::table>(*document_, index_, key, "a table");
  const OpenTable& opened = document_->open[index_];
  const toml::node* const node = opened.table->get(key);
  const toml::source_region source = node == nullptr ? opened.source : node->source();
  toml::table& found = below == nullptr ? document_->absent.emplace_back() : *below;
  return {document_, document_->open_table(found, source, index_ == 0 ? key : "")};
}

std::vector<TomlTable> TomlTable::tables(std::string_view key, std::size_t at_most) {
  const std::string wanted = fmt::format("an array of tables, [[{}]]", key);
  std::vector<TomlTable> found;
  auto* const array = look_up_as<toml::array>(*document_, index_, key, wanted);
  if (array == nullptr) return found;
  if (array->size() > at_most) {
    document_->add(array->source(), fmt::format("there are {} [[{}]], but at most {} are "
                                                "taken",
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
  if (node != nullptr) document_->decisive = document_->locate(node->source());
}

std::string TomlTable::resolved_text() const {
  // toml++ 3.3 quotes strings with a line break so that they cannot always be read again.
  constexpr toml::format_flags kFlags = toml::toml_formatter::default_flags &
                                        ~toml::format_flags::allow_multi_line_strings &
                                        ~toml::format_flags::allow_literal_strings;
  std::ostringstream text;
  text << toml::toml_formatter(document_->root, kFlags) << '\n';
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
  std::string line = node.is_string() ? node.as_string()->get() : std::move(text).str();
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
  if (is_set == is_other_set) return;  // a mistake of whoever wrote both
  document_->open[index_].table->erase(is_set ? other : key);
}

Status TomlTable::finish() {
  document_->add_unknown_key();
  return document_->verdict();
}

}  // namespace paddle::config

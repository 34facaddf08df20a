#include "cli/console/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "base/json_reader.h"
#include "base/text.h"

namespace paddle::cli {
namespace {

// NaN if the value is no number, or beyond the range of a double.
double finite_number(const JsonValue& value) {
  const double number = value.is_number() ? value.number() : std::nan("");
  return std::isfinite(number) ? number : std::nan("");
}

// Nothing if the list has another value than numbers and nulls.
std::optional<std::vector<double>> numbers_of(const JsonValue& list) {
  std::vector<double> numbers;
  const JsonValue* item = list.items();
  for (std::size_t i = 0; i < list.size(); ++i, item = item->next()) {
    if (!item->is_number() && !item->is_null()) return std::nullopt;
    numbers.push_back(finite_number(*item));
  }
  return numbers;
}

// Nothing if the value is an object or a list of other values than numbers.
std::optional<JsonField::Value> flat_value(const JsonValue& value) {
  if (value.is_text()) return std::string(value.text());
  if (value.is_list()) return numbers_of(value);
  if (value.is_object()) return std::nullopt;
  const double number = finite_number(value);
  if (std::isnan(number)) return JsonField::Value();
  return number;
}

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
         c == '-' || c == '.';
}

// False for the names that programs give to numbers that are not finite, and for digits beyond the
// range of a double.
bool is_finite_word(std::string_view word) {
  const std::string name =
      lower_case(word.substr(word.starts_with('-') || word.starts_with('+') ? 1 : 0));
  if (!name.empty() && name[0] >= '0' && name[0] <= '9') {
    double value = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
    return error != std::errc::result_out_of_range ||
           std::isfinite(std::strtod(name.c_str(), nullptr));
  }
  return name != "nan" && name != "inf" && name != "infinity";
}

std::string joined(char open, const std::vector<std::string>& parts, char close) {
  return fmt::format("{}{}{}", open, fmt::join(parts, ", "), close);
}

}  // namespace

Json::Json(std::string_view text) : text_(json_text(escape_lines(text))) {}

Json Json::number(double value) {
  Json json;
  if (std::isfinite(value)) json.text_ = fmt::format("{}", value);
  return json;
}

Json Json::fixed(double value, int digits) {
  Json number;
  if (std::isfinite(value)) number.text_ = fmt::format("{:.{}f}", value, digits);
  return number;
}

Json Json::list(const std::vector<Json>& values) {
  std::vector<std::string> parts;
  for (const Json& value : values) parts.push_back(value.text_);
  Json all;
  all.text_ = joined('[', parts, ']');
  return all;
}

Json Json::object(const Fields& fields) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : fields) parts.push_back(Json(key).text_ + ": " + value.text_);
  Json all;
  all.text_ = joined('{', parts, '}');
  return all;
}

std::string strict_json(std::string_view text) {
  std::string strict;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (in_string || !is_word(c)) {
      in_string = in_string != (c == '"');
      const std::size_t size = in_string && c == '\\' && at + 1 < text.size() ? 2 : 1;
      strict += text.substr(at, size);
      at += size;
      continue;
    }
    const std::size_t begin = at;
    while (at < text.size() && is_word(text[at])) ++at;
    const std::string_view word = text.substr(begin, at - begin);
    strict += is_finite_word(word) ? word : "null";
  }
  return strict;
}

std::optional<std::vector<JsonField>> read_flat_object(std::string_view text) {
  JsonReader reader({}, {.depth = 2, .items = kJsonFieldsMax});
  if (!reader.read(text) && !reader.read(strict_json(text))) return std::nullopt;
  std::vector<JsonField> fields;
  std::set<std::string_view> keys;
  const JsonValue* member = reader.object().items();
  for (std::size_t i = 0; i < reader.object().size(); ++i) {
    const JsonValue* const value = member->next();
    auto flat = flat_value(*value);
    if (!flat || !keys.insert(member->text()).second) return std::nullopt;
    fields.push_back({std::string(member->text()), *std::move(flat)});
    member = value->next();
  }
  return fields;
}

}  // namespace paddle::cli

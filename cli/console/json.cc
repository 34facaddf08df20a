#include "cli/console/json.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace paddle::cli {
namespace {

// Receives events from nlohmann's parser; returning false ends the parse.
class FlatObjectReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<JsonField> take_fields() { return std::move(fields_); }

  bool null() override { return in_list_ ? number(std::nan("")) : constant(); }
  bool boolean(bool) override { return constant(); }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (!in_object_ || in_list_) return false;
    fields_.back().value = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return !std::exchange(in_object_, true); }
  bool key(string_t& name) override {
    if (fields_.size() == kJsonFieldsMax || !keys_.insert(name).second) return false;
    fields_.push_back({std::move(name), {}});
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override {
    if (!in_object_ || std::exchange(in_list_, true)) return false;
    fields_.back().value.emplace<std::vector<double>>();
    return true;
  }
  bool end_array() override { return std::exchange(in_list_, false); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  bool constant() const { return in_object_ && !in_list_; }
  bool number(double value) {
    if (!in_object_) return false;
    if (!in_list_) {
      fields_.back().value = value;
      return true;
    }
    auto& list = std::get<std::vector<double>>(fields_.back().value);
    if (list.size() == kJsonFieldsMax) return false;
    list.push_back(value);
    return true;
  }

  std::vector<JsonField> fields_;
  std::set<std::string> keys_;
  bool in_object_ = false, in_list_ = false;
};

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
         c == '-' || c == '.';
}

// False for the names that programs give to numbers that are not finite, and for digits beyond the
// range of a double.
bool is_finite_word(std::string_view word) {
  std::string name(word.substr(word.starts_with('-') || word.starts_with('+') ? 1 : 0));
  if (!name.empty() && name[0] >= '0' && name[0] <= '9') {
    double value = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
    return error != std::errc::result_out_of_range ||
           std::isfinite(std::strtod(name.c_str(), nullptr));
  }
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name != "nan" && name != "inf" && name != "infinity";
}

std::string joined(char open, const std::vector<std::string>& parts, char close) {
  return fmt::format("{}{}{}", open, fmt::join(parts, ", "), close);
}

}  // namespace

Json::Json(std::string_view text) {
  std::string escaped;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\t", begin), text.size());
    escaped += escape_control(text.substr(begin, end - begin));
    if (end < text.size()) escaped += text[end];
    begin = end + 1;
  }
  text_ = nlohmann::json(std::move(escaped))
              .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

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
  FlatObjectReader reader;
  const bool is_strict = nlohmann::json::sax_parse(text, &reader);
  if (is_strict) return reader.take_fields();
  FlatObjectReader again;
  if (!nlohmann::json::sax_parse(strict_json(text), &again)) return std::nullopt;
  return again.take_fields();
}

}  // namespace paddle::cli

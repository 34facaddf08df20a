#include "base/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

// With vector instructions, RapidJSON 1.1 takes the control characters 0x1a to 0x1f in a text, and
// reads more bytes after it than kPadding.
#undef RAPIDJSON_SSE2
#undef RAPIDJSON_SSE42
#undef RAPIDJSON_NEON
#include <rapidjson/reader.h>

#include "base/check.h"
#include "base/text.h"
#include "base/text_bits.h"
#include "base/text_file.h"

namespace paddle {
namespace {

template <class Number>
bool convert(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end;
}

// The shortest text that is read back as this number.
std::string shortest(double number) {
  const double size = std::abs(number);
  const bool has_exponent = size != 0 && (size < 1e-4 || size >= 1e15);
  std::array<char, 32> digits{};
  const auto [end, error] =
      std::to_chars(digits.begin(), digits.end(), number,
                    has_exponent ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(digits.begin(), end);
  if (!has_exponent && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace

double JsonValue::number() const {
  if (text() == "-0") return 0;  // a whole number has no signed zero
  double number = 0;
  if (convert(text(), number)) return number;
  return std::strtod(std::string(text()).c_str(), nullptr);  // out of range: zero or infinite
}

std::string JsonValue::shown() const {
  if (is_bool()) return truth() ? "true" : "false";
  if (!is_number()) return "";
  std::uint64_t whole = 0;
  std::int64_t negative = 0;
  if (convert(text(), whole) || (convert(text(), negative) && negative < 0))
    return std::string(text());
  if (text() == "-0") return "0";
  const double value = number();
  return std::isfinite(value) ? shortest(value) : std::string(text());
}

namespace {

// Zero bytes after the text: the parser reads up to three bytes after one that begins a character.
constexpr std::size_t kPadding = 8;
// Memory that trim() keeps for the next text.
constexpr std::size_t kKeptBytes = 1U << 20U;

// Whether a \u escape is an unpaired low surrogate: the parser turns \udc00 into three bytes that
// UTF-8 does not allow.
bool has_surrogate(std::string_view text) {
  for (std::size_t at = 0; (at = text.find('\xed', at)) != std::string_view::npos; ++at) {
    if (static_cast<unsigned char>(text[at + 1]) >= 0xa0) return true;
  }
  return false;
}

constexpr std::string_view kNumberCharacters = "0123456789+-.eE";

bool is_zero_with_exponent(std::string_view number) {
  const std::size_t mark = number.find_first_of("eE");
  if (mark == number.npos) return false;
  const std::string_view exponent = number.substr(mark + 1);
  const std::size_t first = exponent.find_first_of("0123456789");
  return number.substr(0, mark).find_first_not_of("-.0") == number.npos && first <= 1 &&
         exponent.find_first_not_of("0123456789", first) == exponent.npos;
}

// Changes 0e999, which the parser refuses as too large, to 0e0. Returns whether there was such a
// number.
bool shorten_exponents_of_zero(std::string& text) {
  bool is_shorter = false;
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size(); at = end) {
    end = at + 1;
    if (text[at] == '"') {
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (kNumberCharacters.find(text[at]) != kNumberCharacters.npos) {
      end = std::min(text.find_first_not_of(kNumberCharacters, at), text.size());
      if (!is_zero_with_exponent(std::string_view(text).substr(at, end - at))) continue;
      const std::size_t digits = text.find_first_of("0123456789", text.find_first_of("eE", at));
      text.replace(digits, end - digits, end - digits, ' ')[digits] = '0';
      is_shorter = true;
    }
  }
  return is_shorter;
}

// The reason why the parser gave up at this place: ": it has a zero byte", or "".
std::string_view oddity_at(std::string_view text, std::size_t place,
                           rapidjson::ParseErrorCode code) {
  const std::string_view blanks = " \t\r\n";
  if (code == rapidjson::kParseErrorStringInvalidEncoding) return ": its text is not UTF-8";
  if (code == rapidjson::kParseErrorStringUnicodeSurrogateInvalid ||
      code == rapidjson::kParseErrorTermination)
    return ": a \\u escape is half of a character, as \\ud83d without \\ude00";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return "";
  if (text[first] == '[') return ": write one object per line, without [ ] around them";
  if (text[first] != '{') return "";
  if (code == rapidjson::kParseErrorDocumentRootNotSingular)
    return ": the line continues after the object; write one object per line";
  if (code == rapidjson::kParseErrorNone) return ": it has a zero byte";
  const std::string_view rest = text.substr(std::min(place, text.size()));
  if (rest.find_first_not_of(blanks) == rest.npos)
    return ": the line ends within the object; write one object per line";
  for (const std::string_view number : {"NaN", "nan", "Infinity", "inf"}) {
    if (rest.starts_with(number)) return ": NaN and Infinity are not JSON; write null";
  }
  for (const std::string_view word : {"'", "True", "False", "None"}) {
    if (rest.starts_with(word)) return ": this is Python syntax; json.dumps() writes JSON";
  }
  return "";
}

// The reason for an error of the parser at this place; "" if it is not known.
std::string_view reason_at(std::string_view text, std::size_t place,
                           rapidjson::ParseErrorCode code) {
  const std::string_view rest = text.substr(std::min(place, text.size()));
  const std::size_t before = text.substr(0, place).find_last_not_of(" \t\r\n");
  const char last = before == text.npos ? '\0' : text[before];
  const char next = rest.empty() ? '\0' : rest.front();
  const bool is_digit = next >= '0' && next <= '9';
  if (rest.starts_with("//") || rest.starts_with("/*") || next == '#')
    return "a comment, which JSON does not have";
  if (last == ',' && (next == '}' || next == ']'))
    return "a comma is directly before the closing bracket";
  switch (code) {
    case rapidjson::kParseErrorObjectMissName:
      return "a name must be in double quotes";
    case rapidjson::kParseErrorObjectMissColon:
      return "a colon is missing";
    case rapidjson::kParseErrorObjectMissCommaOrCurlyBracket:
    case rapidjson::kParseErrorArrayMissCommaOrSquareBracket:
      return is_digit && last == '0' ? "a number begins with a needless 0"
                                     : "a comma or a bracket is missing";
    case rapidjson::kParseErrorValueInvalid:
      if (next == '+') return "a number has a plus sign";
      return next == '.' ? "a number has no digit before its point" : "this is not a value";
    case rapidjson::kParseErrorNumberMissFraction:
      return "a number has no digit after its point";
    case rapidjson::kParseErrorNumberMissExponent:
      return "a number has no digit in its exponent";
    case rapidjson::kParseErrorStringEscapeInvalid:
    case rapidjson::kParseErrorStringUnicodeEscapeInvalidHex:
      return "this is not a JSON escape; write two backslashes for one";
    default:
      return "";
  }
}

// Whether the parser gave up at a byte below 0x20 in a text; releases of RapidJSON differ in the
// error and in the place, which may be that of the byte before.
std::optional<std::size_t> control_at(std::string_view text, std::size_t place,
                                      rapidjson::ParseErrorCode code) {
  if (code != rapidjson::kParseErrorStringInvalidEncoding &&
      code != rapidjson::kParseErrorStringEscapeInvalid)
    return {};
  for (std::size_t at = place; at < std::min(place + 2, text.size()); ++at) {
    if (static_cast<unsigned char>(text[at]) < 0x20 && text[at] != '\0') return at;
  }
  return {};
}

// ": it has a zero byte", ": column 5: a colon is missing", or "".
std::string reason_of(std::string_view text, std::size_t place, rapidjson::ParseErrorCode code) {
  const auto at_column = [&](std::size_t at, std::string_view reason) {
    const auto characters = std::ranges::count_if(
        text.substr(0, at), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; });
    return fmt::format(": column {}: {}", characters + 1, reason);
  };
  if (const auto control = control_at(text, place, code)) {
    const char c = text[*control];
    return at_column(*control, c == '\t' ? "a tab in a text must be written as \\t"
                                         : "a control character in a text must be written as "
                                           "an escape, such as \\n or \\u0001");
  }
  if (const std::string_view oddity = oddity_at(text, place, code); !oddity.empty())
    return std::string(oddity);
  const std::string_view reason = reason_at(text, place, code);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_object = first != text.npos && text[first] == '{';
  if (reason.empty() || (!is_object && !reason.starts_with("a comment"))) return "";
  return at_column(std::min(place, text.size()), reason);
}

}  // namespace

// Handler of the parser's events; a function that returns false ends the parse. Numbers are passed
// as text, because the conversion in RapidJSON 1.1 overflows at some exponents (CVE-2024-38517).
class JsonReader::Events {
 public:
  Events(JsonReader& reader, bool has_escapes) : reader_(reader), has_escapes_(has_escapes) {}

  // The limit at which the parse ended: "it is nested more than 64 deep", or "".
  std::string limit() const {
    const JsonLimits& limits = reader_.limits_;
    if (is_too_deep_) return fmt::format("it is nested more than {} deep", limits.depth);
    if (!is_too_long_) return "";
    return fmt::format("it has a list or an object of more than {} items", limits.items);
  }

  bool Null() { return add(JsonValue()); }
  bool Bool(bool value) { return add(JsonValue::of_bool(value)); }
  bool RawNumber(const char* text, unsigned size, bool) {
    return add(JsonValue::of_number({text, size}));
  }
  bool String(const char* text, unsigned size, bool) {
    return is_utf8({text, size}) && add(JsonValue::of_text({text, size}));
  }
  bool Key(const char* text, unsigned size, bool) {
    reader_.values_.push_back(JsonValue::of_text({text, size}));
    if (depth_ == 1) reader_.add_member({text, size});
    return is_utf8({text, size});
  }
  bool StartArray() { return open(); }
  bool StartObject() { return open(); }
  bool EndArray(unsigned size) { return close(JsonValue::of_list, size); }
  bool EndObject(unsigned size) { return close(JsonValue::of_object, size); }
  // Not called: the flags make the parser pass numbers as text.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }

 private:
  bool add(const JsonValue& value) {
    is_too_long_ = left_-- == 0;
    if (is_too_long_) return false;
    reader_.values_.push_back(value);
    return true;
  }
  bool is_utf8(std::string_view text) const { return !has_escapes_ || !has_surrogate(text); }
  bool open() {
    is_too_deep_ = depth_ == reader_.limits_.depth;
    if (is_too_deep_) return false;
    const std::size_t place = reader_.values_.size();
    if (!add(JsonValue())) return false;
    opened_[depth_++] = {place, left_};
    left_ = reader_.limits_.items;
    return true;
  }
  bool close(JsonValue (*make)(std::uint32_t, std::size_t), unsigned size) {
    const auto [place, left] = opened_[--depth_];
    left_ = left;
    reader_.values_[place] = make(size, reader_.values_.size() - place - 1);
    return true;
  }

  JsonReader& reader_;
  const bool has_escapes_;
  bool is_too_deep_ = false, is_too_long_ = false;
  std::size_t depth_ = 0;
  std::size_t left_ = 1;  // items that the open list or object may still get
  // Each open list or object: its place, and left_ of the one that contains it.
  std::array<std::pair<std::size_t, std::size_t>, kJsonDepthMax> opened_{};
};

JsonReader::JsonReader(std::vector<std::string> keys, const JsonLimits& limits)
    : keys_(std::move(keys)), limits_(limits) {
  PADDLE_CHECK(limits_.depth <= kJsonDepthMax);
  for (std::size_t i = 0; i < keys_.size(); ++i) numbers_.emplace(keys_[i], i);
}

Status JsonReader::read(std::string_view text) {
  text = without_byte_order_mark(text);
  std::optional<std::size_t> too_large;
  Status read = parse(text, too_large);
  if (!too_large) return read;
  std::string shorter(text);
  if (shorten_exponents_of_zero(shorter)) read = parse(shorter, too_large);
  if (!too_large) return read;
  const std::string_view number = text.substr(*too_large, kJsonNumberShownMax);
  return Error{Errc::kData,
               fmt::format("the number {} is beyond 1.8e308",
                           number.substr(0, number.find_first_not_of(kNumberCharacters)))};
}

// Records are short, so that most of the time would be spent in calls from one function of the
// parser to another.
[[gnu::flatten]] Status JsonReader::parse(std::string_view text,
                                          std::optional<std::size_t>& too_large) {
  text_.reserve(text.size() + kPadding);
  text_.assign(text).append(kPadding, '\0');
  values_.clear();
  places_.assign(keys_.size(), 0);
  members_ = 0;
  unknown_.reset();
  Events events(*this, text.find('\\') != std::string_view::npos);
  rapidjson::InsituStringStream stream(text_.data());
  constexpr unsigned kAscii = rapidjson::kParseInsituFlag | rapidjson::kParseNumbersAsStringsFlag;
  constexpr unsigned kUtf8 = kAscii | rapidjson::kParseValidateEncodingFlag;
  const rapidjson::ParseResult parsed = is_ascii(text)
                                            ? rapidjson::Reader().Parse<kAscii>(stream, events)
                                            : rapidjson::Reader().Parse<kUtf8>(stream, events);
  too_large.reset();
  if (parsed.Code() == rapidjson::kParseErrorNumberTooBig) too_large = parsed.Offset();
  // The parser takes a zero byte for the end.
  const bool is_json = !parsed.IsError() && text.find('\0') == std::string_view::npos;
  if (is_json && values_.front().is_object()) return {};
  if (const std::string limit = events.limit(); !limit.empty()) return Error{Errc::kData, limit};
  const std::size_t place = parsed.IsError() ? parsed.Offset() : 0;
  return Error{Errc::kData,
               fmt::format("it is not a JSON object{}", reason_of(text, place, parsed.Code()))};
}

void JsonReader::trim() {
  if (text_.capacity() > kKeptBytes) text_ = {};
  if (values_.capacity() > kKeptBytes / sizeof(JsonValue)) values_ = {};
}

void JsonReader::add_member(std::string_view key) {
  const std::size_t known = members_ < order_.size() ? order_[members_] : members_;
  const std::size_t number = number_of(key, known);
  // A text may have any number of other keys, which are not worth remembering.
  if (members_ == order_.size() && members_ < 2 * keys_.size()) order_.push_back(number);
  if (members_ < order_.size()) order_[members_] = number;
  ++members_;
  if (number < keys_.size()) {
    places_[number] = values_.size();
  } else if (!unknown_) {
    unknown_ = key;
  }
}

std::size_t JsonReader::number_of(std::string_view key, std::size_t guess) const {
  if (guess < keys_.size() && are_equal(keys_[guess], key)) return guess;
  return index_of(key);
}

}  // namespace paddle

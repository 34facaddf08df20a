#include "cli/console/json_reader.h"

#include <charconv>
#include <cstdint>

namespace paddle::cli {
namespace {

void append_utf8(std::string& out, std::uint32_t point) {
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += {static_cast<char>(0xc0U | (point >> 6U)), static_cast<char>(0x80U | (point & 0x3fU))};
  } else if (point < 0x10000) {
    out += {static_cast<char>(0xe0U | (point >> 12U)),
            static_cast<char>(0x80U | ((point >> 6U) & 0x3fU)),
            static_cast<char>(0x80U | (point & 0x3fU))};
  } else {
    out += {static_cast<char>(0xf0U | (point >> 18U)),
            static_cast<char>(0x80U | ((point >> 12U) & 0x3fU)),
            static_cast<char>(0x80U | ((point >> 6U) & 0x3fU)),
            static_cast<char>(0x80U | (point & 0x3fU))};
  }
}

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  std::optional<std::vector<JsonField>> object() {
    std::vector<JsonField> fields;
    if (!take('{')) return {};
    if (!take('}')) {
      do {
        JsonField field;
        if (fields.size() == kJsonFieldsMax || !string(field.key) || !take(':') ||
            !value(field.value)) {
          return {};
        }
        fields.push_back(std::move(field));
      } while (take(','));
      if (!take('}')) return {};
    }
    skip_blanks();
    return rest_.empty() ? std::optional(std::move(fields)) : std::nullopt;
  }

 private:
  void skip_blanks() {
    const auto end = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end);
  }
  bool take(char wanted) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view wanted) {
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  bool number(double& out) {
    skip_blanks();
    if (rest_.empty() || (rest_.front() != '-' && (rest_.front() < '0' || rest_.front() > '9'))) {
      return false;  // from_chars knows "nan" and "inf", JSON does not
    }
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    if (error != std::errc()) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }
  bool hex4(std::uint32_t& out) {
    if (rest_.size() < 4) return false;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + 4, out, 16);
    if (error != std::errc() || end != rest_.data() + 4) return false;
    rest_.remove_prefix(4);
    return true;
  }
  bool escape(std::string& out) {
    if (rest_.empty()) return false;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeaning = "\"\\/\b\f\n\r\t";
    if (const auto at = kLetters.find(c); at != std::string_view::npos) {
      out += kMeaning[at];
      return true;
    }
    std::uint32_t point = 0;
    if (c != 'u' || !hex4(point)) return false;
    std::uint32_t low = 0;
    if (point >= 0xd800 && point < 0xdc00 && word("\\u") && hex4(low) && low >= 0xdc00 &&
        low < 0xe000) {
      point = 0x10000 + ((point - 0xd800) << 10U) + (low - 0xdc00);
    }
    const bool half_a_pair = point >= 0xd800 && point < 0xe000;
    append_utf8(out, half_a_pair ? 0xfffd : point);
    return true;
  }
  bool string(std::string& out) {
    if (!take('"')) return false;
    for (;;) {
      const auto end = rest_.find_first_of("\"\\");
      if (end == std::string_view::npos) return false;
      out += rest_.substr(0, end);
      const bool done = rest_[end] == '"';
      rest_.remove_prefix(end + 1);
      if (done) return true;
      if (!escape(out)) return false;
    }
  }
  bool list(std::vector<double>& out) {
    if (take(']')) return true;
    do {
      double one = 0;
      if (out.size() == kJsonFieldsMax || !number(one)) return false;
      out.push_back(one);
    } while (take(','));
    return take(']');
  }
  bool value(JsonValue& out) {
    skip_blanks();
    if (rest_.empty()) return false;
    if (rest_.front() == '"') return string(out.emplace<std::string>());
    if (take('[')) return list(out.emplace<std::vector<double>>());
    if (word("null") || word("true") || word("false")) return true;
    return number(out.emplace<double>());
  }

  std::string_view rest_;
};

}  // namespace

std::optional<std::vector<JsonField>> read_flat_object(std::string_view text) {
  return Reader(text).object();
}

}  // namespace paddle::cli

#include "engine/data/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kHeaderBytesMax = 10'000;  // as numpy's max_header_size
constexpr std::size_t kTextShownMax = 40;

struct KnownType {
  std::string_view name;
  NumberType type;
};

using enum NumberType::Kind;
// Names without the character for the byte order, which precedes them.
constexpr std::array<KnownType, 12> kTypes{{{"b1", {kBool, 1}},
                                            {"u1", {kUnsigned, 1}},
                                            {"u2", {kUnsigned, 2}},
                                            {"u4", {kUnsigned, 4}},
                                            {"u8", {kUnsigned, 8}},
                                            {"i1", {kSigned, 1}},
                                            {"i2", {kSigned, 2}},
                                            {"i4", {kSigned, 4}},
                                            {"i8", {kSigned, 8}},
                                            {"f2", {kFloat, 2}},
                                            {"f4", {kFloat, 4}},
                                            {"f8", {kFloat, 8}}}};

Error wrong_header(std::string_view why) {
  return {Errc::kData, fmt::format("its npy header is wrong: {}", why)};
}

Result<NumberType> number_type(std::string_view descr) {
  const std::string_view name = descr.substr(std::min<std::size_t>(descr.size(), 1));
  const auto* const known = std::ranges::find(kTypes, name, &KnownType::name);
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr[0]) < 4;
  if (known != kTypes.end() && has_order) {
    NumberType type = known->type;
    type.is_big_endian = descr[0] == '>';
    return type;
  }
  const std::string shown = escape_control(std::string(descr.substr(0, kTextShownMax)));
  if (name.starts_with('O')) {
    return Error{Errc::kData,
                 fmt::format("its elements are Python objects ('{}'), which are not loaded", shown),
                 "save an array of numbers; save lists of different lengths as one array of all "
                 "values and one of offsets"};
  }
  if (name.starts_with('M') || name.starts_with('m')) {
    return Error{Errc::kData, "its elements are dates or times",
                 "save numbers, such as days since"};
  }
  if (name.starts_with('c'))
    return Error{Errc::kData, "its numbers are complex", "save the real and imaginary parts"};
  return Error{Errc::kData, fmt::format("its elements have the type '{}', not numbers", shown),
               "types are bool, int8 to int64, uint8 to uint64, float16, float32 and float64"};
}

// Reader of the Python literal in a header: a dict of texts, truth values and tuples of whole
// numbers.
class Literal {
 public:
  explicit Literal(std::string_view text) : rest_(text) {}

  bool take(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take(std::string_view word) {
    skip_blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> take_text() {
    skip_blanks();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return {};
    const std::size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return {};
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  std::optional<std::vector<std::uint64_t>> take_shape() {
    std::vector<std::uint64_t> shape;
    if (!take('(')) return {};
    while (!take(')')) {
      skip_blanks();
      std::uint64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc()) return {};
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      take('L');  // the suffix of a long in Python 2
      shape.push_back(size);
      if (!take(',') && !rest_.starts_with(')')) return {};
    }
    return shape;
  }
  bool is_over() {
    skip_blanks();
    return rest_.empty();
  }

 private:
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size()));
  }

  std::string_view rest_;
};

Result<NpyHeader> parse(std::string_view text) {
  Literal literal(text);
  std::optional<std::string_view> descr;
  std::optional<bool> is_fortran;
  std::optional<std::vector<std::uint64_t>> shape;
  if (!literal.take('{')) return wrong_header("it is not a dict");
  while (!literal.take('}')) {
    const auto key = literal.take_text();
    if (!key || !literal.take(':')) return wrong_header("a key is missing");
    if (*key == "descr") {
      if (literal.take('[')) {
        return Error{Errc::kData, "its elements are records, not numbers",
                     "save an array for each of its fields"};
      }
      descr = literal.take_text();
      if (!descr) return wrong_header("'descr' is not a string");
    } else if (*key == "fortran_order") {
      is_fortran = literal.take("True");
      if (!*is_fortran && !literal.take("False")) return wrong_header("'fortran_order'");
    } else if (*key == "shape") {
      shape = literal.take_shape();
      if (!shape) return wrong_header("'shape' is not a tuple of whole numbers");
    } else {
      return wrong_header("it has an unknown key");
    }
    literal.take(',');
  }
  if (!descr || !is_fortran || !shape || !literal.is_over())
    return wrong_header("it is not complete");
  NpyHeader header;
  PADDLE_TRY(header.type, number_type(*descr));
  header.shape = *std::move(shape);
  // With one dimension, both orders are the same.
  if (*is_fortran && header.shape.size() > 1) {
    return Error{Errc::kData, "it is in Fortran order, column by column",
                 "save numpy.ascontiguousarray(array)"};
  }
  return header;
}

}  // namespace

Status read_exactly(ByteSource& source, std::span<std::byte> into) {
  while (!into.empty()) {
    PADDLE_TRY(const std::size_t count, source.read(into));
    if (count == 0) return Error{Errc::kData, "it ends early"};
    into = into.subspan(count);
  }
  return {};
}

Result<NpyHeader> read_npy_header(ByteSource& source) {
  std::array<std::byte, 8> magic{};
  PADDLE_TRY_STATUS(read_exactly(source, magic));
  const auto version = static_cast<std::uint8_t>(magic[6]);
  if (as_text(magic).substr(0, kMagic.size()) != kMagic)
    return Error{Errc::kData, "it is not a .npy array: it does not begin with \\x93NUMPY"};
  if (version < 1 || version > 3)
    return Error{Errc::kData, fmt::format("its npy version {} is not supported", version)};
  std::array<std::byte, 4> length{};
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  PADDLE_TRY_STATUS(read_exactly(source, std::span(length).first(length_bytes)));
  const auto size = load_le<std::uint32_t>(length.data());
  if (size > kHeaderBytesMax) {
    return wrong_header(fmt::format("it has {} bytes; the limit is {}", size, kHeaderBytesMax));
  }
  std::string text(size, '\0');
  PADDLE_TRY_STATUS(read_exactly(source, std::as_writable_bytes(std::span(text))));
  PADDLE_TRY(NpyHeader header, parse(text));
  header.bytes = magic.size() + length_bytes + size;
  return header;
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = bits >> 10U & 31U;
  const std::uint32_t fraction = bits & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13U);
  if (exponent > 0) {
    return std::bit_cast<float>(sign | (exponent + 112) << 23U | fraction << 13U);
  }
  const float small = static_cast<float>(fraction) * 0x1p-24F;
  return sign == 0 ? small : -small;
}

}  // namespace paddle::data

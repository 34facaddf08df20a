#include "engine/data/npz/npy_header.h"

#include <algorithm>
#include <array>
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

using Kind = NumberType::Kind;
// Behind the character for the byte order.
constexpr std::array<KnownType, 12> kTypes{{{"b1", {Kind::kBool, 1}},
                                            {"u1", {Kind::kUnsigned, 1}},
                                            {"u2", {Kind::kUnsigned, 2}},
                                            {"u4", {Kind::kUnsigned, 4}},
                                            {"u8", {Kind::kUnsigned, 8}},
                                            {"i1", {Kind::kSigned, 1}},
                                            {"i2", {Kind::kSigned, 2}},
                                            {"i4", {Kind::kSigned, 4}},
                                            {"i8", {Kind::kSigned, 8}},
                                            {"f2", {Kind::kFloat, 2}},
                                            {"f4", {Kind::kFloat, 4}},
                                            {"f8", {Kind::kFloat, 8}}}};

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
                 fmt::format("it is of Python objects ('{}'), which are not loaded", shown),
                 "make it an array of numbers; lists of different lengths are one array of all "
                 "values and one of offsets"};
  }
  return Error{Errc::kData, fmt::format("it is of the type '{}', not of numbers", shown),
               "types are bool, int8 to int64, uint8 to uint64, float16, float32 and float64"};
}

// The Python literal of a header: a dict of texts, truth values and tuples of whole numbers.
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
      take('L');  // as Python 2 wrote a long one
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
  if (!literal.take('{')) return wrong_header("it is no dict");
  while (!literal.take('}')) {
    const auto key = literal.take_text();
    if (!key || !literal.take(':')) return wrong_header("a key is missing");
    if (*key == "descr") {
      if (literal.take('[')) {
        return Error{Errc::kData, "it is of records, not of numbers",
                     "save an array for each of its fields"};
      }
      descr = literal.take_text();
      if (!descr) return wrong_header("'descr' is no text");
    } else if (*key == "fortran_order") {
      is_fortran = literal.take("True");
      if (!*is_fortran && !literal.take("False")) return wrong_header("'fortran_order'");
    } else if (*key == "shape") {
      shape = literal.take_shape();
      if (!shape) return wrong_header("'shape' is no tuple of whole numbers");
    } else {
      return wrong_header("it has a key that is not known");
    }
    literal.take(',');
  }
  if (!descr || !is_fortran || !shape || !literal.is_over())
    return wrong_header("it is not complete");
  NpyHeader header;
  PADDLE_TRY(header.type, number_type(*descr));
  header.shape = *std::move(shape);
  // Of one dimension both orders are the same.
  if (*is_fortran && header.shape.size() > 1) {
    return Error{Errc::kData, "it is in Fortran's order, a column after the other",
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
    return Error{Errc::kData, "it is no array of numpy's: it does not begin with \\x93NUMPY"};
  if (version < 1 || version > 3)
    return Error{Errc::kData, fmt::format("its npy version {} is not known", version)};
  std::array<std::byte, 4> length{};
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  PADDLE_TRY_STATUS(read_exactly(source, std::span(length).first(length_bytes)));
  const auto size = load_le<std::uint32_t>(length.data());
  if (size > kHeaderBytesMax) {
    return wrong_header(fmt::format("it has {} bytes, and may have {}", size, kHeaderBytesMax));
  }
  std::string text(size, '\0');
  PADDLE_TRY_STATUS(read_exactly(source, std::as_writable_bytes(std::span(text))));
  PADDLE_TRY(NpyHeader header, parse(text));
  header.bytes = magic.size() + length_bytes + size;
  return header;
}

}  // namespace paddle::data

#include "engine/data/npz_reader.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace paddle::data {
namespace {

constexpr std::uint64_t kNpzChunkBytes = 256U << 10U;  // a chunk is longer if its only record is
constexpr std::uint64_t kRecordBytesMax = 16U << 20U;
constexpr std::size_t kNamesShownMax = 20;
constexpr std::string_view kSuffix = ".npy";
constexpr std::string_view kOffsets = "_offsets";

bool is_whole_number(const NumberType& type) {
  return type.kind != NumberType::Kind::kFloat;
}

std::uint64_t load(const std::byte* at, const NumberType& type) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < type.bytes; ++i) {
    const std::size_t place = type.is_big_endian ? i : type.bytes - 1U - i;
    value = value << 8U | static_cast<std::uint8_t>(at[place]);
  }
  return value;
}

// The product, or nothing if it does not fit into 64 bits.
std::optional<std::uint64_t> product(std::uint64_t first, std::uint64_t second) {
  std::uint64_t result = 0;
  if (__builtin_mul_overflow(first, second, &result)) return {};
  return result;
}

// The header of an array.

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

// Fills all of `into`. kData: the source ends before.
Status read_exactly(ByteSource& source, std::span<std::byte> into) {
  while (!into.empty()) {
    PADDLE_TRY(const std::size_t count, source.read(into));
    if (count == 0) return Error{Errc::kData, "it ends early"};
    into = into.subspan(count);
  }
  return {};
}

// Reads the header at the beginning of an array. kData: there is no header, or it is longer than
// numpy accepts; the elements are not numbers but texts, records or objects (which are Python
// programs); or the array is stored column by column. Messages do not name the array.
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

}  // namespace

NpzReader::NpzReader(std::string path, std::uint32_t file, const config::DataConfig& data,
                     SourceOptions options)
    : path_(std::move(path)), data_(data), options_(std::move(options)), end_{.file = file} {}

Error NpzReader::at(const Array& array, Error error) const {
  return std::move(error).with(fmt::format("{}: array '{}'", path_, array.name));
}

std::string NpzReader::members_text() const {
  std::vector<std::string> names;
  for (const auto& [name, member] : archive_->members()) {
    if (names.size() == kNamesShownMax) {
      names.emplace_back("...");
      break;
    }
    if (name.ends_with(kSuffix))
      names.push_back(escape_control(name.substr(0, name.size() - kSuffix.size())));
  }
  return names.empty() ? "it has no arrays" : fmt::format("it has {}", fmt::join(names, ", "));
}

// Opens an array, reads its header and checks that the shape fits the number of bytes.
Result<NpzReader::Array> NpzReader::open_array_of(const ZipArchive::Member& member) const {
  Array array;
  PADDLE_TRY(array.source, archive_->open_member(member));
  PADDLE_TRY(array.header, read_npy_header(*array.source));
  const std::vector<std::uint64_t>& shape = array.header.shape;
  if (shape.empty()) return Error{Errc::kData, "it is a single number, not one for each record"};
  array.rows = shape.front();
  std::optional<std::uint64_t> bytes = array.header.type.bytes;
  for (const std::uint64_t size : shape) {
    if (bytes) bytes = product(*bytes, size);
  }
  if (!bytes || member.bytes < array.header.bytes || *bytes != member.bytes - array.header.bytes) {
    return Error{Errc::kData, fmt::format("its shape ({}) does not match its {} bytes",
                                          fmt::join(shape, ", "), member.bytes)};
  }
  for (const std::uint64_t size : std::span(shape).subspan(1)) {
    const auto each = product(array.each, size);
    if (!each) return Error{Errc::kData, "its shape is too large"};
    array.each = *each;
  }
  return array;
}

Result<NpzReader::Array> NpzReader::open_array(const std::string& name) const {
  Array array;
  array.name = name;
  const auto found = archive_->members().find(name + std::string(kSuffix));
  if (found == archive_->members().end()) {
    return Error{Errc::kData, fmt::format("{}: there is no array '{}'", path_, name),
                 members_text() + "; name the arrays like the slots of [[data.slot]]"};
  }
  auto opened = open_array_of(found->second);
  if (!opened) return at(array, std::move(opened).error());
  opened->name = name;
  return opened;
}

Status NpzReader::check_offsets(const Slot& slot) const {
  const Array& offsets = *slot.offsets;
  if (!is_whole_number(offsets.header.type) || offsets.header.shape.size() != 1)
    return at(offsets, {Errc::kData, "offsets must be whole numbers in one dimension"});
  if (slot.values.header.shape.size() != 1) {
    return at(slot.values,
              {Errc::kData,
               fmt::format("it must have one dimension, because the file has '{}'", offsets.name)});
  }
  if (offsets.rows > 0) return {};
  return at(offsets,
            {Errc::kData, "it is empty, but needs one number more than there are records"});
}

Status NpzReader::open_slot(const config::DataSlotConfig& config) {
  Slot slot;
  PADDLE_TRY(slot.values, open_array(config.name));
  const Array& values = slot.values;
  const std::string offsets = config.name + std::string(kOffsets);
  std::uint64_t rows = values.rows;
  if (config.has_many_ids() && archive_->members().contains(offsets + std::string(kSuffix))) {
    PADDLE_TRY(slot.offsets, open_array(offsets));
    PADDLE_TRY_STATUS(check_offsets(slot));
    rows = slot.offsets->rows - 1;
    record_bytes_ += slot.offsets->header.type.bytes;
  } else if (config.has_many_ids()) {
    if (values.header.shape.size() == 1) {
      return at(
          values,
          {Errc::kData, fmt::format("it has one dimension, but the file has no '{}'", offsets),
           "save ids in two dimensions, a row for each record, or save their offsets"});
    }
    if (values.each == 0) return at(values, {Errc::kData, "its records have no numbers"});
  } else if (const std::uint64_t width = config.type == config::SlotType::kFloat ? config.width : 1;
             values.each != width) {
    return at(values, {Errc::kData, fmt::format("it has {} numbers for each record, not {}",
                                                values.each, width)});
  }
  if (!slot.offsets) {
    if (values.each > kRecordBytesMax)
      return at(values,
                {Errc::kData, fmt::format("a record of it has over {} bytes", kRecordBytesMax)});
    record_bytes_ += values.each * values.header.type.bytes;
  }
  if (!slots_.empty() && rows != records_) {
    return at(values, {Errc::kData, fmt::format("it has {} records, but '{}' has {}", rows,
                                                slots_.front().values.name, records_)});
  }
  records_ = rows;
  slots_.push_back(std::move(slot));
  return {};
}

Status NpzReader::open() {
  if (archive_) return {};
  PADDLE_TRY(UniqueFd opened, open_seekable(path_, options_));
  PADDLE_TRY(archive_, ZipArchive::open(std::move(opened), path_));
  for (const config::DataSlotConfig& slot : data_.slots) PADDLE_TRY_STATUS(open_slot(slot));
  if (record_bytes_ > kRecordBytesMax) {
    return Error{Errc::kData,
                 fmt::format("{}: a record has over {} bytes", path_, kRecordBytesMax)};
  }
  for (Slot& slot : slots_) {
    if (!slot.offsets) continue;
    PADDLE_TRY_STATUS(read_ahead(slot, 1));
    if (slot.ahead.front() != 0) {
      return at(*slot.offsets,
                {Errc::kData, fmt::format("it begins with {}, not with 0", slot.ahead.front())});
    }
    slot.ahead.clear();
  }
  return {};
}

// Reads the offsets of the next `count` records. REQUIRES: there are so many records.
Status NpzReader::read_ahead(Slot& slot, std::uint64_t count) const {
  if (slot.ahead.size() >= count) return {};
  Array& offsets = *slot.offsets;
  Bytes bytes((count - slot.ahead.size()) * offsets.header.type.bytes);
  if (Status read = read_exactly(*offsets.source, bytes); !read)
    return at(offsets, std::move(read).error());
  for (std::size_t i = 0; i < bytes.size(); i += offsets.header.type.bytes) {
    const std::uint64_t last = slot.ahead.empty() ? slot.begin : slot.ahead.back();
    const std::uint64_t next = load(bytes.data() + i, offsets.header.type);
    if (next < last) {
      return at(offsets,
                {Errc::kData, fmt::format("offsets must not decrease: {} to {}", last, next)});
    }
    if (next > slot.values.rows) {
      return at(offsets, {Errc::kData, fmt::format("it has the offset {}, but '{}' has {} numbers",
                                                   next, slot.values.name, slot.values.rows)});
    }
    slot.ahead.push_back(next);
  }
  return {};
}

// How many of the next records, at most `most`, make a chunk.
Result<std::uint64_t> NpzReader::cut(std::uint64_t most) const {
  std::uint64_t bytes = 0;
  for (std::uint64_t record = 0; record < most; ++record) {
    std::uint64_t own = record_bytes_;
    for (const Slot& slot : slots_) {
      if (!slot.offsets) continue;
      const std::uint64_t begin = record == 0 ? slot.begin : slot.ahead[record - 1];
      const std::uint64_t count = slot.ahead[record] - begin;
      if (count > kRecordBytesMax / slot.values.header.type.bytes) {
        return at(slot.values,
                  {Errc::kData, fmt::format("record {} has {} ids, over {} bytes",
                                            end_.line + record + 1, count, kRecordBytesMax)});
      }
      own += count * slot.values.header.type.bytes;
    }
    bytes += own;
    if (record > 0 && bytes > kNpzChunkBytes) return record;
  }
  return most;
}

Status NpzReader::read_slot(Slot& slot, std::uint64_t records, SlotNumbers& numbers) const {
  numbers.type = slot.values.header.type;
  numbers.each = slot.values.each;
  numbers.ends.clear();
  std::uint64_t count = records * slot.values.each;
  if (slot.offsets) {
    const auto end = slot.ahead.begin() + static_cast<std::ptrdiff_t>(records);
    for (auto one = slot.ahead.begin(); one != end; ++one)
      numbers.ends.push_back(*one - slot.begin);
    count = numbers.ends.back();
    slot.begin += count;
    slot.ahead.erase(slot.ahead.begin(), end);
  }
  numbers.bytes.resize(count * numbers.type.bytes);
  if (Status read = read_exactly(*slot.values.source, numbers.bytes); !read)
    return at(slot.values, std::move(read).error());
  return {};
}

// Checks that all arrays have ended. Reading up to the end also checks their checksums.
Status NpzReader::finish() {
  const auto check = [&](Array& array) -> Status {
    std::byte more{};
    auto read = array.source->read({&more, 1});
    if (!read) return at(array, std::move(read).error());
    if (*read > 0) return at(array, {Errc::kData, "it is longer than its header says"});
    return {};
  };
  for (Slot& slot : slots_) {
    if (slot.offsets && slot.begin != slot.values.rows) {
      return at(*slot.offsets,
                {Errc::kData, fmt::format("it ends with {}, but '{}' has {} numbers", slot.begin,
                                          slot.values.name, slot.values.rows)});
    }
    PADDLE_TRY_STATUS(check(slot.values));
    if (slot.offsets) PADDLE_TRY_STATUS(check(*slot.offsets));
  }
  return {};
}

Result<bool> NpzReader::next(Chunk& chunk) {
  PADDLE_TRY_STATUS(open());
  chunk.begin = end_;
  chunk.text.clear();
  chunk.slots.resize(slots_.size());
  const std::uint64_t left = records_ - end_.line;
  if (left == 0) {
    PADDLE_TRY_STATUS(finish());
    return false;
  }
  const std::uint64_t most =
      std::min(left, std::max<std::uint64_t>(kNpzChunkBytes / record_bytes_, 1));
  for (Slot& slot : slots_) {
    if (slot.offsets) PADDLE_TRY_STATUS(read_ahead(slot, most));
  }
  PADDLE_TRY(chunk.records, cut(most));
  for (std::size_t i = 0; i < slots_.size(); ++i)
    PADDLE_TRY_STATUS(read_slot(slots_[i], chunk.records, chunk.slots[i]));
  end_.line += chunk.records;
  end_.offset = end_.line;
  // The bytes of arrays that are not read are counted in the last chunk.
  const std::uint64_t file_bytes = archive_->file_bytes();
  const std::uint64_t read = std::min(archive_->bytes_read(), file_bytes);
  end_.position = std::max(end_.position, end_.line == records_ ? file_bytes : read);
  chunk.end = end_;
  return true;
}

// Reads chunks up to `place`. The chunks are the same ones as in an earlier stream.
Status NpzReader::go_to(const ChunkPlace& place) {
  PADDLE_TRY_STATUS(open());
  Chunk passing;
  while (end_.line < place.line) {
    if (is_readable(options_.stop_fd)) return Error{Errc::kInterrupted, path_ + ": stopped"};
    PADDLE_TRY(const bool found, next(passing));
    if (!found) break;
  }
  if (end_.line != place.line) return Error{Errc::kData, path_ + ": the records have changed"};
  end_ = place;
  return {};
}

}  // namespace paddle::data

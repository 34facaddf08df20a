// paddlectl does not link engine/data, whose reader needs OpenBLAS and other libraries of trainers.
// The few bytes of zip and npy that a sample needs are read here.
#include "cli/job/npz_sample.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/text.h"
#include "cli/console/console.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kDirectoryBytesMax = 16U << 20U;
constexpr std::size_t kHeadBytes = 16U << 10U;  // of an array: numpy's headers have at most 10,000
constexpr std::uint32_t kInExtra = 0xffffffff;  // the number is in the extra field of zip64
constexpr std::string_view kSuffix = ".npy";
constexpr std::uint64_t kWidthMax = 1 << 16;

struct ZipMember {
  std::string name;
  bool is_deflated = false;
  std::uint64_t stored_bytes = 0, bytes = 0, header_at = 0;
};

template <class Number>
Number number_at(std::string_view bytes, std::size_t at) {
  return at + sizeof(Number) <= bytes.size() ? load_le<Number>(as_bytes(bytes).data() + at) : 0;
}

class ZipFile {
 public:
  static Result<ZipFile> open(const std::string& path, const std::string& shown) {
    ZipFile archive;
    archive.shown_ = shown;
    archive.file_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!archive.file_ || ::fstat(archive.file_.get(), &status) != 0)
      return system_error(Errc::kUsage, shown);
    archive.bytes_ = static_cast<std::uint64_t>(status.st_size);
    PADDLE_TRY_STATUS(archive.read_directory());
    return archive;
  }

  std::uint64_t bytes() const { return bytes_; }
  const std::vector<ZipMember>& members() const { return members_; }

  // The first bytes of a member; fewer if it has fewer.
  Result<std::string> read(const ZipMember& member, std::size_t count) const {
    PADDLE_TRY(const std::string header, bytes_at(member.header_at, kLocalHeader));
    const std::uint64_t begin = member.header_at + kLocalHeader +
                                number_at<std::uint16_t>(header, 26) +
                                number_at<std::uint16_t>(header, 28);
    count = std::min<std::uint64_t>(count, member.bytes);
    if (!member.is_deflated) return bytes_at(begin, count);
    // Deflated data are at most 0.1 % longer than plain ones.
    PADDLE_TRY(const std::string packed,
               bytes_at(begin, std::min<std::uint64_t>(member.stored_bytes,
                                                       count + count / 512 + kHeadBytes)));
    return inflated(packed, count);
  }

 private:
  static constexpr std::size_t kLocalHeader = 30, kEntry = 46, kEnd = 22, kEnd64 = 56,
                               kLocator = 20;

  Error damaged() const {
    return {Errc::kData, shown_ + ": the zip archive is cut off or damaged", "copy it again"};
  }

  Result<std::string> bytes_at(std::uint64_t at, std::uint64_t count) const {
    if (at > bytes_ || count > bytes_ - at) return damaged();
    std::string bytes(count, '\0');
    if (!read_at(file_.get(), std::as_writable_bytes(std::span(bytes)), at)) return damaged();
    return bytes;
  }

  Result<std::string> inflated(const std::string& packed, std::size_t count) const {
    z_stream stream{};
    if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK)
      return Error{Errc::kResource, "no memory to decompress"};
    std::string plain(count, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(plain.data());
    stream.avail_out = static_cast<uInt>(plain.size());
    ::inflate(&stream, Z_SYNC_FLUSH);
    const bool is_full = stream.avail_out == 0;
    ::inflateEnd(&stream);
    if (!is_full) return damaged();
    return plain;
  }

  // The directory is at the end of the file, and what follows it says where.
  Status read_directory() {
    const std::uint64_t tail_bytes =
        std::min<std::uint64_t>(bytes_, kEnd + kEnd64 + kLocator + 0xffff);
    PADDLE_TRY(const std::string tail, bytes_at(bytes_ - tail_bytes, tail_bytes));
    const std::size_t end = tail.rfind("PK\x05\x06");
    if (end == tail.npos) return damaged();
    std::uint64_t size = number_at<std::uint32_t>(tail, end + 12);
    std::uint64_t at = number_at<std::uint32_t>(tail, end + 16);
    if (const std::size_t end64 = tail.rfind(std::string_view("PK\x06\x06"), end);
        end64 != tail.npos && (at == kInExtra || size == kInExtra)) {
      size = number_at<std::uint64_t>(tail, end64 + 40);
      at = number_at<std::uint64_t>(tail, end64 + 48);
    }
    if (size > kDirectoryBytesMax) return damaged();
    PADDLE_TRY(const std::string directory, bytes_at(at, size));
    for (std::size_t entry = 0; entry + kEntry <= directory.size();) {
      if (directory.compare(entry, 4, "PK\x01\x02") != 0) return damaged();
      const std::size_t name = number_at<std::uint16_t>(directory, entry + 28);
      const std::size_t extra = number_at<std::uint16_t>(directory, entry + 30);
      const std::size_t comment = number_at<std::uint16_t>(directory, entry + 32);
      if (entry + kEntry + name + extra > directory.size()) return damaged();
      add_member(std::string_view(directory).substr(entry, kEntry + name + extra), name);
      entry += kEntry + name + extra + comment;
    }
    return {};
  }

  void add_member(std::string_view entry, std::size_t name_bytes) {
    ZipMember member{.name = std::string(entry.substr(kEntry, name_bytes)),
                     .is_deflated = number_at<std::uint16_t>(entry, 10) != 0,
                     .stored_bytes = number_at<std::uint32_t>(entry, 20),
                     .bytes = number_at<std::uint32_t>(entry, 24),
                     .header_at = number_at<std::uint32_t>(entry, 42)};
    // Extra fields: an identifier, a length, and 8 bytes for each number that has no room above.
    for (std::size_t at = kEntry + name_bytes; at + 4 <= entry.size();
         at += 4 + number_at<std::uint16_t>(entry, at + 2)) {
      if (number_at<std::uint16_t>(entry, at) != 1) continue;
      std::size_t next = at + 4;
      for (std::uint64_t* const number : {&member.bytes, &member.stored_bytes, &member.header_at}) {
        if (*number != kInExtra) continue;
        *number = number_at<std::uint64_t>(entry, next);
        next += 8;
      }
    }
    members_.push_back(std::move(member));
  }

  std::string shown_;
  UniqueFd file_;
  std::uint64_t bytes_ = 0;
  std::vector<ZipMember> members_;
};

struct ArrayHeader {
  char kind = 0;          // numpy's: 'f', 'i', 'u', 'b'
  std::size_t bytes = 0;  // of a number
  bool is_big_endian = false;
  std::vector<std::uint64_t> shape;
  std::size_t data_at = 0;
  std::uint64_t width() const {
    std::uint64_t all = 1;
    for (std::size_t i = 1; i < shape.size() && all <= kWidthMax; ++i)
      all *= std::min(shape[i], kWidthMax + 1);
    return all;
  }
};

// The text behind `begin`, up to `end`.
std::optional<std::string_view> between(std::string_view text, std::string_view begin, char end) {
  const std::size_t at = text.find(begin);
  if (at == text.npos) return {};
  text.remove_prefix(at + begin.size());
  const std::size_t size = text.find(end);
  return size == text.npos ? std::nullopt : std::optional(text.substr(0, size));
}

// The whole numbers in a Python tuple.
std::vector<std::uint64_t> numbers_in(std::string_view text) {
  std::vector<std::uint64_t> numbers;
  while (true) {
    text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
    std::uint64_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || read.ec != std::errc()) return numbers;
    numbers.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  }
}

// The header "\x93NUMPY", two bytes of version, its length and a Python dict; or why no slot can
// read the array.
Result<ArrayHeader> read_array_header(std::string_view head) {
  const Error wrong{Errc::kData, "it has no header of numpy"};
  if (!head.starts_with("\x93NUMPY") || head.size() < 12) return wrong;
  const std::size_t text_at = head[6] == 1 ? 10 : 12;
  const std::size_t text_bytes =
      head[6] == 1 ? number_at<std::uint16_t>(head, 8) : number_at<std::uint32_t>(head, 8);
  if (text_bytes > head.size() - text_at) return wrong;
  const std::string_view text = head.substr(text_at, text_bytes);
  const auto type = between(text, "'descr': '", '\'');
  const auto sizes = between(text, "'shape': (", ')');
  if (!type) return Error{Errc::kData, "its elements are records"};
  if (!sizes) return wrong;
  // A character for the order of bytes, if any, one for the kind, and the number of bytes.
  const bool has_order = type->find_first_of("<>|=") == 0;
  const std::string_view kind = type->substr(has_order ? 1 : 0);
  ArrayHeader header{.kind = kind.empty() ? '\0' : kind[0],
                     .is_big_endian = type->starts_with('>'),
                     .shape = numbers_in(*sizes),
                     .data_at = text_at + text_bytes};
  if (header.kind == 'O') return Error{Errc::kData, "its elements are Python objects"};
  if (header.kind == 'M' || header.kind == 'm')
    return Error{Errc::kData, "its elements are dates or times: save numbers, such as days since"};
  if (header.kind == 'c')
    return Error{Errc::kData, "its numbers are complex: save the real and imaginary parts"};
  if (std::string_view("fiub").find(header.kind) == std::string_view::npos)
    return Error{Errc::kData, "its elements are texts, not numbers"};
  constexpr std::string_view kSizes = "1248";
  if (kind.size() != 2 || kSizes.find(kind[1]) == kSizes.npos)
    return Error{Errc::kData, "its numbers have a type that is not read"};
  header.bytes = static_cast<std::size_t>(kind[1] - '0');
  if (header.shape.empty()) return Error{Errc::kData, "it is a single number"};
  if (header.width() > kWidthMax || header.width() == 0)
    return Error{Errc::kData, fmt::format("a record of it has no number, or over {}", kWidthMax)};
  if (text.find("'fortran_order': True") != text.npos && header.shape.size() > 1)
    return Error{Errc::kData, "it is in Fortran order: save numpy.ascontiguousarray(array)"};
  return header;
}

double half_value(std::uint64_t bits) {
  const int exponent = static_cast<int>(bits >> 10U & 0x1fU);
  const auto fraction = static_cast<double>(bits & 0x3ffU);
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  return sign * (exponent == 0 ? std::ldexp(fraction, -24)
                               : std::ldexp(1 + fraction / 1024, exponent - 15));
}

// A number as text; "" for NaN.
std::string number_text(std::string_view bytes, const ArrayHeader& header) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < header.bytes; ++i) {
    const std::size_t at = header.is_big_endian ? i : header.bytes - 1 - i;
    bits = bits << 8U | static_cast<std::uint8_t>(bytes[at]);
  }
  if (header.kind == 'i') {
    const auto unused = static_cast<unsigned>(64 - 8 * header.bytes);
    return fmt::format("{}", static_cast<std::int64_t>(bits << unused) >> unused);
  }
  if (header.kind != 'f') return fmt::format("{}", bits);
  double value = half_value(bits);
  if (header.bytes == 4) {
    const auto single = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    return std::isnan(single) ? "" : fmt::format("{}", single);
  }
  if (header.bytes == 8) value = std::bit_cast<double>(bits);
  return std::isnan(value) ? "" : fmt::format("{}", value);
}

// Appends the array as a column.
Status add_array(const ZipFile& archive, const ZipMember& member, const std::string& shown,
                 std::size_t bytes_max, TableSample& sample) {
  SampleColumn column{.name = member.name.substr(0, member.name.size() - kSuffix.size())};
  PADDLE_TRY(const std::string head, archive.read(member, kHeadBytes));
  const Result<ArrayHeader> header = read_array_header(head);
  if (!header) {
    column.unusable = header.error().message;
    sample.columns.push_back(std::move(column));
    return {};
  }
  const std::uint64_t records = header->shape.front();
  if (sample.records_all == 0) sample.records_all = records;
  if (sample.records_all != records) {
    return Error{Errc::kData,
                 fmt::format("{}: array '{}' has {}, others {}", shown, escape_control(column.name),
                             counted(records, "record"), sample.records_all),
                 "save the arrays of one table, such as x and label, in a file of their own"};
  }
  column.width = static_cast<std::uint32_t>(header->width());
  const std::size_t record_bytes = header->bytes * column.width;
  const std::uint64_t wanted =
      std::min(records, std::max<std::uint64_t>(1, bytes_max / record_bytes));
  PADDLE_TRY(const std::string bytes,
             archive.read(member, header->data_at + wanted * record_bytes));
  for (std::size_t at = header->data_at; at + header->bytes <= bytes.size(); at += header->bytes) {
    column.values.push_back(
        sample.texts.keep(number_text(std::string_view(bytes).substr(at), *header)));
  }
  sample.sample_bytes += bytes.size();
  sample.is_whole = sample.is_whole && wanted == records;
  sample.columns.push_back(std::move(column));
  return {};
}

}  // namespace

Result<TableSample> sample_npz(const std::string& path, const std::string& shown) {
  PADDLE_TRY(const ZipFile archive, ZipFile::open(path, shown));
  std::vector<const ZipMember*> arrays;
  for (const ZipMember& member : archive.members()) {
    if (member.name.ends_with(kSuffix)) arrays.push_back(&member);
    if (member.name.starts_with("xl/") || member.name == "content.xml") {
      return Error{Errc::kData, shown + ": it is a spreadsheet", "save the sheet as \"CSV UTF-8\""};
    }
  }
  if (arrays.empty()) {
    return Error{Errc::kData, shown + ": it is a zip archive without arrays of numpy",
                 "unpack it, and name the file with the records"};
  }
  if (arrays.size() > kSampleColumnsMax) {
    return Error{Errc::kData, fmt::format("{}: it has over {} arrays", shown, kSampleColumnsMax)};
  }
  TableSample sample;
  sample.format = "npz";
  sample.bytes = archive.bytes();
  sample.is_whole = true;
  for (const ZipMember* const member : arrays) {
    PADDLE_TRY_STATUS(add_array(archive, *member, shown, kSampleBytesMax / arrays.size(), sample));
  }
  sample.records = sample.records_all;
  for (const SampleColumn& column : sample.columns) {
    if (column.unusable.empty())
      sample.records = std::min<std::uint64_t>(sample.records, column.values.size() / column.width);
  }
  // The same records of every array.
  for (SampleColumn& column : sample.columns) {
    if (column.unusable.empty()) column.values.resize(sample.records * column.width);
  }
  return sample;
}

}  // namespace paddle::cli

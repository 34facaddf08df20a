#include "engine/data/npz_reader.h"

#include <poll.h>

#include <algorithm>

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

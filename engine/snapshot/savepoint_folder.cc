#include "engine/snapshot/savepoint_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/log.h"

namespace paddle::snapshot {
namespace {

constexpr std::uint32_t kSavepointMagic = 0x54434450;  // "PDCT"
constexpr std::uint32_t kSavepointVersion = 1;
constexpr std::size_t kHeaderBytes = 44;
constexpr std::size_t kHeaderCrcAt = 40;
constexpr std::size_t kRecordHeadBytes = 12;
constexpr std::size_t kRecordCrcBytes = 4;

using HeaderBytes = std::array<std::byte, kHeaderBytes>;
using RecordHead = std::array<std::byte, kRecordHeadBytes>;

HeaderBytes encode_header(const SavepointHeader& header) {
  HeaderBytes bytes;
  const SavepointMark after = header.after.value_or(SavepointMark());
  store_le<std::uint32_t>(bytes.data(), kSavepointMagic);
  store_le<std::uint32_t>(bytes.data() + 4, kSavepointVersion);
  store_le<std::uint64_t>(bytes.data() + 8, header.fingerprint);
  store_le<std::uint64_t>(bytes.data() + 16, header.number);
  store_le<std::uint64_t>(bytes.data() + 24, after.number);
  store_le<std::uint32_t>(bytes.data() + 32, after.crc);
  store_le<std::uint32_t>(bytes.data() + 36, header.after ? 0 : 1);
  store_le<std::uint32_t>(bytes.data() + kHeaderCrcAt, crc32c(ByteSpan(bytes).first(kHeaderCrcAt)));
  return bytes;
}

RecordHead encode_head(std::uint32_t kind, std::uint64_t length) {
  RecordHead head;
  store_le<std::uint32_t>(head.data(), kind);
  store_le<std::uint64_t>(head.data() + 4, length);
  return head;
}

constexpr std::string_view kSavepointPrefix = "savepoint-";
constexpr std::string_view kFullSuffix = ".full";
constexpr std::string_view kDeltaSuffix = ".delta";

std::string file_name(std::uint64_t number, bool is_full) {
  return fmt::format("{}{:012}{}", kSavepointPrefix, number, is_full ? kFullSuffix : kDeltaSuffix);
}

std::optional<std::uint64_t> number_of(const std::string& name) {
  if (!name.starts_with(kSavepointPrefix)) return {};
  const char* const begin = name.data() + kSavepointPrefix.size();
  std::uint64_t number = 0;
  if (std::from_chars(begin, name.data() + name.size(), number).ec != std::errc()) return {};
  return number;
}

}  // namespace

Result<SavepointFileWriter> SavepointFileWriter::create(Directory& directory,
                                                        const std::string& name,
                                                        const SavepointHeader& header) {
  PADDLE_TRY(auto file, directory.create(name));
  const HeaderBytes bytes = encode_header(header);
  PADDLE_TRY_STATUS(file->append(bytes));
  const auto crc = load_le<std::uint32_t>(bytes.data() + kHeaderCrcAt);
  return SavepointFileWriter(std::move(file), {header.number, crc});
}

Status SavepointFileWriter::add(std::uint32_t kind, ByteSpan payload) {
  PADDLE_CHECK(payload.size() <= kSavepointRecordBytesMax);
  const RecordHead head = encode_head(kind, payload.size());
  mark_.crc = crc32c(payload, crc32c(head, mark_.crc));
  std::array<std::byte, kRecordCrcBytes> crc;
  store_le<std::uint32_t>(crc.data(), mark_.crc);
  PADDLE_TRY_STATUS(file_->append(head));
  PADDLE_TRY_STATUS(file_->append(payload));
  PADDLE_TRY_STATUS(file_->append(crc));
  ++records_;
  return {};
}

Result<SavepointMark> SavepointFileWriter::finish() {
  std::array<std::byte, sizeof records_> count;
  store_le<std::uint64_t>(count.data(), records_);
  PADDLE_TRY_STATUS(add(kSavepointLastRecord, count));
  PADDLE_TRY_STATUS(file_->sync());
  file_.reset();
  return mark_;
}

Result<SavepointFileReader> SavepointFileReader::open(const Directory& directory,
                                                      const std::string& name) {
  PADDLE_TRY(auto file, directory.open(name));
  SavepointFileReader reader(name, std::move(file));
  PADDLE_TRY_STATUS(reader.read_header());
  return reader;
}

Status SavepointFileReader::read_header() {
  if (left_ < kHeaderBytes) {
    return error(fmt::format("expected a header of {} bytes, found {}", kHeaderBytes, left_));
  }
  HeaderBytes bytes;
  PADDLE_TRY_STATUS(read(bytes));
  const auto expected = load_le<std::uint32_t>(bytes.data() + kHeaderCrcAt);
  crc_ = crc32c(ByteSpan(bytes).first(kHeaderCrcAt));
  if (crc_ != expected) {
    return error(fmt::format("header expected CRC32C {:08x}, found {:08x}", expected, crc_));
  }
  header_.fingerprint = load_le<std::uint64_t>(bytes.data() + 8);
  header_.number = load_le<std::uint64_t>(bytes.data() + 16);
  if (load_le<std::uint32_t>(bytes.data() + 36) == 0) {
    header_.after = SavepointMark{load_le<std::uint64_t>(bytes.data() + 24),
                                  load_le<std::uint32_t>(bytes.data() + 32)};
  }
  // The checksum is right, so another program or version wrote this header.
  if (encode_header(header_) != bytes) {
    return error(
        fmt::format("expected a savepoint of format {}, found another header", kSavepointVersion));
  }
  return {};
}

Result<bool> SavepointFileReader::next() {
  if (left_ < kRecordHeadBytes) {
    return error(fmt::format("record {} is cut off: {} bytes are left", records_, left_));
  }
  RecordHead head;
  PADDLE_TRY_STATUS(read(head));
  kind_ = load_le<std::uint32_t>(head.data());
  const auto length = load_le<std::uint64_t>(head.data() + 4);
  if (length > kSavepointRecordBytesMax || length + kRecordCrcBytes > left_) {
    return error(fmt::format("record {} of {} bytes is damaged or cut off: {} bytes are left",
                             records_, length, left_));
  }
  buffer_.resize(length + kRecordCrcBytes);
  PADDLE_TRY_STATUS(read(buffer_));
  payload_ = ByteSpan(buffer_).first(length);
  const auto expected = load_le<std::uint32_t>(buffer_.data() + length);
  crc_ = crc32c(payload_, crc32c(head, crc_));
  if (crc_ != expected) {
    return error(
        fmt::format("record {} expected CRC32C {:08x}, found {:08x}", records_, expected, crc_));
  }
  if (kind_ != kSavepointLastRecord) {
    ++records_;
    return true;
  }
  PADDLE_TRY_STATUS(check_last());
  return false;
}

Status SavepointFileReader::check_last() const {
  if (payload_.size() != sizeof records_) {
    return error(
        fmt::format("last record expected {} bytes, found {}", sizeof records_, payload_.size()));
  }
  if (const auto count = load_le<std::uint64_t>(payload_.data()); count != records_) {
    return error(fmt::format("expected {} records, found {}", count, records_));
  }
  if (left_ != 0) return error(fmt::format("{} bytes after its end", left_));
  return {};
}

Status SavepointFileReader::read(std::span<std::byte> into) {
  if (Status filled = file_->read(into); !filled) return error(filled.error().message);
  left_ -= into.size();
  return {};
}

Error SavepointFileReader::error(const std::string& what) const {
  return Error{Errc::kData, fmt::format("{}: {}", name_, what)};
}

Result<SavepointFolder> SavepointFolder::open(FileSystem& files, std::string path,
                                              std::uint64_t fingerprint) {
  PADDLE_TRY_STATUS(files.make_directories(path));
  PADDLE_TRY(auto directory, files.open_directory(path));
  SavepointFolder folder(files, std::move(path), fingerprint, std::move(directory));
  PADDLE_TRY_STATUS(folder.take_whole());
  return folder;
}

Result<std::vector<SavepointFolder::Savepoint>> SavepointFolder::names() const {
  PADDLE_TRY(const auto names, files_->list(path_));
  std::vector<Savepoint> savepoints;
  for (const std::string& name : names) {
    const auto number = number_of(name);
    if (!number) continue;
    for (const bool is_full : {true, false}) {
      if (name == file_name(*number, is_full)) savepoints.push_back({{*number, 0}, is_full});
    }
  }
  std::ranges::sort(savepoints, {}, [](const Savepoint& savepoint) {
    return std::pair(savepoint.mark.number, !savepoint.is_full);
  });
  return savepoints;
}

Status SavepointFolder::take_whole() {
  PADDLE_TRY(const auto found, names());
  std::size_t foreign = 0;
  for (const Savepoint& savepoint : found) {
    auto reader =
        SavepointFileReader::open(*directory_, file_name(savepoint.mark.number, savepoint.is_full));
    if (reader && reader->header().fingerprint != fingerprint_) {
      ++foreign;
      static_cast<void>(remove(savepoint));
      continue;
    }
    const Result<SavepointMark> mark =
        reader ? verify(savepoint, *reader) : Result<SavepointMark>(reader.error());
    if (mark) {
      savepoints_.push_back({*mark, savepoint.is_full});
    } else {
      discard(savepoint, mark.error().message);
    }
  }
  if (foreign > 0) {
    log_warning("{}: removed {} savepoints of another job, or of other parameters", path_, foreign);
  }
  if (foreign + savepoints_.size() < found.size()) {
    log_warning("{}: the newest complete savepoint is {}", path_,
                savepoints_.empty()
                    ? "none: training resumes from a snapshot"
                    : file_name(savepoints_.back().mark.number, savepoints_.back().is_full));
  }
  return {};
}

Status SavepointFolder::check_header(const Savepoint& savepoint,
                                     const SavepointHeader& header) const {
  const auto fail = [&](const std::string& what) {
    return Error{Errc::kData,
                 fmt::format("{}: {}", file_name(savepoint.mark.number, savepoint.is_full), what)};
  };
  if (header.fingerprint != fingerprint_) return fail("it belongs to another job");
  if (header.number != savepoint.mark.number || header.after.has_value() == savepoint.is_full) {
    return fail("its header belongs to " + file_name(header.number, !header.after));
  }
  return {};
}

Result<SavepointMark> SavepointFolder::verify(const Savepoint& savepoint,
                                              SavepointFileReader& reader) const {
  PADDLE_TRY_STATUS(check_header(savepoint, reader.header()));
  if (!savepoints_.empty() && savepoints_.back().mark.number == savepoint.mark.number) {
    return reader.error("a full savepoint with this number exists");
  }
  if (const auto& after = reader.header().after;
      after && (savepoints_.empty() || savepoints_.back().mark != *after)) {
    return reader.error(
        fmt::format("savepoint {} with CRC32C {:08x}, which it builds on, is missing",
                    after->number, after->crc));
  }
  for (;;) {
    PADDLE_TRY(const bool is_record, reader.next());
    if (!is_record) return reader.mark();
  }
}

void SavepointFolder::discard(const Savepoint& savepoint, const std::string& why) {
  const Status removed = remove(savepoint);
  log_warning("{}/{}; {}", path_, why, removed ? "removed" : removed.error().message);
}

Status SavepointFolder::remove(const Savepoint& savepoint) {
  return files_->remove_all(path_ + "/" + file_name(savepoint.mark.number, savepoint.is_full));
}

Status SavepointFolder::begin(std::uint64_t number, std::optional<std::uint64_t> after) {
  PADDLE_CHECK(!writer_);
  const auto last = newest();
  if (after && last != after) {
    return Error{Errc::kResource, fmt::format("{}: savepoint {} is missing", path_, *after)};
  }
  if (last && number <= *last) {
    return Error{Errc::kResource,
                 fmt::format("{}: savepoint {} still exists, and savepoint {} is not newer", path_,
                             *last, number)};
  }
  // A savepoint of this number that failed may not have been removed.
  for (const bool is_full : {true, false}) PADDLE_TRY_STATUS(remove({{number, 0}, is_full}));
  open_ = {{number, 0}, !after};
  SavepointHeader header{fingerprint_, number, {}};
  if (after) header.after = savepoints_.back().mark;
  auto writer = SavepointFileWriter::create(*directory_, file_name(number, open_.is_full), header);
  if (!writer) {
    static_cast<void>(remove(open_));
    return std::move(writer).error();
  }
  writer_ = std::move(*writer);
  return {};
}

Status SavepointFolder::add(std::uint32_t kind, ByteSpan payload) {
  PADDLE_CHECK(writer_ && kind != kSavepointLastRecord);
  Status added = writer_->add(kind, payload);
  if (!added) drop();
  return added;
}

Status SavepointFolder::end() {
  PADDLE_CHECK(writer_.has_value());
  const Result<SavepointMark> mark = writer_->finish();
  Status durable = mark ? directory_->sync() : Status(mark.error());
  if (!durable) {
    drop();
    return durable;
  }
  // INVARIANT: a savepoint counts once it is durable. Trainers may go back only to what numbers()
  // has, so a loss of power leaves every savepoint that was announced.
  savepoints_.push_back({*mark, open_.is_full});
  writer_.reset();
  return {};
}

void SavepointFolder::drop() {
  if (!writer_) return;
  writer_.reset();
  static_cast<void>(remove(open_));
}

std::optional<std::uint64_t> SavepointFolder::newest() const {
  if (savepoints_.empty()) return {};
  return savepoints_.back().mark.number;
}

std::vector<std::uint64_t> SavepointFolder::numbers() const {
  std::vector<std::uint64_t> numbers;
  for (const Savepoint& savepoint : savepoints_) numbers.push_back(savepoint.mark.number);
  return numbers;
}

Status SavepointFolder::read(std::uint64_t number, const SavepointStore::Use& use) {
  const auto last = std::ranges::find(
      savepoints_, number, [](const Savepoint& savepoint) { return savepoint.mark.number; });
  if (last == savepoints_.end()) {
    return Error{Errc::kData, fmt::format("{}: there is no complete savepoint {}", path_, number)};
  }
  auto savepoint = last;
  while (!savepoint->is_full) --savepoint;
  for (; savepoint <= last; ++savepoint) {
    Status used;
    Status read = read_file(*savepoint, use, used);
    if (!used) return used;
    if (read) continue;
    // Neither this savepoint nor those that build on it are whole.
    auto end = savepoint + 1;
    while (end != savepoints_.end() && !end->is_full) ++end;
    discard(*savepoint, read.error().message);
    for (auto each = savepoint + 1; each != end; ++each) {
      discard(*each, file_name(each->mark.number, false) + ": it builds on that one");
    }
    savepoints_.erase(savepoint, end);
    return std::move(read).with(path_);
  }
  return {};
}

Status SavepointFolder::read_file(const Savepoint& savepoint, const SavepointStore::Use& use,
                                  Status& used) const {
  PADDLE_TRY(auto reader, SavepointFileReader::open(
                              *directory_, file_name(savepoint.mark.number, savepoint.is_full)));
  PADDLE_TRY_STATUS(check_header(savepoint, reader.header()));
  for (;;) {
    PADDLE_TRY(const bool is_record, reader.next());
    if (!is_record) break;
    used = use(reader.kind(), reader.payload());
    if (!used) return {};
  }
  if (reader.mark() != savepoint.mark) {
    return reader.error(fmt::format("expected to end with CRC32C {:08x}, found {:08x}",
                                    savepoint.mark.crc, reader.mark().crc));
  }
  return {};
}

Status SavepointFolder::forget_before(std::uint64_t number) {
  auto full = savepoints_.size();
  for (std::size_t i = 0; i < savepoints_.size() && savepoints_[i].mark.number <= number; ++i) {
    if (savepoints_[i].is_full) full = i;
  }
  if (full == savepoints_.size()) return {};
  // Removes a savepoint before the one that it follows.
  for (; full > 0; --full) {
    PADDLE_TRY_STATUS(remove(savepoints_[full - 1]));
    savepoints_.erase(savepoints_.begin() + static_cast<std::ptrdiff_t>(full - 1));
  }
  return {};
}

Status SavepointFolder::forget_after(std::uint64_t number) {
  PADDLE_CHECK(!writer_ || open_.mark.number <= number);
  PADDLE_TRY(const auto found, names());
  for (auto savepoint = found.rbegin();
       savepoint != found.rend() && savepoint->mark.number > number; ++savepoint) {
    PADDLE_TRY_STATUS(remove(*savepoint));
    std::erase_if(savepoints_, [&](const Savepoint& each) {
      return each.mark.number == savepoint->mark.number;
    });
  }
  return directory_->sync();
}

}  // namespace paddle::snapshot

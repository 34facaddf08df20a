#include "engine/snapshot/cut_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/log.h"

namespace paddle::snapshot {
namespace {

constexpr std::uint32_t kCutMagic = 0x54434450;  // "PDCT"
constexpr std::uint32_t kCutVersion = 1;
constexpr std::size_t kHeaderBytes = 44;
constexpr std::size_t kHeaderCrcAt = 40;
constexpr std::size_t kRecordHeadBytes = 12;
constexpr std::size_t kRecordCrcBytes = 4;

using HeaderBytes = std::array<std::byte, kHeaderBytes>;
using RecordHead = std::array<std::byte, kRecordHeadBytes>;

HeaderBytes encode_header(const CutHeader& header) {
  HeaderBytes bytes;
  const CutMark after = header.after.value_or(CutMark());
  store_le<std::uint32_t>(bytes.data(), kCutMagic);
  store_le<std::uint32_t>(bytes.data() + 4, kCutVersion);
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

constexpr std::string_view kCutPrefix = "cut-";
constexpr std::string_view kFullSuffix = ".full";
constexpr std::string_view kDeltaSuffix = ".delta";

std::string file_name(std::uint64_t number, bool is_full) {
  return fmt::format("{}{:012}{}", kCutPrefix, number, is_full ? kFullSuffix : kDeltaSuffix);
}

std::optional<std::uint64_t> number_of(const std::string& name) {
  if (!name.starts_with(kCutPrefix)) return {};
  const char* const begin = name.data() + kCutPrefix.size();
  std::uint64_t number = 0;
  if (std::from_chars(begin, name.data() + name.size(), number).ec != std::errc()) return {};
  return number;
}

}  // namespace

Result<CutFileWriter> CutFileWriter::create(Directory& directory, const std::string& name,
                                            const CutHeader& header) {
  PADDLE_TRY(auto file, directory.create(name));
  const HeaderBytes bytes = encode_header(header);
  PADDLE_TRY_STATUS(file->append(bytes));
  const auto crc = load_le<std::uint32_t>(bytes.data() + kHeaderCrcAt);
  return CutFileWriter(std::move(file), {header.number, crc});
}

Status CutFileWriter::add(std::uint32_t kind, ByteSpan payload) {
  PADDLE_CHECK(payload.size() <= kCutRecordBytesMax);
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

Result<CutMark> CutFileWriter::finish() {
  std::array<std::byte, sizeof records_> count;
  store_le<std::uint64_t>(count.data(), records_);
  PADDLE_TRY_STATUS(add(kCutLastRecord, count));
  PADDLE_TRY_STATUS(file_->sync());
  file_.reset();
  return mark_;
}

Result<CutFileReader> CutFileReader::open(const Directory& directory, const std::string& name) {
  PADDLE_TRY(auto file, directory.open(name));
  CutFileReader reader(name, std::move(file));
  PADDLE_TRY_STATUS(reader.read_header());
  return reader;
}

Status CutFileReader::read_header() {
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
    header_.after = CutMark{load_le<std::uint64_t>(bytes.data() + 24),
                            load_le<std::uint32_t>(bytes.data() + 32)};
  }
  // The checksum is right, so another program or version wrote this header.
  if (encode_header(header_) != bytes) {
    return error(
        fmt::format("expected a savepoint of format {}, found another header", kCutVersion));
  }
  return {};
}

Result<bool> CutFileReader::next() {
  if (left_ < kRecordHeadBytes) {
    return error(fmt::format("record {} is cut off: {} bytes are left", records_, left_));
  }
  RecordHead head;
  PADDLE_TRY_STATUS(read(head));
  kind_ = load_le<std::uint32_t>(head.data());
  const auto length = load_le<std::uint64_t>(head.data() + 4);
  if (length > kCutRecordBytesMax || length + kRecordCrcBytes > left_) {
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
  if (kind_ != kCutLastRecord) {
    ++records_;
    return true;
  }
  PADDLE_TRY_STATUS(check_last());
  return false;
}

Status CutFileReader::check_last() const {
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

Status CutFileReader::read(std::span<std::byte> into) {
  if (Status filled = file_->read(into); !filled) return error(filled.error().message);
  left_ -= into.size();
  return {};
}

Error CutFileReader::error(const std::string& what) const {
  return Error{Errc::kData, fmt::format("{}: {}", name_, what)};
}

Result<CutFolder> CutFolder::open(FileSystem& files, std::string path, std::uint64_t fingerprint) {
  PADDLE_TRY_STATUS(files.make_directories(path));
  PADDLE_TRY(auto directory, files.open_directory(path));
  CutFolder folder(files, std::move(path), fingerprint, std::move(directory));
  PADDLE_TRY_STATUS(folder.take_whole());
  return folder;
}

Result<std::vector<CutFolder::Cut>> CutFolder::names() const {
  PADDLE_TRY(const auto names, files_->list(path_));
  std::vector<Cut> cuts;
  for (const std::string& name : names) {
    const auto number = number_of(name);
    if (!number) continue;
    for (const bool is_full : {true, false}) {
      if (name == file_name(*number, is_full)) cuts.push_back({{*number, 0}, is_full});
    }
  }
  std::ranges::sort(cuts, {},
                    [](const Cut& cut) { return std::pair(cut.mark.number, !cut.is_full); });
  return cuts;
}

Status CutFolder::take_whole() {
  PADDLE_TRY(const auto found, names());
  std::size_t foreign = 0;
  for (const Cut& cut : found) {
    auto reader = CutFileReader::open(*directory_, file_name(cut.mark.number, cut.is_full));
    if (reader && reader->header().fingerprint != fingerprint_) {
      ++foreign;
      static_cast<void>(remove(cut));
      continue;
    }
    const Result<CutMark> mark = reader ? verify(cut, *reader) : Result<CutMark>(reader.error());
    if (mark) {
      cuts_.push_back({*mark, cut.is_full});
    } else {
      discard(cut, mark.error().message);
    }
  }
  if (foreign > 0) {
    log_warning("{}: removed {} savepoints of another job, or of other parameters", path_, foreign);
  }
  if (foreign + cuts_.size() < found.size()) {
    log_warning("{}: the newest complete savepoint is {}", path_,
                cuts_.empty() ? "none: training resumes from a snapshot"
                              : file_name(cuts_.back().mark.number, cuts_.back().is_full));
  }
  return {};
}

Status CutFolder::check_header(const Cut& cut, const CutHeader& header) const {
  const auto fail = [&](const std::string& what) {
    return Error{Errc::kData, fmt::format("{}: {}", file_name(cut.mark.number, cut.is_full), what)};
  };
  if (header.fingerprint != fingerprint_) return fail("it belongs to another job");
  if (header.number != cut.mark.number || header.after.has_value() == cut.is_full) {
    return fail("its header belongs to " + file_name(header.number, !header.after));
  }
  return {};
}

Result<CutMark> CutFolder::verify(const Cut& cut, CutFileReader& reader) const {
  PADDLE_TRY_STATUS(check_header(cut, reader.header()));
  if (!cuts_.empty() && cuts_.back().mark.number == cut.mark.number) {
    return reader.error("a full savepoint with this number exists");
  }
  if (const auto& after = reader.header().after;
      after && (cuts_.empty() || cuts_.back().mark != *after)) {
    return reader.error(
        fmt::format("savepoint {} with CRC32C {:08x}, which it builds on, is missing",
                    after->number, after->crc));
  }
  for (;;) {
    PADDLE_TRY(const bool is_record, reader.next());
    if (!is_record) return reader.mark();
  }
}

void CutFolder::discard(const Cut& cut, const std::string& why) {
  const Status removed = remove(cut);
  log_warning("{}/{}; {}", path_, why, removed ? "removed" : removed.error().message);
}

Status CutFolder::remove(const Cut& cut) {
  return files_->remove_all(path_ + "/" + file_name(cut.mark.number, cut.is_full));
}

Status CutFolder::begin(std::uint64_t number, std::optional<std::uint64_t> after) {
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
  // A cut of this number that failed may not have been removed.
  for (const bool is_full : {true, false}) PADDLE_TRY_STATUS(remove({{number, 0}, is_full}));
  open_ = {{number, 0}, !after};
  CutHeader header{fingerprint_, number, {}};
  if (after) header.after = cuts_.back().mark;
  auto writer = CutFileWriter::create(*directory_, file_name(number, open_.is_full), header);
  if (!writer) {
    static_cast<void>(remove(open_));
    return std::move(writer).error();
  }
  writer_ = std::move(*writer);
  return {};
}

Status CutFolder::add(std::uint32_t kind, ByteSpan payload) {
  PADDLE_CHECK(writer_ && kind != kCutLastRecord);
  Status added = writer_->add(kind, payload);
  if (!added) drop();
  return added;
}

Status CutFolder::end() {
  PADDLE_CHECK(writer_.has_value());
  const Result<CutMark> mark = writer_->finish();
  Status durable = mark ? directory_->sync() : Status(mark.error());
  if (!durable) {
    drop();
    return durable;
  }
  cuts_.push_back({*mark, open_.is_full});
  writer_.reset();
  return {};
}

void CutFolder::drop() {
  if (!writer_) return;
  writer_.reset();
  static_cast<void>(remove(open_));
}

std::optional<std::uint64_t> CutFolder::newest() const {
  if (cuts_.empty()) return {};
  return cuts_.back().mark.number;
}

std::vector<std::uint64_t> CutFolder::numbers() const {
  std::vector<std::uint64_t> numbers;
  for (const Cut& cut : cuts_) numbers.push_back(cut.mark.number);
  return numbers;
}

Status CutFolder::read(std::uint64_t number, const CutStore::Use& use) {
  const auto last =
      std::ranges::find(cuts_, number, [](const Cut& cut) { return cut.mark.number; });
  if (last == cuts_.end()) {
    return Error{Errc::kData, fmt::format("{}: there is no complete savepoint {}", path_, number)};
  }
  auto cut = last;
  while (!cut->is_full) --cut;
  for (; cut <= last; ++cut) {
    Status used;
    Status read = read_file(*cut, use, used);
    if (!used) return used;
    if (read) continue;
    // Neither this cut nor those that build on it are whole.
    auto end = cut + 1;
    while (end != cuts_.end() && !end->is_full) ++end;
    discard(*cut, read.error().message);
    for (auto each = cut + 1; each != end; ++each) {
      discard(*each, file_name(each->mark.number, false) + ": it builds on that one");
    }
    cuts_.erase(cut, end);
    return std::move(read).with(path_);
  }
  return {};
}

Status CutFolder::read_file(const Cut& cut, const CutStore::Use& use, Status& used) const {
  PADDLE_TRY(auto reader,
             CutFileReader::open(*directory_, file_name(cut.mark.number, cut.is_full)));
  PADDLE_TRY_STATUS(check_header(cut, reader.header()));
  for (;;) {
    PADDLE_TRY(const bool is_record, reader.next());
    if (!is_record) break;
    used = use(reader.kind(), reader.payload());
    if (!used) return {};
  }
  if (reader.mark() != cut.mark) {
    return reader.error(fmt::format("expected to end with CRC32C {:08x}, found {:08x}",
                                    cut.mark.crc, reader.mark().crc));
  }
  return {};
}

Status CutFolder::forget_before(std::uint64_t number) {
  auto full = cuts_.size();
  for (std::size_t i = 0; i < cuts_.size() && cuts_[i].mark.number <= number; ++i) {
    if (cuts_[i].is_full) full = i;
  }
  if (full == cuts_.size()) return {};
  // Removes a cut before the one that it follows.
  for (; full > 0; --full) {
    PADDLE_TRY_STATUS(remove(cuts_[full - 1]));
    cuts_.erase(cuts_.begin() + static_cast<std::ptrdiff_t>(full - 1));
  }
  return {};
}

Status CutFolder::forget_after(std::uint64_t number) {
  PADDLE_CHECK(!writer_ || open_.mark.number <= number);
  PADDLE_TRY(const auto found, names());
  for (auto cut = found.rbegin(); cut != found.rend() && cut->mark.number > number; ++cut) {
    PADDLE_TRY_STATUS(remove(*cut));
    std::erase_if(cuts_, [&](const Cut& each) { return each.mark.number == cut->mark.number; });
  }
  return directory_->sync();
}

}  // namespace paddle::snapshot

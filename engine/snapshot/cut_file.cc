#include "engine/snapshot/cut_file.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/crc32c.h"

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
  // The checksum was right, so this is the header of another program or version.
  if (encode_header(header_) != bytes) {
    return error(fmt::format("expected a cut of format {}, found another header", kCutVersion));
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

}  // namespace paddle::snapshot

#include "engine/snapshot/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/safe_path.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/math/optimizer.h"
#include "engine/table/parameter_set.h"

namespace paddle::snapshot {
namespace {

constexpr std::uint32_t kMagic = 0x32424450;  // "PDB2"
constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);
constexpr std::size_t kUpdateCountAt = 24;
constexpr std::size_t kSnapshotAt = 36;
constexpr std::size_t kNameAt = kSnapshotAt + sizeof(SnapshotId) + sizeof(std::uint32_t);

Bytes encode(const BlockHeader& header, const std::string& name) {
  Bytes bytes;
  append_le<std::uint32_t>(bytes, kMagic);
  append_le<std::uint32_t>(bytes, static_cast<std::uint32_t>(header.kind));
  append_le<std::uint64_t>(bytes, header.width);
  append_le<std::uint32_t>(bytes, header.state_width);
  append_le<std::uint32_t>(bytes, kBlockBytes);
  append_le<std::uint64_t>(bytes, header.update_count);
  append_le<std::uint32_t>(bytes, header.has_scores ? 1 : 0);
  append_bytes(bytes, std::span<const std::byte>(header.snapshot));
  append_le<std::uint32_t>(bytes, static_cast<std::uint32_t>(name.size()));
  append_bytes(bytes, std::span(name));
  append_le<std::uint32_t>(bytes, crc32c(bytes));
  return bytes;
}

// Describes how the header of the file `name` differs from the expected one.
std::string difference(const BlockHeader& expected, const std::string& name, ByteSpan found) {
  if (load_le<std::uint32_t>(found.data()) == kMagic) {
    const ByteSpan snapshot = found.subspan(kSnapshotAt, sizeof(SnapshotId));
    if (!std::ranges::equal(snapshot, expected.snapshot)) {
      return fmt::format("it belongs to snapshot {}, MANIFEST to snapshot {}", to_hex(snapshot),
                         to_hex(expected.snapshot));
    }
    const ByteSpan found_name = found.subspan(kNameAt, name.size());
    if (!std::ranges::equal(found_name, as_bytes(name))) {
      return fmt::format(
          "its header belongs to another file, '{}'",
          escape_control({reinterpret_cast<const char*>(found_name.data()), found_name.size()}));
    }
  }
  return fmt::format("its header is corrupt, or does not have width {} and state width {}",
                     expected.width, expected.state_width);
}

constexpr std::int32_t kFormatVersion = 0;
constexpr std::uint32_t kValueBytes = sizeof(float);

Error differs(const char* what, std::uint64_t expected, std::uint64_t found) {
  return Error{Errc::kData, fmt::format("expected {} {}, found {}", what, expected, found)};
}

}  // namespace

std::array<std::byte, kParameterFileHeaderBytes> parameter_file_header(std::uint64_t count) {
  std::array<std::byte, kParameterFileHeaderBytes> header{};
  store_le<std::int32_t>(header.data(), kFormatVersion);
  store_le<std::uint32_t>(header.data() + 4, kValueBytes);
  store_le<std::uint64_t>(header.data() + 8, count);
  return header;
}

Status check_parameter_file_header(std::span<const std::byte, kParameterFileHeaderBytes> header,
                                   std::uint64_t expected_count) {
  if (const auto version = load_le<std::uint32_t>(header.data()); version != kFormatVersion) {
    return differs("format version", kFormatVersion, version);
  }
  if (const auto bytes = load_le<std::uint32_t>(header.data() + 4); bytes != kValueBytes) {
    return differs("bytes of a value", kValueBytes, bytes);
  }
  if (const auto count = load_le<std::uint64_t>(header.data() + 8); count != expected_count) {
    return differs("element count", expected_count, count);
  }
  return {};
}

BlockCrc::BlockCrc(ByteSpan header)
    : header_(load_le<std::uint32_t>(header.last<kCrcBytes>().data())) {}

std::uint32_t BlockCrc::next(ByteSpan block) {
  std::array<std::byte, sizeof(std::uint64_t)> number{};
  store_le<std::uint64_t>(number.data(), number_++);
  return crc32c(block, crc32c(number, header_));
}

Result<FileWriter> FileWriter::create(Directory& directory, const std::string& name) {
  PADDLE_TRY(auto file, directory.create(name));
  return FileWriter(name, std::move(file));
}

Status FileWriter::append(ByteSpan data) {
  PADDLE_CHECK(file_ != nullptr);
  if (auto written = file_->append(data); !written) {
    file_.reset();
    return written;
  }
  entry_.size += data.size();
  sha256_.update(data);
  return {};
}

Result<FileEntry> FileWriter::finish() {
  PADDLE_CHECK(file_ != nullptr);
  const std::unique_ptr<OutputFile> file = std::move(file_);
  PADDLE_TRY_STATUS(file->sync());
  entry_.sha256 = sha256_.finish();
  return std::move(entry_);
}

Result<BlockWriter> BlockWriter::create(Directory& directory, const std::string& name,
                                        const BlockHeader& header) {
  PADDLE_TRY(FileWriter file, FileWriter::create(directory, name));
  const Bytes encoded = encode(header, name);
  PADDLE_TRY_STATUS(file.append(encoded));
  return BlockWriter(std::move(file), BlockCrc(encoded));
}

Status BlockWriter::append(ByteSpan data) {
  body_bytes_ += data.size();
  while (!data.empty()) {
    const std::size_t part = std::min(data.size(), kBlockBytes - block_.size());
    block_.insert(block_.end(), data.begin(), data.begin() + static_cast<std::ptrdiff_t>(part));
    data = data.subspan(part);
    if (block_.size() == kBlockBytes) PADDLE_TRY_STATUS(flush());
  }
  return {};
}

Status BlockWriter::flush() {
  if (block_.empty()) return {};
  std::array<std::byte, kCrcBytes> crc{};
  store_le<std::uint32_t>(crc.data(), crc_.next(block_));
  PADDLE_TRY_STATUS(file_.append(block_));
  block_.clear();
  return file_.append(crc);
}

Result<FileEntry> BlockWriter::finish() {
  PADDLE_TRY_STATUS(flush());
  return file_.finish();
}

Error FileReader::error(const std::string& what) const {
  return Error{Errc::kData, expected_.name + ": " + what};
}

Result<FileReader> FileReader::open(const Directory& directory, const FileEntry& expected) {
  PADDLE_TRY(auto opened, directory.open(expected.name));
  FileReader file(expected, std::move(opened));
  if (const std::uint64_t found = file.file_->size(); found != expected.size) {
    return file.error(fmt::format("expected {} bytes, found {}", expected.size, found));
  }
  return file;
}

Status FileReader::read(std::span<std::byte> into) {
  if (into.size() > bytes_left()) {
    return error(fmt::format("expected {} more bytes, found {}", into.size(), bytes_left()));
  }
  if (auto read = file_->read(into); !read) return error(read.error().message);
  offset_ += into.size();
  crc_ = crc32c(into, crc_);
  return {};
}

Status FileReader::finish() const {
  if (bytes_left() != 0) return error(fmt::format("{} bytes after its end", bytes_left()));
  if (crc_ != expected_.crc) {
    return error(fmt::format("expected CRC32C {:08x}, found {:08x}", expected_.crc, crc_));
  }
  return {};
}

Result<BlockReader> BlockReader::open(const Directory& directory, const FileEntry& entry,
                                      const BlockHeader& expected) {
  PADDLE_TRY(FileReader file, FileReader::open(directory, entry));
  BlockHeader header = expected;
  Bytes wanted = encode(header, entry.name);
  Bytes found(wanted.size());
  PADDLE_TRY_STATUS(file.read(found));
  header.update_count = load_le<std::uint64_t>(found.data() + kUpdateCountAt);
  wanted = encode(header, entry.name);
  if (found != wanted) return file.error(difference(expected, entry.name, found));
  BlockReader reader(std::move(file), BlockCrc(found));
  reader.update_count_ = header.update_count;
  const std::uint64_t rest = entry.size - wanted.size();
  const std::uint64_t last = rest % (kBlockBytes + kCrcBytes);
  if (last != 0 && last <= kCrcBytes) return reader.error("its last block is cut off");
  const std::uint64_t blocks = rest / (kBlockBytes + kCrcBytes) + (last != 0 ? 1 : 0);
  reader.bytes_left_ = rest - blocks * kCrcBytes;
  return reader;
}

Status BlockReader::next_block() {
  block_.resize(std::min<std::uint64_t>(kBlockBytes, file_.bytes_left() - kCrcBytes));
  block_offset_ = 0;
  PADDLE_TRY_STATUS(file_.read(block_));
  std::array<std::byte, kCrcBytes> stored{};
  PADDLE_TRY_STATUS(file_.read(stored));
  const auto expected = load_le<std::uint32_t>(stored.data());
  if (const auto found = crc_.next(block_); found != expected) {
    return error(fmt::format("block expected CRC32C {:08x}, found {:08x}", expected, found));
  }
  return {};
}

Status BlockReader::read(std::span<std::byte> into) {
  if (into.size() > bytes_left_) {
    return error(fmt::format("expected {} more bytes, found {}", into.size(), bytes_left_));
  }
  bytes_left_ -= into.size();
  while (!into.empty()) {
    if (block_offset_ == block_.size()) PADDLE_TRY_STATUS(next_block());
    const std::size_t part = std::min(into.size(), block_.size() - block_offset_);
    std::copy_n(block_.begin() + static_cast<std::ptrdiff_t>(block_offset_), part, into.begin());
    block_offset_ += part;
    into = into.subspan(part);
  }
  return {};
}

Status BlockReader::finish() const {
  if (bytes_left_ != 0) return error(fmt::format("{} bytes after its end", bytes_left_));
  return file_.finish();
}

Status verify_file(const Directory& directory, FileEntry& expected) {
  PADDLE_TRY(FileReader file, FileReader::open(directory, expected));
  Sha256 sha256;
  Bytes buffer;
  while (file.bytes_left() > 0) {
    buffer.resize(std::min<std::uint64_t>(kBlockBytes, file.bytes_left()));
    PADDLE_TRY_STATUS(file.read(buffer));
    sha256.update(buffer);
  }
  if (const Sha256Digest found = sha256.finish(); found != expected.sha256) {
    return file.error(
        fmt::format("expected SHA-256 {}, found {}: it is damaged, or belongs to another snapshot",
                    to_hex(expected.sha256), to_hex(found)));
  }
  expected.crc = file.crc();
  return {};
}

BlockHeader block_header(const SnapshotId& snapshot, const ManifestParameter& parameter,
                         const std::string& file) {
  const wire::ParameterSpec& spec = parameter.spec;
  BlockHeader header{.snapshot = snapshot, .state_width = parameter.state_width};
  if (!spec.sparse()) {
    header.kind = BlockKind::kState;
    header.width = parameter::element_count(spec);
  } else if (file == removed_file_name(spec.name())) {
    header = {.snapshot = snapshot, .kind = BlockKind::kIds, .width = 1};
  } else {
    header.kind = BlockKind::kRows;
    header.width = parameter::row_width(spec);
    header.has_scores = spec.table().has_shrink();
  }
  return header;
}

}  // namespace paddle::snapshot

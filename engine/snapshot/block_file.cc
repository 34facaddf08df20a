#include "engine/snapshot/block_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/safe_path.h"

namespace paddle::snapshot {
namespace {

constexpr std::uint32_t kMagic = 0x31424450;  // "PDB1"
constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);
constexpr std::size_t kHeaderCrcAt = kBlockHeaderBytes - kCrcBytes;

using HeaderBytes = std::array<std::byte, kBlockHeaderBytes>;

HeaderBytes encode(const BlockHeader& header) {
  HeaderBytes bytes{};
  std::byte* const at = bytes.data();
  store_le<std::uint32_t>(at, kMagic);
  store_le<std::uint32_t>(at + 4, static_cast<std::uint32_t>(header.kind));
  store_le<std::uint64_t>(at + 8, header.width);
  store_le<std::uint32_t>(at + 16, header.state_width);
  store_le<std::uint32_t>(at + 20, kBlockBytes);
  store_le<std::uint64_t>(at + 24, header.update_count);
  store_le<std::uint32_t>(at + 32, header.has_scores ? 1 : 0);
  store_le<std::uint32_t>(at + kHeaderCrcAt, crc32c(ByteSpan(bytes).first(kHeaderCrcAt)));
  return bytes;
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

Result<FileWriter> FileWriter::create(int directory, const std::string& name) {
  UniqueFd fd(::openat(directory, name.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd) return system_error(Errc::kResource, "create " + name);
  return FileWriter(name, std::move(fd));
}

Status FileWriter::append(ByteSpan data) {
  if (auto written = write_all(fd_.get(), data, TimePoint::max()); !written) {
    Error error = std::move(written).error().with(entry_.name);
    error.code = Errc::kResource;
    return error;
  }
  entry_.size += data.size();
  entry_.crc = crc32c(data, entry_.crc);
  return {};
}

Result<FileEntry> FileWriter::finish() {
  if (::fsync(fd_.get()) != 0) return system_error(Errc::kResource, "fsync " + entry_.name);
  fd_.reset();
  return std::move(entry_);
}

Result<BlockWriter> BlockWriter::create(int directory, const std::string& name,
                                        const BlockHeader& header) {
  PADDLE_TRY(FileWriter file, FileWriter::create(directory, name));
  PADDLE_TRY_STATUS(file.append(encode(header)));
  return BlockWriter(std::move(file));
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
  store_le<std::uint32_t>(crc.data(), crc32c(block_));
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

Result<FileReader> FileReader::open(int directory, const FileEntry& expected) {
  PADDLE_TRY(const SafePath path, SafePath::parse(expected.name));
  PADDLE_TRY(UniqueFd fd, path.open_read(directory));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(Errc::kData, "stat " + expected.name);
  FileReader file(expected, std::move(fd));
  if (const auto found = static_cast<std::uint64_t>(info.st_size); found != expected.size) {
    return file.error(fmt::format("expected {} bytes, found {}", expected.size, found));
  }
  return file;
}

Status FileReader::read(std::span<std::byte> into) {
  if (into.size() > bytes_left()) {
    return error(fmt::format("expected {} more bytes, found {}", into.size(), bytes_left()));
  }
  if (auto read = read_exact(fd_.get(), into, TimePoint::max()); !read) {
    return error(read.error().message);
  }
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

Result<BlockReader> BlockReader::open(int directory, const FileEntry& entry,
                                      const BlockHeader& expected) {
  PADDLE_TRY(FileReader file, FileReader::open(directory, entry));
  HeaderBytes found{};
  PADDLE_TRY_STATUS(file.read(found));
  BlockHeader header = expected;
  header.update_count = load_le<std::uint64_t>(found.data() + 24);
  if (found != encode(header)) {
    return file.error(fmt::format("its header is corrupt or not of width {} and state width {}",
                                  expected.width, expected.state_width));
  }
  BlockReader reader(std::move(file));
  reader.update_count_ = header.update_count;
  const std::uint64_t rest = entry.size - kBlockHeaderBytes;
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
  if (const auto found = crc32c(block_); found != expected) {
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

Status verify_file(int directory, const FileEntry& expected) {
  PADDLE_TRY(FileReader file, FileReader::open(directory, expected));
  Bytes buffer;
  while (file.bytes_left() > 0) {
    buffer.resize(std::min<std::uint64_t>(kBlockBytes, file.bytes_left()));
    PADDLE_TRY_STATUS(file.read(buffer));
  }
  return file.finish();
}

}  // namespace paddle::snapshot

// Streamed files of a snapshot, with size and CRC32C of the whole; state and rows also have a
// header and a CRC32C after every 1 MiB block.
#pragma once

#include <array>

#include "base/fd.h"

namespace paddle::snapshot {

constexpr std::size_t kBlockBytes = 1U << 20U;
constexpr std::size_t kBlockHeaderBytes = 40;

enum class BlockKind : std::uint32_t { kState = 1, kRows = 2, kIds = 3 };

// Bytes: u32 "PDB1", u32 kind, u64 width, u32 state_width, u32 block bytes, u64 update_count, u32
// has_scores, u32 CRC32C of the 36 bytes before.
struct BlockHeader {
  BlockKind kind = BlockKind::kState;
  std::uint64_t width = 0;  // elements of the parameter, or floats of a row's value
  std::uint32_t state_width = 0;
  std::uint64_t update_count = 0;  // of a dense parameter
  bool has_scores = false;         // a parameter::RowScore behind each row
};

struct FileEntry {
  std::string name;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
};

// Header of the file of one dense parameter in the format of PaddlePaddle v0.10: int32 0, uint32 4
// (bytes of a value), uint64 count; then come count float32, all little-endian, row-major.
constexpr std::size_t kParameterFileHeaderBytes = 16;

std::array<std::byte, kParameterFileHeaderBytes> parameter_file_header(std::uint64_t count);

// kData unless it is v0.10's float32 header of exactly `expected_count` elements.
Status check_parameter_file_header(std::span<const std::byte, kParameterFileHeaderBytes> header,
                                   std::uint64_t expected_count);

// Writes one new file below a directory. Errors are kResource and name the file.
class FileWriter {
 public:
  static Result<FileWriter> create(int directory, const std::string& name);
  Status append(ByteSpan data);
  // Makes the content durable.
  Result<FileEntry> finish();

 private:
  FileWriter(std::string name, UniqueFd fd) : fd_(std::move(fd)) { entry_.name = std::move(name); }
  UniqueFd fd_;
  FileEntry entry_;
};

class BlockWriter {
 public:
  static Result<BlockWriter> create(int directory, const std::string& name,
                                    const BlockHeader& header);
  Status append(ByteSpan data);
  Result<FileEntry> finish();
  std::uint64_t body_bytes() const { return body_bytes_; }

 private:
  explicit BlockWriter(FileWriter file) : file_(std::move(file)) { block_.reserve(kBlockBytes); }
  Status flush();
  FileWriter file_;
  Bytes block_;
  std::uint64_t body_bytes_ = 0;
};

// Reads one file listed in a MANIFEST. Errors are kData and name the file, the expected and the
// found.
class FileReader {
 public:
  // Checks the size before anything is read.
  static Result<FileReader> open(int directory, const FileEntry& expected);
  Status read(std::span<std::byte> into);
  // Checks the CRC32C of the whole file; call it after the last byte.
  Status finish() const;
  std::uint64_t bytes_left() const { return expected_.size - offset_; }
  Error error(const std::string& what) const;

 private:
  FileReader(FileEntry expected, UniqueFd fd)
      : expected_(std::move(expected)), fd_(std::move(fd)) {}
  FileEntry expected_;
  UniqueFd fd_;
  std::uint64_t offset_ = 0;
  std::uint32_t crc_ = 0;
};

class BlockReader {
 public:
  // kind, width and state_width must be those of `expected`.
  static Result<BlockReader> open(int directory, const FileEntry& entry,
                                  const BlockHeader& expected);
  // Bytes of the body that are not read yet, from the size of the file.
  std::uint64_t bytes_left() const { return bytes_left_; }
  std::uint64_t update_count() const { return update_count_; }
  // kData also when fewer bytes are left.
  Status read(std::span<std::byte> into);
  Status finish() const;
  Error error(const std::string& what) const { return file_.error(what); }

 private:
  explicit BlockReader(FileReader file) : file_(std::move(file)) {}
  Status next_block();
  FileReader file_;
  Bytes block_;
  std::size_t block_offset_ = 0;
  std::uint64_t bytes_left_ = 0;
  std::uint64_t update_count_ = 0;
};

// Reads the whole file to check its size and CRC32C.
Status verify_file(int directory, const FileEntry& expected);

}  // namespace paddle::snapshot

// Files of a snapshot on disk, which are read and written as streams. MANIFEST lists the size and
// SHA-256 of each. Files of state and rows also identify themselves: a header names the snapshot
// and the file, and the CRC32C after every 1 MiB block covers that header and the block's number,
// too.
#pragma once

#include <array>

#include "base/sha256.h"
#include "engine/snapshot/file_system.h"
#include "engine/snapshot/manifest.h"

namespace paddle::snapshot {

constexpr std::size_t kBlockBytes = 1U << 20U;

enum class BlockKind : std::uint32_t { kState = 1, kRows = 2, kIds = 3 };

// Bytes: u32 "PDB2", u32 kind, u64 width, u32 state_width, u32 block bytes, u64 update_count, u32
// has_scores, the snapshot's id, u32 bytes of the file's name, the name, u32 CRC32C of all before.
// The CRC32C after a block continues the header's CRC32C over the block's number (u64) and the
// block.
struct BlockHeader {
  SnapshotId snapshot{};
  BlockKind kind = BlockKind::kState;
  std::uint64_t width = 0;  // elements of the parameter, or floats of a row's value
  std::uint32_t state_width = 0;
  std::uint64_t update_count = 0;  // for a dense parameter
  bool has_scores = false;         // a parameter::RowScore behind each row
};

// CRC32C of the blocks of a file, one after another.
class BlockCrc {
 public:
  explicit BlockCrc(ByteSpan header);
  std::uint32_t next(ByteSpan block);

 private:
  std::uint32_t header_;
  std::uint64_t number_ = 0;
};

// Header of the file of one dense parameter in the format of PaddlePaddle v0.10: int32 0, uint32 4
// (bytes of a value), uint64 count; then come count float32, all little-endian, row-major.
constexpr std::size_t kParameterFileHeaderBytes = 16;

std::array<std::byte, kParameterFileHeaderBytes> parameter_file_header(std::uint64_t count);

// kData unless it is v0.10's header of exactly `expected_count` float32 elements.
Status check_parameter_file_header(std::span<const std::byte, kParameterFileHeaderBytes> header,
                                   std::uint64_t expected_count);

// Writes one new file below a directory. Errors are kResource and name the file; after an error no
// function may be called.
class FileWriter {
 public:
  static Result<FileWriter> create(Directory& directory, const std::string& name);
  Status append(ByteSpan data);
  // Makes the content durable.
  Result<FileEntry> finish();

 private:
  FileWriter(std::string name, std::unique_ptr<OutputFile> file) : file_(std::move(file)) {
    entry_.name = std::move(name);
  }
  std::unique_ptr<OutputFile> file_;  // null after an error or finish()
  FileEntry entry_;
  Sha256 sha256_;
};

class BlockWriter {
 public:
  static Result<BlockWriter> create(Directory& directory, const std::string& name,
                                    const BlockHeader& header);
  Status append(ByteSpan data);
  Result<FileEntry> finish();
  std::uint64_t body_bytes() const { return body_bytes_; }

 private:
  BlockWriter(FileWriter file, BlockCrc crc) : file_(std::move(file)), crc_(crc) {
    block_.reserve(kBlockBytes);
  }
  Status flush();
  FileWriter file_;
  BlockCrc crc_;
  Bytes block_;
  std::uint64_t body_bytes_ = 0;
};

// Reads one file listed in a MANIFEST, after verify_file(). Errors are kData and name the file,
// what was expected and what was found.
class FileReader {
 public:
  // Checks the size before anything is read.
  static Result<FileReader> open(const Directory& directory, const FileEntry& expected);
  Status read(std::span<std::byte> into);
  // Checks the CRC32C of the whole file; call it after the last byte.
  Status finish() const;
  std::uint64_t bytes_left() const { return expected_.size - offset_; }
  std::uint32_t crc() const { return crc_; }  // over the bytes read so far
  Error error(const std::string& what) const;

 private:
  FileReader(FileEntry expected, std::unique_ptr<InputFile> file)
      : expected_(std::move(expected)), file_(std::move(file)) {}
  FileEntry expected_;
  std::unique_ptr<InputFile> file_;
  std::uint64_t offset_ = 0;
  std::uint32_t crc_ = 0;
};

class BlockReader {
 public:
  // The file's header must equal `expected`, except for the update count.
  static Result<BlockReader> open(const Directory& directory, const FileEntry& entry,
                                  const BlockHeader& expected);
  // Bytes of the body that are not read yet, by the size of the file.
  std::uint64_t bytes_left() const { return bytes_left_; }
  std::uint64_t update_count() const { return update_count_; }
  // kData if fewer bytes are left, too.
  Status read(std::span<std::byte> into);
  Status finish() const;
  Error error(const std::string& what) const { return file_.error(what); }

 private:
  BlockReader(FileReader file, BlockCrc crc) : file_(std::move(file)), crc_(crc) {}
  Status next_block();
  FileReader file_;
  BlockCrc crc_;
  Bytes block_;
  std::size_t block_offset_ = 0;
  std::uint64_t bytes_left_ = 0;
  std::uint64_t update_count_ = 0;
};

// Reads the whole file to check its size and SHA-256, and stores its CRC32C in `expected`.
Status verify_file(const Directory& directory, FileEntry& expected);

constexpr std::uint64_t kRowsFileBytesMax = 64U << 20U;  // the rows after that are in another file

// The header of a file of a parameter, except for a file of dense values. Its update count is 0.
BlockHeader block_header(const SnapshotId& snapshot, const ManifestParameter& parameter,
                         const std::string& file);

}  // namespace paddle::snapshot

// Savepoints of one shard on disk (savepoint_store.h): the file of one savepoint, and the folder of
// all savepoints.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/snapshot/file_system.h"
#include "engine/snapshot/savepoint_store.h"

namespace paddle::snapshot {

// File of one savepoint. Each checksum continues the one before it, over every byte, so a record
// that is damaged, is missing or belongs to another file is found before it is used.

// A written savepoint: its number, and the CRC32C that its file ends with.
struct SavepointMark {
  std::uint64_t number = 0;
  std::uint32_t crc = 0;

  bool operator==(const SavepointMark&) const = default;
};

// Bytes: u32 "PDCT", u32 format version 1, u64 fingerprint, u64 number, u64 number and u32 CRC32C
// of the savepoint before (0 in a full savepoint), u32 1 in a full savepoint and 0 in a delta, u32
// CRC32C of all before.
//
// Records follow: u32 kind, u64 length, the payload, u32 CRC32C. That CRC continues the one before
// it over kind, length and payload. The last record has kind 2^32 - 1, and the number of the other
// records (u64) as its payload.
struct SavepointHeader {
  // Identifies the shard: its job, its parameters and its place among the shards.
  std::uint64_t fingerprint = 0;
  std::uint64_t number = 0;
  std::optional<SavepointMark>
      after;  // the savepoint that a delta follows; absent in a full savepoint
};

constexpr std::uint32_t kSavepointLastRecord = ~std::uint32_t{0};

// Writes one new file. Errors are kResource and name the file; after an error no function may be
// called.
class SavepointFileWriter {
 public:
  static Result<SavepointFileWriter> create(Directory& directory, const std::string& name,
                                            const SavepointHeader& header);
  Status add(std::uint32_t kind, ByteSpan payload);
  // Makes the content durable, but not the file's name.
  Result<SavepointMark> finish();

 private:
  SavepointFileWriter(std::unique_ptr<OutputFile> file, SavepointMark mark)
      : file_(std::move(file)), mark_(mark) {}
  std::unique_ptr<OutputFile> file_;
  SavepointMark mark_;  // its CRC is that of the last record so far
  std::uint64_t records_ = 0;
};

// Reads one file from its beginning to its end, record by record. Errors are kData and name the
// file, what was expected and what was found.
class SavepointFileReader {
 public:
  static Result<SavepointFileReader> open(const Directory& directory, const std::string& name);
  const SavepointHeader& header() const { return header_; }
  // Reads the next record; false when there are no more records, and the file is whole.
  Result<bool> next();
  std::uint32_t kind() const { return kind_; }
  ByteSpan payload() const { return payload_; }
  // The file's mark, once next() has returned false.
  SavepointMark mark() const { return {header_.number, crc_}; }
  Error error(const std::string& what) const;

 private:
  SavepointFileReader(std::string name, std::unique_ptr<InputFile> file)
      : name_(std::move(name)), file_(std::move(file)), left_(file_->size()) {}
  Status read_header();
  Status read(std::span<std::byte> into);
  Status check_last() const;

  std::string name_;
  std::unique_ptr<InputFile> file_;
  std::uint64_t left_;  // bytes of the file
  SavepointHeader header_;
  std::uint32_t crc_ = 0;
  std::uint64_t records_ = 0;
  std::uint32_t kind_ = 0;
  Bytes buffer_;
  ByteSpan payload_;  // in buffer_
};

// Folder of the savepoints of one shard: "savepoint-000000012345.full",
// "savepoint-000000012400.delta". One thread makes all calls.
class SavepointFolder {
 public:
  // Creates the folder, durably, and reads all of its files. Removes with a warning a damaged file,
  // a delta without the savepoint that it follows, and files of another `fingerprint`.
  static Result<SavepointFolder> open(FileSystem& files, std::string path,
                                      std::uint64_t fingerprint);

  // Begins a savepoint that follows the newest savepoint, whose number is `after`, or a full
  // savepoint without `after`. An error of begin(), add() or end() is kResource, drops the
  // savepoint and removes its file.
  Status begin(std::uint64_t number, std::optional<std::uint64_t> after);
  Status add(std::uint32_t kind, ByteSpan payload);
  // Makes the savepoint durable; then it is whole.
  Status end();
  // Drops the savepoint that has begun and not ended, if there is one.
  void drop();

  // The newest whole savepoint; std::nullopt if there is none.
  std::optional<std::uint64_t> newest() const;
  std::vector<std::uint64_t> numbers() const;
  // See SavepointStore.
  Status read(std::uint64_t number, const SavepointStore::Use& use);
  Status forget_before(std::uint64_t number);
  Status forget_after(std::uint64_t number);

  const std::string& path() const { return path_; }

 private:
  struct Savepoint {
    SavepointMark mark;
    bool is_full = false;
  };

  SavepointFolder(FileSystem& files, std::string path, std::uint64_t fingerprint,
                  std::unique_ptr<Directory> directory)
      : files_(&files),
        path_(std::move(path)),
        fingerprint_(fingerprint),
        directory_(std::move(directory)) {}
  // Savepoints by the file names in the folder, ascending; of two with one number the full one
  // first.
  Result<std::vector<Savepoint>> names() const;
  Status take_whole();
  Result<SavepointMark> verify(const Savepoint& savepoint, SavepointFileReader& reader) const;
  Status check_header(const Savepoint& savepoint, const SavepointHeader& header) const;
  Status read_file(const Savepoint& savepoint, const SavepointStore::Use& use, Status& used) const;
  Status remove(const Savepoint& savepoint);
  // Removes a file that is not whole, with a warning.
  void discard(const Savepoint& savepoint, const std::string& why);

  FileSystem* files_;
  std::string path_;
  std::uint64_t fingerprint_;
  std::unique_ptr<Directory> directory_;
  std::vector<Savepoint> savepoints_;  // whole, ascending
  Savepoint open_;                     // the savepoint of writer_
  std::optional<SavepointFileWriter> writer_;
};

}  // namespace paddle::snapshot

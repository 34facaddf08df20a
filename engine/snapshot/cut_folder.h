// Cuts of one shard on disk (cut_store.h): the file of one cut, and the folder of all cuts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/snapshot/cut_store.h"
#include "engine/snapshot/file_system.h"

namespace paddle::snapshot {

// File of one cut. Each checksum continues the one before it, over every byte, so a record that is
// damaged, is missing or belongs to another file is found before it is used.

// A written cut: its number, and the CRC32C that its file ends with.
struct CutMark {
  std::uint64_t number = 0;
  std::uint32_t crc = 0;

  bool operator==(const CutMark&) const = default;
};

// Bytes: u32 "PDCT", u32 format version 1, u64 fingerprint, u64 number, u64 number and u32 CRC32C
// of the cut before (0 in a full cut), u32 1 in a full cut and 0 in a delta, u32 CRC32C of all
// before.
//
// Records follow: u32 kind, u64 length, the payload, u32 CRC32C. That CRC continues the one before
// it over kind, length and payload. The last record has kind 2^32 - 1, and the number of the other
// records (u64) as its payload.
struct CutHeader {
  // Identifies the shard: its job, its parameters and its place among the shards.
  std::uint64_t fingerprint = 0;
  std::uint64_t number = 0;
  std::optional<CutMark> after;  // the cut that a delta follows; absent in a full cut
};

constexpr std::uint32_t kCutLastRecord = ~std::uint32_t{0};

// Writes one new file. Errors are kResource and name the file; after an error no function may be
// called.
class CutFileWriter {
 public:
  static Result<CutFileWriter> create(Directory& directory, const std::string& name,
                                      const CutHeader& header);
  Status add(std::uint32_t kind, ByteSpan payload);
  // Makes the content durable, but not the file's name.
  Result<CutMark> finish();

 private:
  CutFileWriter(std::unique_ptr<OutputFile> file, CutMark mark)
      : file_(std::move(file)), mark_(mark) {}
  std::unique_ptr<OutputFile> file_;
  CutMark mark_;  // its CRC is that of the last record so far
  std::uint64_t records_ = 0;
};

// Reads one file from its beginning to its end, record by record. Errors are kData and name the
// file, what was expected and what was found.
class CutFileReader {
 public:
  static Result<CutFileReader> open(const Directory& directory, const std::string& name);
  const CutHeader& header() const { return header_; }
  // Reads the next record; false when there are no more records, and the file is whole.
  Result<bool> next();
  std::uint32_t kind() const { return kind_; }
  ByteSpan payload() const { return payload_; }
  // The file's mark, once next() has returned false.
  CutMark mark() const { return {header_.number, crc_}; }
  Error error(const std::string& what) const;

 private:
  CutFileReader(std::string name, std::unique_ptr<InputFile> file)
      : name_(std::move(name)), file_(std::move(file)), left_(file_->size()) {}
  Status read_header();
  Status read(std::span<std::byte> into);
  Status check_last() const;

  std::string name_;
  std::unique_ptr<InputFile> file_;
  std::uint64_t left_;  // bytes of the file
  CutHeader header_;
  std::uint32_t crc_ = 0;
  std::uint64_t records_ = 0;
  std::uint32_t kind_ = 0;
  Bytes buffer_;
  ByteSpan payload_;  // in buffer_
};

// Folder of the cuts of one shard: "cut-000000012345.full", "cut-000000012400.delta". One thread
// makes all calls.
class CutFolder {
 public:
  // Creates the folder, durably, and reads all of its files. Removes with a warning a damaged file,
  // a delta without the cut that it follows, and files of another `fingerprint`.
  static Result<CutFolder> open(FileSystem& files, std::string path, std::uint64_t fingerprint);

  // Begins a cut that follows the newest cut, whose number is `after`, or a full cut without
  // `after`. An error of begin(), add() or end() is kResource, drops the cut and removes its file.
  Status begin(std::uint64_t number, std::optional<std::uint64_t> after);
  Status add(std::uint32_t kind, ByteSpan payload);
  // Makes the cut durable; then it is whole.
  Status end();
  // Drops the cut that has begun and not ended, if there is one.
  void drop();

  // The newest whole cut; std::nullopt if there is none.
  std::optional<std::uint64_t> newest() const;
  std::vector<std::uint64_t> numbers() const;
  // See CutStore.
  Status read(std::uint64_t number, const CutStore::Use& use);
  Status forget_before(std::uint64_t number);
  Status forget_after(std::uint64_t number);

  const std::string& path() const { return path_; }

 private:
  struct Cut {
    CutMark mark;
    bool is_full = false;
  };

  CutFolder(FileSystem& files, std::string path, std::uint64_t fingerprint,
            std::unique_ptr<Directory> directory)
      : files_(&files),
        path_(std::move(path)),
        fingerprint_(fingerprint),
        directory_(std::move(directory)) {}
  // Cuts by the file names in the folder, ascending; of two with one number the full one first.
  Result<std::vector<Cut>> names() const;
  Status take_whole();
  Result<CutMark> verify(const Cut& cut, CutFileReader& reader) const;
  Status check_header(const Cut& cut, const CutHeader& header) const;
  Status read_file(const Cut& cut, const CutStore::Use& use, Status& used) const;
  Status remove(const Cut& cut);
  // Removes a file that is not whole, with a warning.
  void discard(const Cut& cut, const std::string& why);

  FileSystem* files_;
  std::string path_;
  std::uint64_t fingerprint_;
  std::unique_ptr<Directory> directory_;
  std::vector<Cut> cuts_;  // whole, ascending
  Cut open_;               // the cut of writer_
  std::optional<CutFileWriter> writer_;
};

}  // namespace paddle::snapshot

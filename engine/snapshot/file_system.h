// File system of snapshots: the operations that their writer, reader and retention need. Production
// has the kernel's; tests have one in memory, which loses in a crash what was not synced.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle::snapshot {

// A new file. An error makes it invalid for ever: a sync that is tried again can succeed although
// the data of the one that failed is lost.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual Status append(ByteSpan data) = 0;
  // Makes the content durable, but not the file's name.
  virtual Status sync() = 0;
};

class InputFile {
 public:
  virtual ~InputFile() = default;
  virtual std::uint64_t size() const = 0;
  // Fills `into` with the bytes that follow those of the last read.
  virtual Status read(std::span<std::byte> into) = 0;
};

// An open directory. It stays the same one when it is renamed.
class Directory {
 public:
  virtual ~Directory() = default;
  // A file of a name that is not there yet.
  virtual Result<std::unique_ptr<OutputFile>> create(const std::string& name) = 0;
  // A regular file at a safe path; no link is followed.
  virtual Result<std::unique_ptr<InputFile>> open(const std::string& path) const = 0;
  // Makes durable which names it has.
  virtual Status sync() = 0;
};

enum class EntryKind { kNone, kDirectory, kOther };

// Errors name the path. Those of reading are kData, all others kResource.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<Directory>> open_directory(const std::string& path) = 0;
  // A whole small file.
  virtual Result<std::string> read_file(const std::string& path, std::size_t max_bytes) = 0;
  // Names in a directory, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  // A link is kOther.
  virtual EntryKind kind(const std::string& path) = 0;
  virtual Status make_directory(const std::string& path) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // False when one of the two does not exist or the file system cannot exchange names.
  virtual bool exchange(const std::string& one, const std::string& other) = 0;
  // Success when there is nothing at `path`.
  virtual Status remove_all(const std::string& path) = 0;

  bool exists(const std::string& path) { return kind(path) != EntryKind::kNone; }
  Status sync_directory(const std::string& path);
  // Makes those directories of `path` that are not there, durably.
  Status make_directories(const std::string& path);
};

FileSystem& kernel_file_system();

// "/a/b/" for "/a/b/c", "." for "c".
std::string parent_of(const std::string& path);

}  // namespace paddle::snapshot

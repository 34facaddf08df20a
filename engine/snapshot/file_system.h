// File system of snapshots: the operations that their writer, reader and retention need. Programs
// use the kernel's file system; tests use one in memory, which in a crash loses what was not
// synced.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle::snapshot {

// A new file. After an error it stays invalid: a repeated sync can succeed although the data of the
// failed one is lost.
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

// An open directory. Renaming the directory does not matter.
class Directory {
 public:
  virtual ~Directory() = default;
  // Creates a file; its name must not exist yet.
  virtual Result<std::unique_ptr<OutputFile>> create(const std::string& name) = 0;
  // Opens a regular file at a safe path; follows no link.
  virtual Result<std::unique_ptr<InputFile>> open(const std::string& path) const = 0;
  // Makes the names in the directory durable.
  virtual Status sync() = 0;
};

enum class EntryKind { kNone, kDirectory, kOther };

// Errors name the path. Errors of reading are kData, all others kResource.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<Directory>> open_directory(const std::string& path) = 0;
  // Reads a small file whole.
  virtual Result<std::string> read_file(const std::string& path, std::size_t max_bytes) = 0;
  // Names in a directory, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  // A link is kOther.
  virtual EntryKind kind(const std::string& path) = 0;
  virtual Status make_directory(const std::string& path) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // Exchanges two names. False if one of them does not exist or the file system cannot do that.
  virtual bool exchange(const std::string& one, const std::string& other) = 0;
  // Succeeds if there is nothing at `path`.
  virtual Status remove_all(const std::string& path) = 0;

  bool exists(const std::string& path) { return kind(path) != EntryKind::kNone; }
  Status sync_directory(const std::string& path);
  // Creates the directories of `path` that do not exist, durably.
  Status make_directories(const std::string& path);
};

FileSystem& kernel_file_system();

// The parent folder: "/a/b/" for "/a/b/c", "." for "c".
std::string parent_of(const std::string& path);

}  // namespace paddle::snapshot

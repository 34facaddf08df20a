// What this machine's files were found to be when they were last read, kept between runs. A file
// whose stamp is the same is not read again.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "base/file_stamp.h"
#include "proto/content.h"

namespace paddle::remote {

constexpr std::size_t kHashCacheBytesMax = 64U << 20U;

struct FileContent {
  Sha256Digest id{};
  std::vector<Chunk> chunks;  // of a chunked file
};

// Not for several threads at once.
class HashCache {
 public:
  // "": nothing is kept. A file that is missing or damaged is an empty cache.
  explicit HashCache(std::string file);

  std::optional<FileContent> find(const std::string& path, const FileStamp& stamp);
  // Nothing is kept of a file that changed in the two seconds before it was read: a further change
  // within the file system's clock tick would not show. now_ns: since 1970.
  void put(const std::string& path, const FileStamp& stamp, std::int64_t now_ns,
           const FileContent& content);
  // Writes what changed; the entries of other files stay as far as kHashCacheBytesMax allows.
  Status save();

 private:
  struct Entry {
    FileStamp stamp;
    FileContent content;
    bool used = false;  // in this run
  };
  Status load(ByteSpan text);

  std::string file_;
  std::unordered_map<std::string, Entry> entries_;
  bool changed_ = false;
};

}  // namespace paddle::remote

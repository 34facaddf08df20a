// Hashes of this machine's files, kept between runs. A file with an unchanged stamp is not read
// again.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "base/sha256.h"
#include "proto/content.h"

namespace paddle::remote {

constexpr std::size_t kHashCacheBytesMax = 64U << 20U;

struct FileContent {
  Sha256Digest id{};
  std::vector<Chunk> chunks;  // of a chunked file
};

// Not thread-safe.
class HashCache {
 public:
  // "": keeps nothing between runs. A missing or damaged file is an empty cache.
  explicit HashCache(std::string file);

  std::optional<FileContent> find(const std::string& path, const FileStamp& stamp);
  // Ignores a file that changed less than two seconds before `now_ns` (since 1970): another change
  // within the file system's clock tick would not change its stamp.
  void put(const std::string& path, const FileStamp& stamp, std::int64_t now_ns,
           const FileContent& content);
  // Writes the cache if it changed; unused entries are dropped above kHashCacheBytesMax.
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

// The items and files of one push, shared by its nodes: each file is hashed once, and read and
// compressed once for nodes that lack it at about the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "base/sha256.h"
#include "proto/content.h"
#include "remote/client/fan_out.h"

namespace paddle::remote {

constexpr std::size_t kHashCacheBytesMax = 64U << 20U;

struct FileContent {
  Sha256Digest id{};
  std::vector<Chunk> chunks;  // chunks of a chunked file
};

// Hashes of this machine's files, kept between runs. A file with an unchanged stamp is not read
// again. Not thread-safe.
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

struct PushItem {
  std::string local_path;   // a regular file on this machine; links may lead to it
  std::string remote_path;  // below root
  bool executable = false;  // even when the local file is not
  std::string link = {};    // target of a symbolic link; local_path is then not read
  bool no_links = false;    // local_path is refused if a link leads to it or is on the way
  // Pushed in place of the content of local_path, which then only gives its permissions and its
  // name in errors. It may be "": the file on the node can then be read by all its users.
  std::optional<std::string> content = {};
};
struct PushStats {
  std::size_t files = 0, files_sent = 0;    // files_sent: at least a part moved
  std::uint64_t bytes = 0, bytes_sent = 0;  // content bytes
  std::uint64_t bytes_on_wire = 0;          // compressed, from this machine
  std::uint64_t bytes_from_nodes = 0;       // the part of bytes_sent that other nodes sent
};
// Called with the bytes found missing and the bytes delivered since the last call; false cancels
// the push.
using PushProgress = std::function<bool(std::uint64_t planned, std::uint64_t arrived)>;

constexpr std::size_t kPackBytesMax = 1U << 20U;  // content bytes before compression
constexpr std::size_t kPackBlobsMax = 1000;       // so that their sizes fit into a frame's head
constexpr std::size_t kPacksKeptBytesMax = 96U << 20U;  // kept for slower nodes

struct LocalFile {
  std::string path;
  FileStamp stamp;
  std::uint32_t mode = 0;  // permission bits
  bool no_links = false;
  FileContent content;
  // PushItem::content, or a copy of a file that reports a wrong size, such as those of /proc and
  // /sys, since its content may differ at each reading. `stamp` is then that of the copy.
  UniqueFd copy = {};
};

// A whole small file, or one chunk of a larger one.
struct Blob {
  const LocalFile* file = nullptr;
  std::uint32_t chunk = 0;
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
};

struct Pack {
  Bytes bytes;
  std::uint32_t raw_bytes = 0;  // before compression; 0: not compressed
};

// Thread-safe.
class PushSource {
 public:
  // nodes: the number of nodes that push at about the same time; if there are several, they may
  // serve each other.
  explicit PushSource(std::string cache_file = "", std::size_t nodes = 1)
      : fan_out_(nodes), cache_(std::move(cache_file)) {}

  // Returns a file for each item that is not a link, in the order of the items; valid as long as
  // this object. Items with the same local_path are the same file. kData for a file that is
  // unreadable, not regular, or over kPushFileBytesMax.
  Result<std::vector<const LocalFile*>> describe(const std::vector<PushItem>& items);
  // The blobs, concatenated. kData when a file changed since it was described.
  Result<std::shared_ptr<const Pack>> pack(std::span<const Blob> blobs);
  // Saves the hashes for the next run.
  Status save();
  FanOut& fan_out() { return fan_out_; }

 private:
  using Described = Result<std::unique_ptr<LocalFile>>;
  using Packed = Result<std::shared_ptr<const Pack>>;

  Described read(const std::string& path, bool no_links);
  static Described read_content_of(const PushItem& item);
  static Described read_copy(int fd, std::unique_ptr<LocalFile> file);
  static Described describe_copy(std::unique_ptr<LocalFile> file);

  FanOut fan_out_;
  std::mutex mutex_;
  HashCache cache_;  // guarded by mutex_, as are the members below
  std::map<std::string, std::shared_future<Described>> files_;
  std::map<std::string, std::shared_future<Packed>> packs_;
  std::list<std::pair<std::string, std::size_t>> pack_order_;  // oldest first, with their sizes
  std::size_t packs_bytes_ = 0;
};

// The permission bits on a node: those of this machine without write access, because the jobs of a
// node share the file.
std::uint32_t pushed_mode(std::uint32_t mode);

}  // namespace paddle::remote

#include "remote/client/push_source.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/control_group.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "base/pool.h"
#include "remote/client/chunker.h"

namespace paddle::remote {
namespace {

// "paddlectl hashes 1\n", then entries {u32 path bytes, path, stamp, id, u32 chunk list bytes,
// list}, then the CRC32C of all before it.
constexpr std::string_view kMagic = "paddlectl hashes 1\n";
constexpr std::int64_t kSettledNs = 2'000'000'000;

template <class T>
void append(Bytes& to, const T& value) {
  append_bytes(to, std::span<const T>(&value, 1));
}

class Reader {
 public:
  explicit Reader(ByteSpan from) : from_(from) {}
  bool empty() const { return from_.empty(); }
  Result<ByteSpan> read(std::size_t size) {
    if (size > from_.size()) return Error{Errc::kData, "the hash cache is truncated", ""};
    const ByteSpan taken = from_.first(size);
    from_ = from_.subspan(size);
    return taken;
  }
  template <class T>
  Result<T> read_value() {
    static_assert(std::is_trivially_copyable_v<T>);
    PADDLE_TRY(const ByteSpan bytes, read(sizeof(T)));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

 private:
  ByteSpan from_;
};

constexpr std::uint64_t kUnsizedBytesMax = 64U << 20U;  // for a file that reports no size
constexpr std::size_t kCopyReadBytes = 256U << 10U;
constexpr std::size_t kThreadsMax = 8;
constexpr std::size_t kFilesAThread = 32;  // fewer are not worth a thread
constexpr mode_t kContentMode = 0644;      // for content without a local file

// The item's file in errors, which no other file has.
const std::string& name_of(const PushItem& item) {
  return item.local_path.empty() ? item.remote_path : item.local_path;
}

std::int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Error changed(const std::string& path) {
  return Error{Errc::kData, path + " changed while it was pushed", "push again"};
}

Result<FileContent> read_content(int fd, std::uint64_t size) {
  FileContent content;
  if (is_chunked(size)) {
    PADDLE_TRY(content.chunks, chunk_file(fd, size));
    content.id = chunked_id(encode_chunks(content.chunks), size);
    return content;
  }
  Bytes bytes(size);
  PADDLE_TRY_STATUS(read_exact(fd, bytes, TimePoint::max()));
  content.id = sha256_of(bytes);
  return content;
}

// "<address of the file>:<chunk>," for each: the same blobs in the same order.
std::string key_of(std::span<const Blob> blobs) {
  std::string key;
  key.reserve(blobs.size() * 12);
  for (const Blob& blob : blobs) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): the address is meant
    key.append(reinterpret_cast<const char*>(&blob.file), sizeof blob.file);
    key.append(reinterpret_cast<const char*>(&blob.chunk), sizeof blob.chunk);
  }
  return key;
}

UniqueFd open_file(const std::string& path, bool no_links) {
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  if (!no_links) return UniqueFd(::open(path.c_str(), kFlags));
  open_how how{};
  how.flags = static_cast<std::uint64_t>(kFlags | O_NOFOLLOW);
  how.resolve = RESOLVE_NO_SYMLINKS;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
}

// Whether the file has content beyond `size`.
bool has_more(int fd, std::uint64_t size) {
  std::byte one{};
  return ::pread(fd, &one, 1, static_cast<off_t>(size)) == 1;
}

// Copies all content of the file into a file in memory.
Result<UniqueFd> copy_of(int from, const std::string& path) {
  UniqueFd copy(::memfd_create("paddlectl-push", MFD_CLOEXEC));
  if (!copy) return system_error(Errc::kResource, "copy " + path);
  Bytes buffer(kCopyReadBytes);
  for (std::uint64_t at = 0;;) {
    const ssize_t got = ::pread(from, buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(Errc::kData, "read " + path);
    if (got == 0) return copy;
    const auto part = ByteSpan(buffer).first(static_cast<std::size_t>(got));
    if (!write_at(copy.get(), part, at)) return system_error(Errc::kResource, "copy " + path);
    at += part.size();
    if (at > kUnsizedBytesMax) {
      return Error{Errc::kData, path + " reports no size and is over 64 MiB",
                   "copy it to a regular file first, and name that file"};
    }
  }
}

Result<std::shared_ptr<const Pack>> make_pack(std::span<const Blob> blobs) {
  std::size_t size = 0;
  for (const Blob& blob : blobs) size += blob.size;
  Bytes raw(size);
  std::size_t at = 0;
  UniqueFd fd;
  const LocalFile* current = nullptr;
  for (const Blob& blob : blobs) {
    if (blob.file != current) {
      current = blob.file;
      fd = blob.file->copy ? UniqueFd(::fcntl(blob.file->copy.get(), F_DUPFD_CLOEXEC, 0))
                           : open_file(blob.file->path, blob.file->no_links);
      if (!fd) return system_error(Errc::kData, "read " + blob.file->path);
      struct stat info {};
      if (::fstat(fd.get(), &info) != 0 || stamp_of(info) != current->stamp) {
        return changed(current->path);
      }
    }
    const auto part = std::span(raw).subspan(at, blob.size);
    if (!read_at(fd.get(), part, blob.offset)) return changed(current->path);
    at += blob.size;
  }
  auto pack = std::make_shared<Pack>();
  if (auto packed = compress(raw)) {
    pack->bytes = *std::move(packed);
    pack->raw_bytes = static_cast<std::uint32_t>(size);
  } else {
    pack->bytes = std::move(raw);
  }
  return std::shared_ptr<const Pack>(std::move(pack));
}

}  // namespace

HashCache::HashCache(std::string file) : file_(std::move(file)) {
  if (file_.empty()) return;
  const auto text = read_file(file_, kHashCacheBytesMax);
  if (!text || !load(as_bytes(*text))) entries_.clear();
}

Status HashCache::load(ByteSpan text) {
  const Error foreign{Errc::kData, "not a hash cache", ""};
  std::uint32_t sum = 0;
  if (text.size() < kMagic.size() + sizeof sum) return foreign;
  const ByteSpan body = text.first(text.size() - sizeof sum);
  sum = load_le<std::uint32_t>(text.data() + body.size());
  if (as_text(body.first(kMagic.size())) != kMagic || crc32c(body) != sum) return foreign;
  for (Reader reader(body.subspan(kMagic.size())); !reader.empty();) {
    Entry entry;
    PADDLE_TRY(const auto path_bytes, reader.read_value<std::uint32_t>());
    PADDLE_TRY(const ByteSpan path, reader.read(path_bytes));
    PADDLE_TRY(entry.stamp, reader.read_value<FileStamp>());
    PADDLE_TRY(entry.content.id, reader.read_value<Sha256Digest>());
    PADDLE_TRY(const auto list_bytes, reader.read_value<std::uint32_t>());
    PADDLE_TRY(const ByteSpan list, reader.read(list_bytes));
    if (is_chunked(entry.stamp.size)) {
      PADDLE_TRY(entry.content.chunks, decode_chunks(list, entry.stamp.size));
    }
    entries_.emplace(as_text(path), std::move(entry));
  }
  return {};
}

std::optional<FileContent> HashCache::find(const std::string& path, const FileStamp& stamp) {
  const auto found = entries_.find(path);
  if (found == entries_.end() || found->second.stamp != stamp) return std::nullopt;
  found->second.used = true;
  return found->second.content;
}

void HashCache::put(const std::string& path, const FileStamp& stamp, std::int64_t now_ns,
                    const FileContent& content) {
  if (std::max(stamp.modified_ns, stamp.changed_ns) + kSettledNs > now_ns) return;
  entries_[path] = {stamp, content, true};
  changed_ = true;
}

Status HashCache::save() {
  if (file_.empty() || !changed_) return {};
  Bytes text;
  append_bytes(text, std::span(kMagic));
  for (const bool used : {true, false}) {
    for (const auto& [path, entry] : entries_) {
      const Bytes list = encode_chunks(entry.content.chunks);
      if (entry.used != used || text.size() + path.size() + list.size() + 256 > kHashCacheBytesMax)
        continue;
      append(text, static_cast<std::uint32_t>(path.size()));
      append_bytes(text, std::span(std::string_view(path)));
      append(text, entry.stamp);
      append(text, entry.content.id);
      append(text, static_cast<std::uint32_t>(list.size()));
      append_bytes(text, std::span<const std::byte>(list));
    }
  }
  append(text, crc32c(text));
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), error);
  if (error) return Error{Errc::kResource, file_ + ": " + error.message(), ""};
  changed_ = false;
  return replace_file(file_, text);
}

std::uint32_t pushed_mode(std::uint32_t mode) {
  return (mode & 0555U) | 0400U;
}

PushSource::Described PushSource::read(const std::string& path, bool no_links) {
  const std::int64_t now = unix_now_ns();
  const UniqueFd fd = open_file(path, no_links);
  if (!fd && no_links && errno == ELOOP) {
    return Error{Errc::kData, path + " or its folder was replaced by a link during the copy",
                 "find out which program changes it, then copy again"};
  }
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return system_error(Errc::kData, "read " + path);
  if (!S_ISREG(info.st_mode)) {
    return Error{Errc::kData, path + " is not a regular file", "remove it from the workspace"};
  }
  auto file = std::make_unique<LocalFile>();
  file->path = path;
  file->stamp = stamp_of(info);
  file->mode = info.st_mode & 0777U;
  file->no_links = no_links;
  if (file->stamp.size == 0 && has_more(fd.get(), 0)) return read_copy(fd.get(), std::move(file));
  if (file->stamp.size > kPushFileBytesMax) {
    return Error{Errc::kData, path + " is over 256 GiB",
                 "put it on a file system that every node mounts, and name its absolute path"};
  }
  {
    const std::lock_guard lock(mutex_);
    if (auto known = cache_.find(path, file->stamp)) {
      file->content = *std::move(known);
      return file;
    }
  }
  auto content = read_content(fd.get(), file->stamp.size);
  if (::fstat(fd.get(), &info) != 0 || stamp_of(info) != file->stamp) return changed(path);
  // The file has less content than its size, as those of /sys do.
  if (!content && !has_more(fd.get(), file->stamp.size - 1))
    return read_copy(fd.get(), std::move(file));
  if (!content) return changed(path);
  file->content = *std::move(content);
  const std::lock_guard lock(mutex_);
  cache_.put(path, file->stamp, now, file->content);
  return file;
}

PushSource::Described PushSource::read_content_of(const PushItem& item) {
  struct stat info {};
  info.st_mode = kContentMode;
  if (!item.local_path.empty() && ::stat(item.local_path.c_str(), &info) != 0)
    return system_error(Errc::kData, "read " + item.local_path);
  auto file = std::make_unique<LocalFile>();
  file->path = name_of(item);
  file->mode = info.st_mode & 0777U;
  file->copy = UniqueFd(::memfd_create("paddlectl-push", MFD_CLOEXEC));
  if (!file->copy || !write_at(file->copy.get(), as_bytes(*item.content), 0))
    return system_error(Errc::kResource, "copy " + file->path);
  return describe_copy(std::move(file));
}

PushSource::Described PushSource::read_copy(int fd, std::unique_ptr<LocalFile> file) {
  PADDLE_TRY(file->copy, copy_of(fd, file->path));
  return describe_copy(std::move(file));
}

PushSource::Described PushSource::describe_copy(std::unique_ptr<LocalFile> file) {
  struct stat info {};
  if (::fstat(file->copy.get(), &info) != 0 || ::lseek(file->copy.get(), 0, SEEK_SET) != 0)
    return system_error(Errc::kResource, "copy " + file->path);
  file->stamp = stamp_of(info);
  PADDLE_TRY(file->content, read_content(file->copy.get(), file->stamp.size));
  return file;
}

Result<std::vector<const LocalFile*>> PushSource::describe(const std::vector<PushItem>& items) {
  std::vector<std::shared_future<Described>> futures;
  std::vector<std::pair<const PushItem*, std::promise<Described>>> wanted;
  {
    const std::lock_guard lock(mutex_);
    for (const PushItem& item : items) {
      if (!item.link.empty()) continue;
      auto& known = files_[name_of(item)];
      if (!known.valid()) {
        wanted.emplace_back(&item, std::promise<Described>());
        known = wanted.back().second.get_future().share();
      }
      futures.push_back(known);
    }
  }
  const std::size_t threads =
      std::min({kThreadsMax, std::size_t{usable_cores()}, wanted.size() / kFilesAThread + 1});
  for_each_parallel(
      wanted.size(),
      [&](std::size_t i) {
        const PushItem& item = *wanted[i].first;
        wanted[i].second.set_value(item.content ? read_content_of(item)
                                                : read(item.local_path, item.no_links));
      },
      threads);
  std::vector<const LocalFile*> files;
  for (const auto& future : futures) {
    const Described& described = future.get();
    if (!described) return described.error();
    files.push_back(described->get());
  }
  return files;
}

Result<std::shared_ptr<const Pack>> PushSource::pack(std::span<const Blob> blobs) {
  const std::string key = key_of(blobs);
  std::promise<Packed> mine;
  std::shared_future<Packed> future;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = packs_.find(key); found != packs_.end())
      future = found->second;
    else
      packs_[key] = mine.get_future().share();
  }
  if (future.valid()) return future.get();
  auto made = make_pack(blobs);
  const std::size_t size = made ? (*made)->bytes.size() : 0;
  mine.set_value(made);
  const std::lock_guard lock(mutex_);
  pack_order_.emplace_back(key, size);
  packs_bytes_ += size;
  while (packs_bytes_ > kPacksKeptBytesMax && !pack_order_.empty()) {
    packs_.erase(pack_order_.front().first);
    packs_bytes_ -= pack_order_.front().second;
    pack_order_.pop_front();
  }
  return made;
}

Status PushSource::save() {
  const std::lock_guard lock(mutex_);
  return cache_.save();
}

}  // namespace paddle::remote

#include "remote/agent/store/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <tuple>

#include "remote/agent/node/files.h"

namespace paddle::agent {
namespace {

constexpr std::size_t kListBytesMax = (kPushFileBytesMax / kChunkBytesMin + 1) * kChunkEntryBytes;
constexpr std::size_t kChunksKnownMax = 4U << 20U;  // in memory, for all objects

// Sets a lock that, unlike flock(2), stays shared when it cannot become exclusive, so that no other
// push can sweep in between.
bool lock_file(const UniqueFd& fd, short type, int command) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd.get(), command, &lock) == 0;
}

std::string temporary_name() {
  return ".incoming-" + std::to_string(::getpid());
}

Result<UniqueFd> make_folder(const Root& root, const std::string& path) {
  PADDLE_TRY(const SafePath safe, SafePath::parse(path));
  PADDLE_TRY_STATUS(safe.make_directories(root.fd.get()));
  return safe.open_directory(root.fd.get());
}

// Returns no names when the folder cannot be read.
std::vector<std::string> readable_names(int folder) {
  auto names = names_of(folder);
  return names ? *std::move(names) : std::vector<std::string>();
}

Result<Bytes> read_whole(int folder, const std::string& name, std::uint64_t bytes_max) {
  const UniqueFd fd(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return system_error(Errc::kData, "open " + name);
  if (static_cast<std::uint64_t>(info.st_size) > bytes_max)
    return Error{Errc::kData, name + " is too large", ""};
  Bytes bytes(static_cast<std::size_t>(info.st_size));
  PADDLE_TRY_STATUS(read_exact(fd.get(), bytes, TimePoint::max()));
  return bytes;
}

// Writes a file that appears whole or not at all.
Status write_whole(int folder, const std::string& name, ByteSpan content, mode_t mode,
                   struct stat& info) {
  const std::string temporary = temporary_name();
  const UniqueFd fd(::openat(folder, temporary.c_str(),
                             O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return system_error(Errc::kResource, "create a file in the store");
  const Status written = write_all(fd.get(), content, TimePoint::max());
  if (!written) return Error{Errc::kResource, written.error().message, ""};
  if (::fchmod(fd.get(), mode) == 0 &&
      ::renameat(folder, temporary.c_str(), folder, name.c_str()) == 0 &&
      ::fstat(fd.get(), &info) == 0) {
    return {};
  }
  return system_error(Errc::kResource, "write a file in the store");
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const Root& root) {
  auto store = std::make_unique<Store>();
  store->root_ = UniqueFd(::fcntl(root.fd.get(), F_DUPFD_CLOEXEC, 0));
  PADDLE_TRY(store->objects_, make_folder(root, "store/objects"));
  PADDLE_TRY(store->chunks_, make_folder(root, "store/chunks"));
  PADDLE_TRY(store->partial_, make_folder(root, "store/partial"));
  PADDLE_TRY(store->folder_, make_folder(root, "store"));
  store->lock_ = UniqueFd(
      ::openat(store->folder_.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  // Waits at most for a sweep, which is short and does not wait for anything itself.
  if (!store->lock_ || !lock_file(store->lock_, F_RDLCK, F_OFD_SETLKW))
    return system_error(Errc::kResource, "lock the store");
  PADDLE_TRY_STATUS(store->index_.load(store->folder_.get()));
  return store;
}

bool Store::holds(const ObjectKey& key, std::uint64_t size) {
  const std::string name = key.name();
  struct stat info {};
  if (::fstatat(objects_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (index_.knows(name, stamp_of(info))) return static_cast<std::uint64_t>(info.st_size) == size;
  if (S_ISREG(info.st_mode) && verify(key, size) &&
      ::fchmodat(objects_.get(), name.c_str(), key.mode, 0) == 0 &&
      ::fstatat(objects_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    index_.record(key, stamp_of(info));
    return true;
  }
  // The object was modified: drop it here; jobs keep their links.
  ::unlinkat(objects_.get(), name.c_str(), 0);
  ::unlinkat(chunks_.get(), name.c_str(), 0);
  index_.forget(name);
  return false;
}

bool Store::verify(const ObjectKey& key, std::uint64_t size) {
  const std::string name = key.name();
  if (!is_chunked(size)) {
    const auto content = read_whole(objects_.get(), name, kWholeFileBytesMax);
    return content && content->size() == size && sha256_of(*content) == key.id;
  }
  const auto list = read_whole(chunks_.get(), name, kListBytesMax);
  if (!list || chunked_id(*list, size) != key.id) return false;
  const auto chunks = decode_chunks(*list, size);
  const auto fd = open_object(name);
  struct stat info {};
  if (!chunks || !fd || ::fstat(fd->get(), &info) != 0 ||
      static_cast<std::uint64_t>(info.st_size) != size) {
    return false;
  }
  Bytes buffer(kChunkBytesMax);
  for (const Chunk& chunk : *chunks) {
    const auto part = std::span(buffer).first(chunk.size);
    if (!read_exact(fd->get(), part, TimePoint::max()) || sha256_of(part) != chunk.hash)
      return false;
  }
  return true;
}

Status Store::add(const ObjectKey& key, ByteSpan content) {
  if (sha256_of(content) != key.id)
    return Error{Errc::kData, "the received content does not match its announced hash",
                 "push again"};
  struct stat info {};
  PADDLE_TRY_STATUS(write_whole(objects_.get(), key.name(), content, key.mode, info));
  index_.record(key, stamp_of(info));
  return {};
}

Status Store::complete(const ObjectKey& key, ByteSpan list) {
  const std::string name = key.name();
  struct stat info {};
  PADDLE_TRY_STATUS(write_whole(chunks_.get(), name, list, 0600, info));
  if (::fchmodat(partial_.get(), name.c_str(), key.mode, 0) != 0 ||
      ::renameat(partial_.get(), name.c_str(), objects_.get(), name.c_str()) != 0 ||
      ::fstatat(objects_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return system_error(Errc::kResource, "keep a file in the store");
  }
  index_.record(key, stamp_of(info));
  return {};
}

Status Store::link_over(const std::string& object, int folder, const std::string& name) {
  const std::string temporary = temporary_name();
  ::unlinkat(folder, temporary.c_str(), 0);
  if (::linkat(objects_.get(), object.c_str(), folder, temporary.c_str(), 0) != 0) {
    // The link limit is reached, or the folder is on another file system: make a copy.
    PADDLE_TRY(const UniqueFd from, open_object(object));
    PADDLE_TRY_STATUS(copy_file(from.get(), folder, temporary));
  }
  const bool renamed = ::renameat(folder, temporary.c_str(), folder, name.c_str()) == 0;
  const int why = errno;
  ::unlinkat(folder, temporary.c_str(), 0);  // rename does nothing when both are links to one file
  if (renamed) return {};
  errno = why;
  Error error = system_error(Errc::kResource, "place " + name);
  if (why == EISDIR) error.hint = "a folder with this name exists there; remove the job first";
  return error;
}

Result<bool> Store::place(const ObjectKey& key, int folder, const std::string& name) {
  const std::string object = key.name();
  struct stat ours {};
  struct stat there {};
  if (::fstatat(objects_.get(), object.c_str(), &ours, AT_SYMLINK_NOFOLLOW) != 0)
    return system_error(Errc::kData, "find " + name + " in the store");
  if (::fstatat(folder, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) {
    if (there.st_ino == ours.st_ino && there.st_dev == ours.st_dev) return false;
    PADDLE_TRY_STATUS(link_over(object, folder, name));
  } else if (::linkat(objects_.get(), object.c_str(), folder, name.c_str(), 0) != 0) {
    PADDLE_TRY_STATUS(link_over(object, folder, name));
  }
  // Linking changes the stamp of an object that was verified before.
  if (index_.knows(object, stamp_of(ours)) &&
      ::fstatat(objects_.get(), object.c_str(), &ours, AT_SYMLINK_NOFOLLOW) == 0) {
    index_.record(key, stamp_of(ours));
  }
  return true;
}

bool Store::is_only_at(const std::string& object, const SafePath& path) const {
  const auto there = path.open_read(root_.get());
  struct stat ours {};
  struct stat theirs {};
  return there && ::fstat(there->get(), &theirs) == 0 &&
         ::fstatat(objects_.get(), object.c_str(), &ours, AT_SYMLINK_NOFOLLOW) == 0 &&
         ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev && ours.st_nlink == 2;
}

Result<UniqueFd> Store::detach(const std::string& object, const SafePath& path,
                               const ObjectKey& key) {
  // Another push may rely on the object being here.
  if (!lock_file(lock_, F_WRLCK, F_OFD_SETLK)) return Error{Errc::kData, "the store is in use", ""};
  Result<UniqueFd> detached = Error{Errc::kData, "the file is in use", ""};
  if (is_only_at(object, path)) detached = detach_alone(object, path, key);
  lock_file(lock_, F_RDLCK, F_OFD_SETLK);
  return detached;
}

Result<UniqueFd> Store::detach_alone(const std::string& object, const SafePath& path,
                                     const ObjectKey& key) {
  const std::size_t slash = path.str().rfind('/');
  if (slash == std::string::npos) return Error{Errc::kData, "a file of no job", ""};
  PADDLE_TRY(const SafePath parent, SafePath::parse(path.str().substr(0, slash)));
  PADDLE_TRY(const UniqueFd folder, parent.open_directory(root_.get()));
  const std::string place = path.str().substr(slash + 1);
  const std::string name = key.name();
  const auto exchange = [&] {
    return ::renameat2(objects_.get(), object.c_str(), partial_.get(), name.c_str(),
                       RENAME_EXCHANGE) == 0;
  };
  if (::unlinkat(folder.get(), place.c_str(), 0) != 0)
    return system_error(Errc::kResource, "update a file of the store in place");
  if (!exchange()) {
    Error error = system_error(Errc::kResource, "update a file of the store in place");
    std::ignore = ::linkat(objects_.get(), object.c_str(), folder.get(), place.c_str(), 0);
    return error;
  }
  struct stat info {};
  UniqueFd fd;
  // The kernel grants a write lease only while no other process has the file open, and no process
  // can open it here.
  if (::fstatat(partial_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      info.st_nlink == 1 && ::fchmodat(partial_.get(), name.c_str(), 0600, 0) == 0 &&
      (fd = UniqueFd(::openat(partial_.get(), name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC))) &&
      ::fcntl(fd.get(), F_SETLEASE, F_WRLCK) == 0) {
    ::fcntl(fd.get(), F_SETLEASE, F_UNLCK);
    ::unlinkat(objects_.get(), object.c_str(), 0);
    ::unlinkat(chunks_.get(), object.c_str(), 0);
    index_.forget(object);
    return fd;
  }
  // If the file cannot be put back, the next push finds no file at its path and places it again.
  std::ignore = ::fchmodat(partial_.get(), name.c_str(), info.st_mode & 0777, 0);
  std::ignore = ::linkat(partial_.get(), name.c_str(), folder.get(), place.c_str(), 0);
  exchange();
  return Error{Errc::kData, "the file is open", ""};
}

std::vector<Store::Chunked> Store::chunked() const {
  std::vector<Chunked> found;
  std::size_t total = 0;
  for (const std::string& name : readable_names(chunks_.get())) {
    struct stat info {};
    if (::fstatat(objects_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !index_.knows(name, stamp_of(info))) {
      continue;
    }
    const auto list = read_whole(chunks_.get(), name, kListBytesMax);
    if (!list) continue;
    auto chunks = decode_chunks(*list, static_cast<std::uint64_t>(info.st_size));
    if (!chunks || (total += chunks->size()) > kChunksKnownMax) continue;
    found.push_back({name, *std::move(chunks)});
  }
  return found;
}

Result<UniqueFd> Store::open_object(const std::string& name) const {
  UniqueFd fd(::openat(objects_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return system_error(Errc::kData, "open a file of the store");
  return fd;
}

Result<UniqueFd> Store::open_partial(const ObjectKey& key) const {
  UniqueFd fd(::openat(partial_.get(), key.name().c_str(),
                       O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return system_error(Errc::kResource, "create a file in the store");
  return fd;
}

void Store::sweep() {
  if (!lock_file(lock_, F_WRLCK, F_OFD_SETLK)) return;
  for (const std::string& name : readable_names(objects_.get())) {
    struct stat info {};
    if (::fstatat(objects_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        info.st_nlink > 1) {
      continue;
    }
    ::unlinkat(objects_.get(), name.c_str(), 0);
    ::unlinkat(chunks_.get(), name.c_str(), 0);
    index_.forget(name);
  }
  for (const std::string& name : readable_names(partial_.get()))
    ::unlinkat(partial_.get(), name.c_str(), 0);
  lock_file(lock_, F_RDLCK, F_OFD_SETLK);
}

void sweep_store(const Root& root) {
  struct stat info {};
  if (::fstatat(root.fd.get(), "store/objects", &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (auto store = Store::open(root)) (*store)->sweep();
}

}  // namespace paddle::agent

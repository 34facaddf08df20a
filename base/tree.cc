#include "base/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "base/safe_path.h"
#include "base/text.h"

namespace paddle {
namespace {

constexpr std::int64_t kNanoseconds = 1'000'000'000;
constexpr std::int64_t kSecondsMax = 9'000'000'000;  // before and after 1970
constexpr std::string_view kDraftBegin = ".paddlectl-", kDraftEnd = ".part";
constexpr int kDraftTries = 100;

std::string shown(const std::string& path) {
  return escape_control(path);
}

timespec time_of(std::int64_t ns) {
  std::int64_t seconds = ns / kNanoseconds;
  if (ns % kNanoseconds < 0) --seconds;
  return {static_cast<time_t>(seconds), static_cast<long>(ns - seconds * kNanoseconds)};
}

std::array<timespec, 2> times_of(std::int64_t mtime_ns) {
  return {timespec{0, UTIME_OMIT}, time_of(mtime_ns)};
}

Result<std::vector<std::string>> sorted_names(int folder, const std::string& path) {
  struct Close {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  UniqueFd own(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, Close> directory(own ? ::fdopendir(own.get()) : nullptr);
  if (!directory) return system_error(Errc::kData, "read " + shown(path));
  own.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

Error write_error(const std::string& what) {
  const bool is_full =
      errno == ENOSPC || errno == EDQUOT || errno == EMFILE || errno == ENFILE || errno == ENOMEM;
  return system_error(is_full ? Errc::kResource : Errc::kFailed, what);
}

Error other_kind_error(const std::string& path, const struct stat& there, const char* wanted) {
  return Error{Errc::kData,
               fmt::format("{} exists as a {} at the destination, but is {} here", shown(path),
                           S_ISLNK(there.st_mode)   ? "link"
                           : S_ISDIR(there.st_mode) ? "folder"
                           : S_ISREG(there.st_mode) ? "file"
                                                    : "device, pipe or socket",
                           wanted),
               "paddlectl does not replace it, nor write through it: remove or rename it, or "
               "choose another destination"};
}

// Whether a file or link may replace this entry. A device such as /dev/null is kept, because other
// processes use it.
bool is_replaceable(const struct stat& there) {
  return S_ISREG(there.st_mode) || S_ISLNK(there.st_mode);
}

}  // namespace

Result<TreeEntry> entry_at(int folder, const std::string& name, std::string path) {
  struct stat info {};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return system_error(Errc::kData, "read " + shown(path));
  TreeEntry entry;
  entry.path = std::move(path);
  entry.mode = info.st_mode & kKeptModeBits;
  entry.mtime_ns =
      std::clamp<std::int64_t>(info.st_mtim.tv_sec, -kSecondsMax, kSecondsMax) * kNanoseconds +
      info.st_mtim.tv_nsec;
  using Kind = TreeEntry::Kind;
  entry.kind = S_ISREG(info.st_mode)   ? Kind::kFile
               : S_ISDIR(info.st_mode) ? Kind::kFolder
               : S_ISLNK(info.st_mode) ? Kind::kLink
                                       : Kind::kOther;
  if (entry.kind == Kind::kFile) entry.size = static_cast<std::uint64_t>(info.st_size);
  if (entry.kind == Kind::kLink) {
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlinkat(folder, name.c_str(), target.data(), target.size());
    if (size < 0) return system_error(Errc::kData, "read " + shown(entry.path));
    entry.link.assign(target.data(), static_cast<std::size_t>(size));
  }
  return entry;
}

bool is_removed(int error) {
  return error == ENOENT || error == ENOTDIR || error == ESTALE;
}

Status TreeWalk::run(int folder, const std::string& prefix) {
  return walk(folder, prefix, 0);
}

Status TreeWalk::walk(int folder, const std::string& prefix, int depth) {
  if (depth > kTreeDepthMax) {
    return Error{Errc::kUsage,
                 fmt::format("{}... is nested over {} folders deep", shown(prefix.substr(0, 200)),
                             kTreeDepthMax),
                 "copy it in parts, or as an archive"};
  }
  const auto names = sorted_names(folder, prefix);
  if (!names && is_removed(errno)) return ++gone_, Status();
  if (!names && errno == EACCES && denied_) return denied_(prefix), Status();
  if (!names) return names.error();
  for (const std::string& name : *names) {
    const auto entry = entry_at(folder, name, prefix.empty() ? name : prefix + "/" + name);
    if (!entry && is_removed(errno)) {
      ++gone_;
      continue;
    }
    if (!entry) return entry.error();
    PADDLE_TRY_STATUS(enter(folder, name, *entry, depth));
  }
  return {};
}

Status TreeWalk::enter(int folder, const std::string& name, const TreeEntry& entry, int depth) {
  PADDLE_TRY(const bool goes_on, visit_(entry, folder, name));
  if (!goes_on || !entry.is_folder()) return {};
  const UniqueFd inner(
      ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  // ELOOP: a link has replaced the folder meanwhile.
  if (!inner && (is_removed(errno) || errno == ELOOP)) return ++gone_, Status();
  if (!inner && errno == EACCES && denied_) return denied_(entry.path), Status();
  if (!inner) return system_error(Errc::kData, "read " + shown(entry.path));
  return walk(inner.get(), entry.path, depth + 1);
}

Result<DraftFile> DraftFile::create(int folder, std::uint32_t mode) {
  static std::atomic<unsigned> number = 0;
  DraftFile draft;
  draft.folder_ = UniqueFd(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  if (!draft.folder_) return write_error("dup");
  for (int i = 0; i < kDraftTries; ++i) {
    const std::string name = fmt::format("{}{}-{}{}", kDraftBegin, ::getpid(), number++, kDraftEnd);
    UniqueFd fd(
        ::openat(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!fd && errno == EEXIST) continue;
    if (!fd) return write_error("create a file");
    // The lock shows that the draft is in use. Another process's remove_old_drafts() may have
    // removed it before it was locked.
    struct stat info {};
    ::flock(fd.get(), LOCK_EX | LOCK_NB);
    if (::fstat(fd.get(), &info) == 0 && info.st_nlink == 0) continue;
    draft.fd_ = std::move(fd);
    draft.name_ = name;
    return draft;
  }
  return Error{Errc::kResource, "cannot create a file: all temporary names are in use",
               "remove .paddlectl-*.part"};
}

DraftFile::~DraftFile() {
  if (folder_ && !name_.empty()) ::unlinkat(folder_.get(), name_.c_str(), 0);
}

Status DraftFile::commit(const std::string& name, std::optional<std::uint32_t> mode,
                         std::optional<std::int64_t> mtime_ns) {
  if (mode && ::fchmod(fd(), *mode & kKeptModeBits) != 0)
    return write_error("chmod " + shown(name));
  if (mtime_ns) {
    const auto times = times_of(*mtime_ns);
    // A file system that cannot store the time is no error.
    std::ignore = ::futimens(fd(), times.data());
  }
  struct stat there {};
  if (::fstatat(folder_.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      !is_replaceable(there)) {
    return other_kind_error(name, there, "a file");
  }
  if (::renameat(folder_.get(), name_.c_str(), folder_.get(), name.c_str()) != 0)
    return write_error("write " + shown(name));
  name_.clear();
  return {};
}

void remove_old_drafts(int folder) {
  const auto names = sorted_names(folder, "");
  if (!names) return;
  for (const std::string& name : *names) {
    if (!name.starts_with(kDraftBegin) || !name.ends_with(kDraftEnd)) continue;
    const UniqueFd fd(
        ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) ::unlinkat(folder, name.c_str(), 0);
  }
}

Result<UniqueFd> TreeWriter::open_above(const std::string& path) {
  PADDLE_TRY(const SafePath safe, SafePath::parse(path));
  const std::string above = split(path).first;
  UniqueFd at(::fcntl(root_, F_DUPFD_CLOEXEC, 0));
  if (!at) return write_error("dup");
  for (std::size_t begin = 0; begin < above.size();) {
    const std::size_t end = std::min(above.find('/', begin), above.size());
    const std::string name = above.substr(begin, end - begin);
    if (::mkdirat(at.get(), name.c_str(), 0777) != 0 && errno != EEXIST)
      return write_error("make the folder " + shown(above.substr(0, end)));
    UniqueFd next(
        ::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat there {};
    if (!next && ::fstatat(at.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISDIR(there.st_mode)) {
      return other_kind_error(above.substr(0, end), there, "a folder");
    }
    if (!next) return write_error("open " + shown(above.substr(0, end)));
    at = std::move(next);
    begin = end + 1;
  }
  return at;
}

Status TreeWriter::make_folder(const TreeEntry& folder) {
  PADDLE_TRY(const UniqueFd above, open_above(folder.path));
  const std::string name = split(folder.path).second;
  if (::mkdirat(above.get(), name.c_str(), 0700) != 0) {
    if (errno != EEXIST) return write_error("make the folder " + shown(folder.path));
    struct stat there {};
    if (::fstatat(above.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0)
      return write_error("make the folder " + shown(folder.path));
    if (!S_ISDIR(there.st_mode)) return other_kind_error(folder.path, there, "a folder");
    // Gives the owner access until finish() sets the mode. An error here is ignored: a later write
    // into the folder reports the reason.
    if ((there.st_mode & S_IRWXU) != S_IRWXU && there.st_uid == ::geteuid()) {
      std::ignore = ::fchmodat(above.get(), name.c_str(), (there.st_mode & kKeptModeBits) | S_IRWXU,
                               AT_SYMLINK_NOFOLLOW);
    }
  }
  folders_[folder.path] = folder;
  return {};
}

Status TreeWriter::make_link(const TreeEntry& link) {
  PADDLE_TRY(const UniqueFd above, open_above(link.path));
  const std::string name = split(link.path).second;
  struct stat there {};
  if (::fstatat(above.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      !is_replaceable(there)) {
    return other_kind_error(link.path, there, "a link");
  }
  const std::string draft = fmt::format("{}{}{}", kDraftBegin, ::getpid(), ".link");
  ::unlinkat(above.get(), draft.c_str(), 0);
  if (::symlinkat(link.link.c_str(), above.get(), draft.c_str()) != 0)
    return write_error("make the link " + shown(link.path));
  const auto times = times_of(link.mtime_ns);
  std::ignore = ::utimensat(above.get(), draft.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
  if (::renameat(above.get(), draft.c_str(), above.get(), name.c_str()) == 0) return {};
  Error error = write_error("make the link " + shown(link.path));
  ::unlinkat(above.get(), draft.c_str(), 0);
  return error;
}

Status TreeWriter::finish() {
  // In reverse order of paths, a folder comes after the folders below it.
  for (auto at = folders_.rbegin(); at != folders_.rend(); ++at) {
    const TreeEntry& folder = at->second;
    PADDLE_TRY(const UniqueFd above, open_above(folder.path));
    const UniqueFd fd(::openat(above.get(), split(folder.path).second.c_str(),
                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return write_error("open " + shown(folder.path));
    // EPERM is no error: a folder that existed before may belong to another user and still be
    // writable.
    if (::fchmod(fd.get(), folder.mode & mode_kept_) != 0 && errno != EPERM)
      return write_error("chmod " + shown(folder.path));
    const auto times = times_of(folder.mtime_ns);
    std::ignore = ::futimens(fd.get(), times.data());
  }
  return {};
}

}  // namespace paddle

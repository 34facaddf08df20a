#include "remote/agent/node/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <tuple>

#include "base/fd.h"
#include "base/holes.h"
#include "base/sha256.h"
#include "base/text.h"
#include "proto/agent_channel.h"

namespace paddle::agent {
namespace {

constexpr int kDepthMax = 100;
constexpr const char* kAskAgain = "the file is changing: try again";
constexpr std::size_t kRemainingMax = 100;
constexpr std::size_t kPathShownMax = 400;  // bytes

bool has_control(const std::string& name) {
  return std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

UniqueFd open_below(int folder, const std::string& name) {
  return UniqueFd(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Opens a folder as a path, whatever its mode. Empty, with EXDEV, where a file system is mounted on
// it.
UniqueFd find_unmounted(int folder, const std::string& name) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how)));
}

// Adds a path that remains, shortened if it is long: all remaining paths must fit into one reply.
void remain(RemoveReport& report, const std::string& path, const char* why) {
  if (report.remaining.size() == kRemainingMax) return;
  const std::string shown = path.size() <= kPathShownMax
                                ? path
                                : path.substr(0, kPathShownMax / 2) + "[...]" +
                                      path.substr(path.size() - kPathShownMax / 2);
  report.remaining.push_back(shown + ": " + why);
}

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Removes a tree of any depth with a single open folder. It goes up by "..", after checking that
// this is the folder it came from.
class Removal {
 public:
  Removal(const std::function<bool(const std::string&)>& keep, RemoveReport& report)
      : keep_(keep), report_(report) {}

  void run(int folder, const std::string& name, const std::string& path) {
    struct stat info {};
    if (::fstat(folder, &info) != 0) return remain(report_, path, std::strerror(errno));
    levels_.push_back({info, {name}});
    path_ = path.substr(0, path.size() - name.size());
    folder_ = open_below(folder, ".");
    while (!levels_.empty()) {
      Level& level = levels_.back();
      if (level.next < level.names.size()) {
        remove_next(level);
      } else if (!leave()) {
        return;
      }
    }
  }

 private:
  struct Level {
    struct stat info {};
    std::vector<std::string> names;
    std::size_t next = 0;  // in names
    bool stays = false;    // an entry could not be removed
  };

  // A folder with entries becomes the next level and is removed by leave().
  void remove_next(Level& level) {
    const std::string name = level.names[level.next++];
    const std::size_t above = path_.size();
    path_ += name;
    const Outcome outcome = remove_entry(name);
    if (outcome == Outcome::kEntered) {
      path_ += '/';
      return;
    }
    path_.resize(above);
    level.stays |= outcome == Outcome::kStays;
  }

  enum class Outcome { kGone, kStays, kEntered };

  Outcome remove_entry(const std::string& name) {
    if (keep_ && keep_(path_)) return Outcome::kStays;
    struct stat info {};
    if (::fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return failed();
    if (info.st_dev != levels_.front().info.st_dev) return stays("it is on another file system");
    if (S_ISDIR(info.st_mode)) return enter(name, info);
    if (::unlinkat(folder_.get(), name.c_str(), 0) != 0) return failed();
    ++report_.files;
    return Outcome::kGone;
  }

  Outcome enter(const std::string& name, const struct stat& seen) {
    const UniqueFd place = find_unmounted(folder_.get(), name);
    if (!place && errno == EXDEV) return stays("a file system is mounted on it");
    if (!place) return failed();
    if ((seen.st_mode & S_IRWXU) != S_IRWXU) {
      // The mode of our own folder may deny access. If this call fails, opening the folder fails
      // too.
      std::ignore = ::fchmodat(folder_.get(), name.c_str(), 0700, 0);
    }
    UniqueFd fd = open_below(place.get(), ".");
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) != 0) return failed();
    if (!is_same(info, seen)) return stays("it was moved during the removal");
    auto names = names_of(fd.get());
    if (!names) return failed();
    levels_.push_back({info, std::move(*names)});
    folder_ = std::move(fd);
    return Outcome::kEntered;
  }

  // Returns to the folder above. False when ".." is a different folder.
  bool leave() {
    const bool stays = levels_.back().stays;
    levels_.pop_back();
    if (levels_.empty()) return true;
    Level& level = levels_.back();
    path_.pop_back();
    UniqueFd above = open_below(folder_.get(), "..");
    struct stat info {};
    if (!above || ::fstat(above.get(), &info) != 0 || !is_same(info, level.info)) {
      remain(report_, path_, "it was moved during the removal");
      return false;
    }
    folder_ = std::move(above);
    const std::string& name = level.names[level.next - 1];
    if (!stays && ::unlinkat(folder_.get(), name.c_str(), AT_REMOVEDIR) != 0) {
      level.stays |= failed() == Outcome::kStays;
    }
    level.stays |= stays;
    path_.resize(path_.size() - name.size());
    return true;
  }

  // The outcome by errno; an entry that has vanished counts as removed.
  Outcome failed() { return errno == ENOENT ? Outcome::kGone : stays(std::strerror(errno)); }
  Outcome stays(const char* why) {
    remain(report_, path_, why);
    return Outcome::kStays;
  }

  const std::function<bool(const std::string&)>& keep_;
  RemoveReport& report_;
  std::vector<Level> levels_;  // from the parent of the tree down
  UniqueFd folder_;            // the folder of the last level
  std::string path_;           // path of the current entry, for reports
};

constexpr std::size_t kBufferBytes = 256U << 10U;

// Fallback between file systems, and where the kernel's copy is not supported.
Status copy_through(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                    std::uint64_t bytes) {
  Bytes buffer(std::min<std::uint64_t>(bytes, kBufferBytes));
  while (bytes > 0) {
    const auto part = std::span(buffer).first(std::min<std::uint64_t>(bytes, buffer.size()));
    if (!read_at(from, part, from_offset))
      return system_error(Errc::kData, "read a file of the store");
    if (!write_at(to, part, to_offset))
      return system_error(Errc::kResource, "copy a file of the store");
    from_offset += part.size();
    to_offset += part.size();
    bytes -= part.size();
  }
  return {};
}

using VisitFile = std::function<Status(const wire::agent::FileEntry&)>;

// Visits what has no content to fetch. Sockets, pipes and files that have vanished are skipped.
Status visit_without_content(int folder, const std::string& name, const std::string& path,
                             const VisitFile& visit) {
  wire::agent::FileEntry entry;
  entry.set_path(path);
  if (has_control(name)) {
    entry.set_path(escape_control(path));
    entry.set_odd_name(true);
    return visit(entry);
  }
  char target[PATH_MAX];
  const ssize_t size = ::readlinkat(folder, name.c_str(), target, sizeof target);
  if (size <= 0) return {};
  entry.set_link(target, static_cast<std::size_t>(size));
  return visit(entry);
}

// Visits every regular file below the folder, sorted by name.
Status walk_files(int folder, const std::string& prefix, const wire::agent::PathRequest& wanted,
                  const VisitFile& visit, int depth = 0) {
  if (depth > kDepthMax) return Error{Errc::kData, prefix + ": nested too deeply", ""};
  PADDLE_TRY(const std::vector<std::string> names, names_of(folder));
  if (names.empty() && depth > 0 && wanted.all_kinds()) {
    wire::agent::FileEntry entry;
    entry.set_path(prefix.substr(0, prefix.size() - 1));
    entry.set_empty_folder(true);
    return visit(entry);
  }
  for (const std::string& name : names) {
    const std::string path = prefix + name;
    const bool is_odd = has_control(name);
    const UniqueFd fd(is_odd ? -1
                             : ::openat(folder, name.c_str(),
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) != 0) {
      if (wanted.all_kinds()) PADDLE_TRY_STATUS(visit_without_content(folder, name, path, visit));
      continue;
    }
    if (S_ISDIR(info.st_mode)) {
      if (wanted.own_files()) continue;
      PADDLE_TRY_STATUS(walk_files(fd.get(), path + "/", wanted, visit, depth + 1));
    } else if (S_ISREG(info.st_mode)) {
      wire::agent::FileEntry entry;
      if (!wanted.without_hashes()) {
        // A log that grows is hashed up to the size that is reported.
        PADDLE_TRY(const Sha256Digest digest,
                   sha256_of_fd(fd.get(), static_cast<std::uint64_t>(info.st_size)));
        entry.set_sha256(std::string(as_text(digest)));
      }
      entry.set_path(path);
      entry.set_size(static_cast<std::uint64_t>(info.st_size));
      entry.set_executable((info.st_mode & S_IXUSR) != 0);
      PADDLE_TRY_STATUS(visit(entry));
    }
  }
  return {};
}

}  // namespace

void remove_tree(int folder, const std::string& name, const std::string& path,
                 const std::function<bool(const std::string&)>& keep, RemoveReport& report) {
  Removal(keep, report).run(folder, name, path);
}

namespace {

Status copy_data(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                 std::uint64_t bytes) {
  auto source = static_cast<off_t>(from_offset);
  auto target = static_cast<off_t>(to_offset);
  while (bytes > 0) {
    const ssize_t copied = ::copy_file_range(from, &source, to, &target, bytes, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) {
      return copy_through(from, static_cast<std::uint64_t>(source), to,
                          static_cast<std::uint64_t>(target), bytes);
    }
    bytes -= static_cast<std::uint64_t>(copied);
  }
  return {};
}

}  // namespace

Status copy_range(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                  std::uint64_t bytes) {
  struct stat info {};
  if (::fstat(from, &info) != 0) return system_error(Errc::kData, "stat a file of the store");
  const std::uint64_t end = from_offset + bytes;
  // A range beyond the end of the file is no hole, but an error of the copy.
  const std::uint64_t known = std::min(end, static_cast<std::uint64_t>(info.st_size));
  for (std::uint64_t at = from_offset; at < known;) {
    const DataRange data = next_data(from, at, known);
    const std::uint64_t offset = to_offset + (at - from_offset);
    if (data.begin > at && !make_hole(to, offset, data.begin - at))
      return system_error(Errc::kResource, "copy a file of the store");
    PADDLE_TRY_STATUS(copy_data(from, data.begin, to, to_offset + (data.begin - from_offset),
                                data.end - data.begin));
    at = data.end;
  }
  if (known >= end) return {};
  return copy_data(from, std::max(known, from_offset), to,
                   to_offset + (std::max(known, from_offset) - from_offset),
                   end - std::max(known, from_offset));
}

bool share_content(int from, int to) {
  return ::ioctl(to, FICLONE, from) == 0;
}

Status copy_file(int from, int folder, const std::string& name) {
  struct stat info {};
  if (::fstat(from, &info) != 0) return system_error(Errc::kData, "stat a file of the store");
  ::unlinkat(folder, name.c_str(), 0);
  const UniqueFd to(
      ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!to) return system_error(Errc::kResource, "create " + name);
  PADDLE_TRY_STATUS(copy_range(from, 0, to.get(), 0, static_cast<std::uint64_t>(info.st_size)));
  if (::fchmod(to.get(), info.st_mode & 0777) == 0) return {};
  return system_error(Errc::kResource, "chmod " + name);
}

Status list_files(const Root& root, const wire::agent::PathRequest& folder,
                  const std::function<Status(const wire::agent::FileEntry&)>& visit) {
  PADDLE_TRY(const SafePath path, SafePath::parse(folder.path()));
  const auto directory = path.open_directory(root.fd.get());
  if (!directory && errno == ENOENT) return {};
  if (!directory) return directory.error();
  return walk_files(directory->get(), "", folder, visit);
}

Status send_file(const Root& root, const wire::agent::PathRequest& wanted,
                 const std::function<Status(ByteSpan chunk, bool more)>& send) {
  PADDLE_TRY(const SafePath safe, SafePath::parse(wanted.path()));
  PADDLE_TRY(const UniqueFd fd, safe.open_read(root.fd.get()));
  Bytes buffer(kAgentChunkBytes);
  for (std::uint64_t left = wanted.size();;) {
    const std::span<std::byte> part(buffer.data(), std::min<std::uint64_t>(left, buffer.size()));
    if (!read_exact(fd.get(), part, TimePoint::max())) {
      return Error{Errc::kData, wanted.path() + " became shorter after it was listed", kAskAgain};
    }
    left -= part.size();
    PADDLE_TRY_STATUS(send(part, left > 0));
    if (left == 0) return {};
  }
}

Status remove_path(const Root& root, const std::string& path) {
  PADDLE_TRY(const SafePath safe, SafePath::parse(path));
  const auto entry = open_parent(root, safe);
  if (!entry && errno == ENOENT) return {};
  if (!entry) return entry.error();
  RemoveReport report;
  remove_tree(entry->folder.get(), entry->name, path, nullptr, report);
  if (report.remaining.empty()) return {};
  return Error{Errc::kResource, "cannot remove " + report.remaining.front(), ""};
}

Status move_path(const Root& root, const std::string& from, const std::string& to) {
  PADDLE_TRY(const SafePath old_path, SafePath::parse(from));
  PADDLE_TRY(const SafePath new_path, SafePath::parse(to));
  PADDLE_TRY(const FolderEntry old_entry, open_parent(root, old_path));
  PADDLE_TRY(const FolderEntry new_entry, open_parent(root, new_path));
  const bool moved =
      ::renameat2(old_entry.folder.get(), old_entry.name.c_str(), new_entry.folder.get(),
                  new_entry.name.c_str(), RENAME_NOREPLACE) == 0 &&
      ::fsync(new_entry.folder.get()) == 0 && ::fsync(old_entry.folder.get()) == 0;
  if (moved) return {};
  return system_error(Errc::kResource, "move " + from + " to " + to);
}

}  // namespace paddle::agent

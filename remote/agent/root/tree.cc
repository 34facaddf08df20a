#include "remote/agent/root/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/fd.h"

namespace paddle::agent {
namespace {

constexpr int kDepthMax = 100;
constexpr std::size_t kRemainingMax = 100;
constexpr std::size_t kPathShownMax = 400;  // bytes

UniqueFd open_folder(int folder, const std::string& name) {
  return UniqueFd(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Sorted; the caller keeps the descriptor.
Result<std::vector<std::string>> entries(int folder) {
  UniqueFd own = open_folder(folder, ".");
  const DirectoryStream directory(own ? ::fdopendir(own.get()) : nullptr);
  if (!directory) return system_error(Errc::kData, "open folder");
  own.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Shortens long paths: all remaining ones must fit one reply.
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
    folder_ = open_folder(folder, ".");
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
    if (info.st_dev != levels_.front().info.st_dev) return stays("another file system");
    if (S_ISDIR(info.st_mode)) return enter(name, info);
    if (::unlinkat(folder_.get(), name.c_str(), 0) != 0) return failed();
    ++report_.files;
    return Outcome::kGone;
  }

  Outcome enter(const std::string& name, const struct stat& seen) {
    if ((seen.st_mode & S_IRWXU) != S_IRWXU) {
      ::fchmodat(folder_.get(), name.c_str(), 0700, 0);  // our own folder may deny listing
    }
    UniqueFd fd = open_folder(folder_.get(), name);
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) != 0) return failed();
    if (!is_same(info, seen)) return stays("moved meanwhile");
    auto names = entries(fd.get());
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
    UniqueFd above = open_folder(folder_.get(), "..");
    struct stat info {};
    if (!above || ::fstat(above.get(), &info) != 0 || !is_same(info, level.info)) {
      remain(report_, path_, "moved meanwhile");
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

  // By errno; an entry that has vanished is fine.
  Outcome failed() { return errno == ENOENT ? Outcome::kGone : stays(std::strerror(errno)); }
  Outcome stays(const char* why) {
    remain(report_, path_, why);
    return Outcome::kStays;
  }

  const std::function<bool(const std::string&)>& keep_;
  RemoveReport& report_;
  std::vector<Level> levels_;  // from the parent of the tree down
  UniqueFd folder_;            // of the last level
  std::string path_;           // of the current entry, for reports
};

}  // namespace

void remove_tree(int folder, const std::string& name, const std::string& path,
                 const std::function<bool(const std::string&)>& keep, RemoveReport& report) {
  Removal(keep, report).run(folder, name, path);
}

Status walk_files(int folder, const std::string& prefix,
                  const std::function<Status(int, const std::string&, std::uint64_t, bool)>& visit,
                  int depth) {
  if (depth > kDepthMax) return Error{Errc::kData, prefix + ": nested too deeply", ""};
  PADDLE_TRY(const std::vector<std::string> names, entries(folder));
  for (const std::string& name : names) {
    const std::string path = prefix + name;
    const UniqueFd fd(
        ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info {};
    // Skips links, sockets, and files that have vanished.
    if (!fd || ::fstat(fd.get(), &info) != 0) continue;
    if (S_ISDIR(info.st_mode)) {
      PADDLE_TRY_STATUS(walk_files(fd.get(), path + "/", visit, depth + 1));
    } else if (S_ISREG(info.st_mode)) {
      PADDLE_TRY_STATUS(visit(fd.get(), path, static_cast<std::uint64_t>(info.st_size),
                              (info.st_mode & S_IXUSR) != 0));
    }
  }
  return {};
}

}  // namespace paddle::agent

#include "remote/agent/node/node_copy.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/holes.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/tree.h"
#include "remote/agent/node/files.h"

namespace paddle::agent {

using wire::agent::CopyEntry;

namespace {

constexpr std::string_view kLock = ".lock";
constexpr std::size_t kLeftOutNamed = 5;
constexpr mode_t kNewFolderMode = 0755;  // for a new destination, as mkdir makes it
// For a file that reports no size, such as those of /proc.
constexpr std::uint64_t kUnsizedBytesMax = 64U << 20U;
constexpr std::size_t kReadBytes = 256U << 10U;

namespace fs = std::filesystem;
using Kind = TreeEntry::Kind;

Result<fs::path> outside_path(const std::string& text) {
  if (text.empty() || text.find('\0') != std::string::npos) {
    return Error{Errc::kUsage, "the path on the node is empty or contains a zero byte", ""};
  }
  if (text[0] == '/') return fs::path(text);
  const char* const home = ::getenv("HOME");
  if (home == nullptr)
    return Error{Errc::kUsage, "HOME is not set on the node", "give an absolute path"};
  if (text == "~") return fs::path(home);
  return fs::path(home) / (text.starts_with("~/") ? text.substr(2) : text);
}

Error failed(const char* what, const std::string& path) {
  return system_error(Errc::kFailed, fmt::format("{} {}", what, escape_control(path)));
}

// Makes the folder with its parents, whatever the umask, and opens it.
Result<UniqueFd> open_destination(const std::string& folder) {
  std::optional<Error> refused;  // why a folder could not be made; it may exist already
  for (std::size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    const std::string part = folder.substr(0, end);
    if (!part.empty() && ::mkdir(part.c_str(), kNewFolderMode) == 0) {
      std::ignore = ::chmod(part.c_str(), kNewFolderMode);
    } else if (errno == EROFS || errno == EACCES || errno == EPERM) {
      if (!refused) refused = failed("make the folder", part);
    } else if (errno != EEXIST) {
      return errno == ENOENT && refused ? *refused : failed("make the folder", part);
    }
    if (end == std::string::npos) break;
  }
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd) return fd;
  return errno == ENOENT && refused ? *refused : failed("make the folder", folder);
}

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Makes the entries of a tree on the node.
class CopyOut {
 public:
  CopyOut(int inside, int outside) : inside_(inside), writer_(outside) {}

  // Creates the entry at `path`, in place of its own path.
  Status add(const CopyEntry& entry, const std::string& path) {
    PADDLE_TRY(const SafePath safe, SafePath::parse(path));
    const TreeEntry made{
        path, static_cast<Kind>(entry.kind()), entry.mode(), entry.mtime_ns(), 0, entry.link()};
    if (made.kind == Kind::kFolder) return writer_.make_folder(made);
    reply_.set_files(reply_.files() + 1);
    if (made.kind == Kind::kLink) return writer_.make_link(made);
    if (made.kind == Kind::kFile) return put_file(made, entry.number());
    return Error{Errc::kData, "the kind of the entry is unknown", ""};
  }
  Result<wire::agent::CopyReply> finish() {
    PADDLE_TRY_STATUS(writer_.finish());
    return reply_;
  }

 private:
  Status put_file(const TreeEntry& file, std::uint32_t number) {
    PADDLE_TRY(const SafePath name, SafePath::parse(std::to_string(number)));
    PADDLE_TRY(const UniqueFd from, name.open_read(inside_));
    PADDLE_TRY(const UniqueFd folder, writer_.open_above(file.path));
    PADDLE_TRY_STATUS(tidy(folder.get(), file.path.substr(0, file.path.rfind('/') + 1)));
    PADDLE_TRY(DraftFile draft, DraftFile::create(folder.get()).with(escape_control(file.path)));
    struct stat info {};
    if (::fstat(from.get(), &info) != 0) return failed("read", file.path);
    const auto size = static_cast<std::uint64_t>(info.st_size);
    PADDLE_TRY_STATUS(
        copy_range(from.get(), 0, draft.fd(), 0, size).with(escape_control(file.path)));
    reply_.set_bytes(reply_.bytes() + size);
    return draft.commit(file.path.substr(file.path.rfind('/') + 1), file.mode, file.mtime_ns);
  }

  // Removes old drafts once per folder: the files of a folder are added one after the other.
  Status tidy(int folder, const std::string& path) {
    if (std::exchange(tidied_, path) != path) remove_old_drafts(folder);
    return {};
  }

  int inside_;
  TreeWriter writer_;
  std::string tidied_ = "/";  // not a folder of any entry
  wire::agent::CopyReply reply_;
};

// Copies a file into a new one, up to `size`, or to its end if that comes before, as in /sys. With
// a size of 0, as files of /proc report it, copies to the end.
Status copy_to_end(int from, int to, std::uint64_t size) {
  if (size > 0 && size == next_data(from, 0, size).begin) {  // a hole
    return make_hole(to, 0, size) ? Status() : system_error(Errc::kResource, "write a copy");
  }
  Bytes buffer(kReadBytes);
  std::uint64_t at = 0;
  for (;;) {
    if (size > 0 && at < size) at = std::min(next_data(from, at, size).begin, size);
    if (size > 0 && at == size) break;
    const ssize_t got = ::pread(from, buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(Errc::kFailed, "read");
    if (got == 0) return {};
    auto part = ByteSpan(buffer).first(static_cast<std::size_t>(got));
    if (size > 0) part = part.first(std::min<std::uint64_t>(part.size(), size - at));
    if (!write_with_holes(to, part, at)) return system_error(Errc::kResource, "write a copy");
    at += part.size();
    if (size == 0 && at > kUnsizedBytesMax) {
      return Error{Errc::kFailed, "it reports no size and is over 64 MiB",
                   "copy it on the node with paddlectl exec, then get the copy"};
    }
  }
  if (::ftruncate(to, static_cast<off_t>(size)) == 0) return {};
  return system_error(Errc::kResource, "write a copy");
}

class CopyIn {
 public:
  CopyIn(int inside, const std::function<Status(const CopyEntry&)>& give)
      : inside_(inside), give_(give) {}

  Status add(const TreeEntry& entry, int folder, const std::string& name) {
    if (entry.kind == Kind::kOther) {
      reply_.set_left_out(reply_.left_out() + 1);
      if (reply_.left_out() <= kLeftOutNamed) reply_.add_left_out_names(entry.path);
      return {};
    }
    CopyEntry copied;
    copied.set_path(entry.path);
    copied.set_kind(static_cast<std::uint32_t>(entry.kind));
    copied.set_mode(entry.mode);
    copied.set_mtime_ns(entry.mtime_ns);
    copied.set_link(entry.link);
    if (entry.kind == Kind::kFile) {
      PADDLE_TRY(const bool is_copied, copy_content(folder, name, copied));
      if (!is_copied) return {};
    }
    if (!entry.is_folder()) reply_.set_files(reply_.files() + 1);
    return give_(copied);
  }
  void count_gone(std::uint64_t gone) { reply_.set_gone(reply_.gone() + gone); }
  void count_unreadable(const std::string& path) {
    reply_.set_unreadable(reply_.unreadable() + 1);
    if (reply_.unreadable() <= kLeftOutNamed) reply_.add_unreadable_names(path);
  }
  const wire::agent::CopyReply& reply() const { return reply_; }

 private:
  // Returns false, and counts the file, if it may not be read, is gone, or has become another kind
  // of file.
  Result<bool> copy_content(int folder, const std::string& name, CopyEntry& copied) {
    const std::string number = std::to_string(++number_);
    const bool is_linked = ::linkat(folder, name.c_str(), inside_, number.c_str(), 0) == 0;
    if (!is_linked && is_removed(errno)) return count_gone(1), false;
    UniqueFd content(::openat(is_linked ? inside_ : folder, (is_linked ? number : name).c_str(),
                              O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!content && (is_removed(errno) || errno == ELOOP || errno == ENXIO))
      return count_gone(1), false;
    if (!content && errno == EACCES) return count_unreadable(copied.path()), false;
    struct stat info {};
    if (!content || ::fstat(content.get(), &info) != 0) return failed("read", copied.path());
    if (!S_ISREG(info.st_mode)) return count_gone(1), false;
    // A file of size 0 may have content nevertheless, or be about to grow. It is copied to its end:
    // a hard link would share its later changes.
    if (!is_linked || info.st_size == 0) {
      ::unlinkat(inside_, number.c_str(), 0);
      UniqueFd copy(::openat(inside_, number.c_str(),
                             O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
      if (!copy) return failed("copy", copied.path());
      PADDLE_TRY_STATUS(
          copy_to_end(content.get(), copy.get(), static_cast<std::uint64_t>(info.st_size))
              .with(escape_control(copied.path())));
      if (::fstat(copy.get(), &info) != 0) return failed("copy", copied.path());
      content = std::move(copy);
    }
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (::lseek(content.get(), 0, SEEK_SET) != 0) return failed("read", copied.path());
    PADDLE_TRY(const Sha256Digest digest,
               sha256_of_fd(content.get(), size).with(escape_control(copied.path())));
    copied.set_number(number_);
    copied.set_size(size);
    copied.set_sha256(std::string(as_text(digest)));
    reply_.set_bytes(reply_.bytes() + size);
    return true;
  }

  int inside_;
  const std::function<Status(const CopyEntry&)>& give_;
  std::uint32_t number_ = 0;
  wire::agent::CopyReply reply_;
};

}  // namespace

bool CopyFolders::open_lock() {
  const auto folder = open_folder(root_, kFolder);
  if (!folder) return false;
  lock_ = UniqueFd(::openat(folder->get(), std::string(kLock).c_str(),
                            O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  return bool(lock_);
}

void CopyFolders::clear() {
  if (in_use_ || !open_lock() || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return;
  // Files that cannot be removed now are left to the next session or teardown.
  if (const auto names = names_in(root_, std::string(kFolder))) {
    for (const std::string& name : *names) {
      if (name != kLock) (void)remove_path(root_, std::string(kFolder) + "/" + name);
    }
  }
  ::flock(lock_.get(), LOCK_UN);
}

Status CopyFolders::use() {
  if (in_use_) return {};
  PADDLE_TRY(const SafePath path, SafePath::parse(kFolder));
  PADDLE_TRY_STATUS(path.make_directories(root_.fd.get()));
  clear();
  // The cleaner holds the exclusive lock only briefly.
  if (!lock_ || ::flock(lock_.get(), LOCK_SH) != 0)
    return system_error(Errc::kResource, "lock the copy folder");
  in_use_ = true;
  return {};
}

Result<wire::agent::CopyReply> copy_out(const Root& root, const wire::agent::CopyRequest& request,
                                        const wire::agent::CopyTree& tree) {
  PADDLE_TRY(const SafePath checked, SafePath::parse(request.inside()));
  PADDLE_TRY(const fs::path outside, outside_path(request.outside()));
  PADDLE_TRY_STATUS(checked.make_directories(root.fd.get()));
  PADDLE_TRY(const UniqueFd inside, checked.open_directory(root.fd.get()));
  const bool one_file =
      tree.entries_size() == 1 && tree.entries(0).kind() != static_cast<int>(Kind::kFolder);
  const bool is_its_name = one_file && outside.has_filename() && !is_folder(outside.string());
  const fs::path folder = is_its_name ? outside.parent_path() : outside;
  PADDLE_TRY(const UniqueFd destination, open_destination(folder.string()));
  CopyOut copy(inside.get(), destination.get());
  for (const CopyEntry& entry : tree.entries()) {
    Status added = copy.add(entry, is_its_name ? outside.filename().string() : entry.path());
    if (!added) return std::move(added).error().with(folder.string());
  }
  return copy.finish();
}

Result<wire::agent::CopyReply> copy_in(const Root& root, const wire::agent::CopyRequest& request,
                                       const std::function<Status(const CopyEntry&)>& give) {
  PADDLE_TRY(const SafePath checked, SafePath::parse(request.inside()));
  PADDLE_TRY(const fs::path outside, outside_path(request.outside()));
  std::error_code error;
  const fs::path from = fs::canonical(outside, error);
  errno = error.value();
  if (error) return failed("read", outside.string());
  for (const fs::path& part : from) {
    if (part != fs::path(CopyFolders::kFolder)) continue;
    return Error{Errc::kUsage, outside.string() + " contains temporary copies of paddlectl", ""};
  }
  if (!from.has_filename())
    return Error{Errc::kUsage, "/ cannot be copied as a whole",
                 "name the folders in it that you need"};
  fs::path named = outside.lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  if (named.filename() == ".." || !named.has_filename()) named = from;
  const std::string name = named.filename().string();
  const UniqueFd above(::open(from.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!above) return failed("read", from.parent_path().string());
  PADDLE_TRY(const TreeEntry top, entry_at(above.get(), from.filename().string(), name));
  if (top.kind != Kind::kFile && !top.is_folder())
    return Error{Errc::kUsage, outside.string() + " is neither a file nor a folder", ""};
  PADDLE_TRY_STATUS(checked.make_directories(root.fd.get()));
  PADDLE_TRY(const UniqueFd inside, checked.open_directory(root.fd.get()));
  CopyIn copy(inside.get(), give);
  PADDLE_TRY_STATUS(copy.add(top, above.get(), from.filename().string()));
  if (copy.reply().unreadable() > 0) {
    errno = EACCES;
    return failed("read", outside.string());
  }
  if (top.is_folder()) {
    const UniqueFd folder(::openat(above.get(), from.filename().c_str(),
                                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder) return failed("read", outside.string());
    // The source, for example $HOME, may contain the copy folders of agents.
    TreeWalk walk(
        [&](const TreeEntry& entry, int in, const std::string& its) -> Result<bool> {
          if (its == CopyFolders::kFolder && entry.is_folder()) return false;
          PADDLE_TRY_STATUS(copy.add(entry, in, its));
          return true;
        },
        [&](const std::string& path) { copy.count_unreadable(path); });
    PADDLE_TRY_STATUS(walk.run(folder.get(), name));
    copy.count_gone(walk.gone());
  }
  // Files below it may vanish during the copy, but not the source itself.
  if (fs::exists(from, error)) return copy.reply();
  errno = ENOENT;
  return failed("read", outside.string());
}

}  // namespace paddle::agent

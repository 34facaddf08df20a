#include "remote/agent/node/root.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.h"

namespace paddle::agent {
namespace {

constexpr std::size_t kNameBytesMax = 100;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

Result<Root> open_root(const std::string& path) {
  if (path.size() < 2 || path.front() != '/' || path.back() == '/') {
    return Error{Errc::kUsage, "root '" + path + "' must be an absolute path", ""};
  }
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return system_error(errno == ENOENT ? Errc::kResource : Errc::kAuth, "open " + path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(Errc::kAuth, "stat " + path);
  if (info.st_uid != ::geteuid()) {
    return Error{Errc::kAuth, path + " belongs to user " + std::to_string(info.st_uid),
                 "choose another workdir"};
  }
  if ((info.st_mode & 022) != 0) {
    return Error{Errc::kAuth, path + " is writable by others", "chmod 700 " + path};
  }
  return Root{path, std::move(fd)};
}

Status check_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  const bool good = !name.empty() && name.size() <= kNameBytesMax && name[0] != '.' &&
                    name[0] != '-' && std::all_of(name.begin(), name.end(), allowed);
  if (good) return {};
  return Error{Errc::kData,
               "name '" + std::string(name.substr(0, kNameBytesMax)) +
                   "' must be 1 to 100 characters of [A-Za-z0-9._-]",
               ""};
}

Result<SafePath> process_folder(std::string_view job, std::string_view name) {
  PADDLE_TRY_STATUS(check_name(job));
  PADDLE_TRY_STATUS(check_name(name));
  return SafePath::parse("jobs/" + std::string(job) + "/proc/" + std::string(name));
}

Result<UniqueFd> open_folder(const Root& root, std::string_view path) {
  PADDLE_TRY(const SafePath safe, SafePath::parse(path));
  return safe.open_directory(root.fd.get());
}

Result<FolderEntry> open_parent(const Root& root, const SafePath& path) {
  const std::string& text = path.str();
  const auto slash = text.rfind('/');
  if (slash == std::string::npos) {
    UniqueFd folder(::fcntl(root.fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!folder) return system_error(Errc::kResource, "dup");
    return FolderEntry{std::move(folder), text};
  }
  PADDLE_TRY(UniqueFd folder, open_folder(root, text.substr(0, slash)));
  return FolderEntry{std::move(folder), text.substr(slash + 1)};
}

Result<FolderEntry> make_parent(const Root& root, const SafePath& path) {
  if (const auto slash = path.str().rfind('/'); slash != std::string::npos) {
    PADDLE_TRY(const SafePath parent, SafePath::parse(path.str().substr(0, slash)));
    PADDLE_TRY_STATUS(parent.make_directories(root.fd.get()));
  }
  return open_parent(root, path);
}

Status replace_below(const Root& root, const SafePath& path, ByteSpan content, Keep keep) {
  PADDLE_TRY(const FolderEntry entry, make_parent(root, path));
  const int folder = entry.folder.get();
  // The pid separates agents that write the same file at once.
  const std::string temporary = "." + entry.name + ".new-" + std::to_string(::getpid());
  const UniqueFd fd(::openat(folder, temporary.c_str(),
                             O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return system_error(Errc::kResource, "create " + path.str());
  Status written = write_all(fd.get(), content, TimePoint::max());
  const auto syncs = [keep](int open) { return keep == Keep::kLazily || ::fsync(open) == 0; };
  if (written &&
      (::fchmod(fd.get(), 0600) != 0 || !syncs(fd.get()) ||
       ::renameat(folder, temporary.c_str(), folder, entry.name.c_str()) != 0 || !syncs(folder))) {
    written = system_error(Errc::kResource, "write");
  }
  if (written) return {};
  ::unlinkat(folder, temporary.c_str(), 0);
  return std::move(written).error().with(path.str());
}

Result<std::string> read_below(const Root& root, const SafePath& path, std::size_t max_bytes) {
  PADDLE_TRY(const UniqueFd fd, path.open_read(root.fd.get()));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(Errc::kData, "stat " + path.str());
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > max_bytes) return Error{Errc::kData, path.str() + " is too large", ""};
  std::string content(size, '\0');
  PADDLE_TRY_STATUS(
      read_exact(fd.get(), std::as_writable_bytes(std::span(content)), TimePoint::max()));
  return content;
}

Error with_room(const Root& root, Error error) {
  const auto ends_with = [&](int reason) {
    return error.message.find(std::strerror(reason)) != std::string::npos;
  };
  struct statvfs disk {};
  const bool is_full = ends_with(ENOSPC) || ends_with(EDQUOT);
  if (error.code != Errc::kResource || !is_full || ::fstatvfs(root.fd.get(), &disk) != 0)
    return error;
  const std::uint64_t block = disk.f_frsize;
  error.message += " (" + human_bytes(block * disk.f_bavail) + " of " +
                   human_bytes(block * disk.f_blocks) + " and " + std::to_string(disk.f_favail) +
                   " files are free on the disk of " + root.path + ")";
  if (error.hint.empty())
    error.hint = "make room there: paddlectl jobs, paddlectl rm --ended; or set another `workdir`";
  return error;
}

Result<std::vector<std::string>> names_in(const Root& root, const std::string& folder) {
  PADDLE_TRY(const SafePath path, SafePath::parse(folder));
  auto fd = path.open_directory(root.fd.get());
  if (!fd && errno == ENOENT) return std::vector<std::string>{};
  if (!fd) return std::move(fd).error();
  return names_of(fd->get());
}

Result<std::vector<std::string>> names_of(int folder) {
  UniqueFd own(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, CloseDirectory> directory(own ? ::fdopendir(own.get()) : nullptr);
  if (!directory) return system_error(Errc::kData, "open folder");
  own.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace paddle::agent

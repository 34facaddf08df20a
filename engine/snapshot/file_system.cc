#include "engine/snapshot/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/safe_path.h"

namespace paddle::snapshot {
namespace {

namespace fs = std::filesystem;

// The error of a system call that writes.
Error change_error(const std::string& what) {
  const int reason = errno;
  Error error = system_error(Errc::kResource, what);
  if (reason == ENOSPC || reason == EDQUOT)
    error.hint = "free some space there; a save that fails harms no earlier snapshot";
  if (reason == EROFS) error.hint = "check the mount options, and whether the disk has failed";
  if (reason == EFBIG) error.hint = "allow larger files: ulimit -f";
  return error;
}

class KernelOutputFile final : public OutputFile {
 public:
  KernelOutputFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Status append(ByteSpan data) override {
    const Status written = write_all(fd_.get(), data, TimePoint::max());
    return written ? Status() : change_error("write " + path_);
  }
  Status sync() override {
    if (::fsync(fd_.get()) == 0) return {};
    return change_error("fsync " + path_);
  }

 private:
  std::string path_;
  UniqueFd fd_;
};

class KernelInputFile final : public InputFile {
 public:
  KernelInputFile(std::uint64_t size, UniqueFd fd) : size_(size), fd_(std::move(fd)) {}
  std::uint64_t size() const override { return size_; }
  Status read(std::span<std::byte> into) override {
    return read_exact(fd_.get(), into, TimePoint::max());
  }

 private:
  std::uint64_t size_;
  UniqueFd fd_;
};

class KernelDirectory final : public Directory {
 public:
  KernelDirectory(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Result<std::unique_ptr<OutputFile>> create(const std::string& name) override {
    UniqueFd fd(::openat(fd_.get(), name.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    std::string path = path_ + "/" + name;
    if (!fd) return change_error("create " + path);
    return std::unique_ptr<OutputFile>(
        std::make_unique<KernelOutputFile>(std::move(path), std::move(fd)));
  }
  Result<std::unique_ptr<InputFile>> open(const std::string& path) const override {
    PADDLE_TRY(const SafePath safe, SafePath::parse(path));
    PADDLE_TRY(UniqueFd fd, safe.open_read(fd_.get()));
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return system_error(Errc::kData, "stat " + path);
    const auto size = static_cast<std::uint64_t>(info.st_size);
    return std::unique_ptr<InputFile>(std::make_unique<KernelInputFile>(size, std::move(fd)));
  }
  Status sync() override {
    if (::fsync(fd_.get()) == 0) return {};
    return change_error("fsync " + path_);
  }

 private:
  std::string path_;
  UniqueFd fd_;
};

class KernelFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<Directory>> open_directory(const std::string& path) override {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return system_error(Errc::kResource, "open " + path);
    return std::unique_ptr<Directory>(std::make_unique<KernelDirectory>(path, std::move(fd)));
  }
  Result<std::string> read_file(const std::string& path, std::size_t max_bytes) override {
    return paddle::read_file(path, max_bytes);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    std::error_code failed;
    std::vector<std::string> names;
    for (fs::directory_iterator entry(path, failed), end; !failed && entry != end;
         entry.increment(failed)) {
      names.push_back(entry->path().filename());
    }
    if (failed) {
      return Error{Errc::kResource, fmt::format("read {}: {}", path, failed.message())};
    }
    std::ranges::sort(names);
    return names;
  }
  EntryKind kind(const std::string& path) override {
    std::error_code ignored;
    const fs::file_type type = fs::symlink_status(path, ignored).type();
    if (type == fs::file_type::not_found) return EntryKind::kNone;
    return type == fs::file_type::directory ? EntryKind::kDirectory : EntryKind::kOther;
  }
  Status make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0755) == 0) return {};
    return change_error("mkdir " + path);
  }
  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return {};
    return change_error(fmt::format("rename {} to {}", from, to));
  }
  bool exchange(const std::string& one, const std::string& other) override {
    return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0;
  }
  Status remove_all(const std::string& path) override {
    std::error_code failed;
    fs::remove_all(path, failed);
    if (!failed) return {};
    return Error{Errc::kResource, fmt::format("remove {}: {}", path, failed.message())};
  }
};

}  // namespace

Status FileSystem::sync_directory(const std::string& path) {
  PADDLE_TRY(const std::unique_ptr<Directory> directory, open_directory(path));
  return directory->sync();
}

Status FileSystem::make_directories(const std::string& path) {
  const std::string whole = path.substr(0, path.find_last_not_of('/') + 1);
  if (whole.empty() || exists(whole)) return {};
  const std::string parent = parent_of(whole);
  PADDLE_TRY_STATUS(make_directories(parent));
  // Another trainer of the node may have created it in the meantime.
  if (Status made = make_directory(whole); !made && !exists(whole)) return made;
  return sync_directory(parent);
}

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

FileSystem& kernel_file_system() {
  static KernelFileSystem files;
  return files;
}

}  // namespace paddle::snapshot

#include "remote/agent/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "proto/frame_stream.h"
#include "remote/agent/tree.h"

namespace paddle::agent {
namespace {

constexpr std::uint64_t kFileBytesMax = 1ULL << 40U;

mode_t mode_of(const wire::agent::FileEntry& file) {
  return file.executable() ? 0700 : 0600;
}

bool same(ByteSpan digest, const std::string& expected) {
  return as_text(digest) == expected;
}

Result<bool> is_here(const Root& root, const wire::agent::FileEntry& file) {
  PADDLE_TRY(const SafePath path, SafePath::parse(file.path()));
  const auto fd = path.open_read(root.fd.get());
  if (!fd) return false;  // absent, or in the way: receiving it will say which
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return system_error(Errc::kData, "stat " + file.path());
  if (static_cast<std::uint64_t>(info.st_size) != file.size()) return false;
  PADDLE_TRY(const Sha256Digest digest, sha256_of_fd(fd->get()));
  if (!same(digest, file.sha256())) return false;
  if ((info.st_mode & 0777) != mode_of(file) && ::fchmod(fd->get(), mode_of(file)) != 0) {
    return system_error(Errc::kResource, "chmod " + file.path());
  }
  return true;
}

}  // namespace

Result<wire::agent::ManifestReply> compare(const Root& root,
                                           const wire::agent::Manifest& manifest) {
  wire::agent::ManifestReply reply;
  for (int i = 0; i < manifest.files_size(); ++i) {
    PADDLE_TRY(const bool here, is_here(root, manifest.files(i)));
    if (!here) reply.add_missing(static_cast<std::uint32_t>(i));
  }
  return reply;
}

Status list_files(const Root& root, const std::string& folder,
                  const std::function<Status(const wire::agent::FileEntry&)>& visit) {
  PADDLE_TRY(const SafePath path, SafePath::parse(folder));
  const auto directory = path.open_directory(root.fd.get());
  if (!directory && errno == ENOENT) return {};
  if (!directory) return directory.error();
  return walk_files(directory->get(), "",
                    [&](int fd, const std::string& name, std::uint64_t size, bool executable) {
                      const auto digest = sha256_of_fd(fd);
                      if (!digest) return Status(digest.error());
                      wire::agent::FileEntry entry;
                      entry.set_path(name);
                      entry.set_size(size);
                      entry.set_sha256(std::string(as_text(*digest)));
                      entry.set_executable(executable);
                      return visit(entry);
                    });
}

Status send_file(const Root& root, const std::string& path,
                 const std::function<Status(std::uint64_t size, ByteSpan chunk, bool more)>& send) {
  PADDLE_TRY(const SafePath safe, SafePath::parse(path));
  PADDLE_TRY(const UniqueFd fd, safe.open_read(root.fd.get()));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(Errc::kData, "stat " + path);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  Bytes buffer(kAgentChunkBytes);
  for (std::uint64_t left = size;;) {
    const std::span<std::byte> part(buffer.data(), std::min<std::uint64_t>(left, buffer.size()));
    auto whole = read_exact(fd.get(), part, TimePoint::max());
    if (!whole) return Error{Errc::kData, path + " became shorter while it was read", ""};
    left -= part.size();
    PADDLE_TRY_STATUS(send(size, part, left > 0));
    if (left == 0) return {};
  }
}

Status remove_path(const Root& root, const std::string& path) {
  PADDLE_TRY(const SafePath safe, SafePath::parse(path));
  const auto slash = path.rfind('/');
  UniqueFd folder(::fcntl(root.fd.get(), F_DUPFD_CLOEXEC, 0));
  if (slash != std::string::npos) {
    PADDLE_TRY(const SafePath parent, SafePath::parse(path.substr(0, slash)));
    auto opened = parent.open_directory(root.fd.get());
    if (!opened && errno == ENOENT) return {};
    if (!opened) return std::move(opened).error();
    folder = std::move(*opened);
  }
  RemoveReport report;
  const auto leaf = slash == std::string::npos ? path : path.substr(slash + 1);
  remove_tree(folder.get(), leaf, path, nullptr, report);
  if (report.remaining.empty()) return {};
  return Error{Errc::kResource, "cannot remove " + report.remaining.front(), ""};
}

Status Incoming::begin(const wire::agent::FileEntry& file) {
  abandon();
  PADDLE_TRY(const SafePath path, SafePath::parse(file.path()));
  if (file.size() > kFileBytesMax || file.sha256().size() != sizeof(Sha256Digest)) {
    return Error{Errc::kData, file.path() + ": bad size or SHA-256 in the request", ""};
  }
  PADDLE_TRY(place_, make_place(root_, path));
  temporary_ = ".incoming-" + std::to_string(::getpid());
  fd_ = UniqueFd(::openat(place_.folder.get(), temporary_.c_str(),
                          O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd_) return system_error(Errc::kResource, "create " + file.path());
  file_ = file;
  sha_.emplace();
  received_ = 0;
  return {};
}

Status Incoming::add(const wire::agent::Put& put, ByteSpan chunk) {
  if (put.has_file()) PADDLE_TRY_STATUS(begin(put.file()));
  if (!file_) return {};
  received_ += chunk.size();
  Status status;
  if (received_ > file_->size()) {
    status = Error{Errc::kData, file_->path() + ": more bytes than announced", ""};
  } else {
    sha_->update(chunk);
    status = write_all(fd_.get(), chunk, TimePoint::max());
    if (!status) status = Error{Errc::kResource, file_->path() + ": " + status.error().message, ""};
    if (status && put.last()) status = complete();
  }
  if (!status || put.last()) abandon();
  return status;
}

Status Incoming::complete() {
  if (received_ != file_->size() || !same(sha_->finish(), file_->sha256())) {
    return Error{Errc::kData, file_->path() + ": what arrived is not what was announced", ""};
  }
  const int folder = place_.folder.get();
  if (::fchmod(fd_.get(), mode_of(*file_)) != 0 || ::fsync(fd_.get()) != 0 ||
      ::renameat(folder, temporary_.c_str(), folder, place_.name.c_str()) != 0) {
    return system_error(Errc::kResource, "write " + file_->path());
  }
  temporary_.clear();
  return {};
}

void Incoming::abandon() {
  fd_.reset();
  if (!temporary_.empty()) ::unlinkat(place_.folder.get(), temporary_.c_str(), 0);
  temporary_.clear();
  file_.reset();
}

}  // namespace paddle::agent

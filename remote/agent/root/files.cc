#include "remote/agent/root/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/sha256.h"
#include "proto/frame_stream.h"
#include "remote/agent/root/tree.h"

namespace paddle::agent {

Status list_files(const Root& root, const wire::agent::PathRequest& folder,
                  const std::function<Status(const wire::agent::FileEntry&)>& visit) {
  PADDLE_TRY(const SafePath path, SafePath::parse(folder.path()));
  const auto directory = path.open_directory(root.fd.get());
  if (!directory && errno == ENOENT) return {};
  if (!directory) return directory.error();
  return walk_files(directory->get(), "",
                    [&](int fd, const std::string& name, std::uint64_t size, bool executable) {
                      wire::agent::FileEntry entry;
                      if (!folder.without_hashes()) {
                        const auto digest = sha256_of_fd(fd);
                        if (!digest) return Status(digest.error());
                        entry.set_sha256(std::string(as_text(*digest)));
                      }
                      entry.set_path(name);
                      entry.set_size(size);
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

}  // namespace paddle::agent

#include "remote/agent/root/file_copy.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"

namespace paddle::agent {
namespace {

constexpr std::size_t kBufferBytes = 256U << 10U;

// Fallback between file systems, and where the kernel's copy is not supported.
Status copy_through(int from, off_t from_offset, int to, off_t to_offset, std::uint64_t bytes) {
  Bytes buffer(std::min<std::uint64_t>(bytes, kBufferBytes));
  while (bytes > 0) {
    const ssize_t got =
        ::pread(from, buffer.data(), std::min<std::uint64_t>(bytes, buffer.size()), from_offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return system_error(Errc::kData, "read a file of the store");
    for (ssize_t done = 0; done < got;) {
      const ssize_t put = ::pwrite(to, buffer.data() + done, static_cast<std::size_t>(got - done),
                                   to_offset + done);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return system_error(Errc::kResource, "copy a file of the store");
      done += put;
    }
    from_offset += got;
    to_offset += got;
    bytes -= static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace

Status copy_range(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                  std::uint64_t bytes) {
  auto source = static_cast<off_t>(from_offset);
  auto target = static_cast<off_t>(to_offset);
  while (bytes > 0) {
    const ssize_t copied = ::copy_file_range(from, &source, to, &target, bytes, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) return copy_through(from, source, to, target, bytes);
    bytes -= static_cast<std::uint64_t>(copied);
  }
  return {};
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

}  // namespace paddle::agent

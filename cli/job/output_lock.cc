#include "cli/job/output_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <fmt/format.h>

#include "cli/job/results.h"

namespace paddle::cli {
namespace {

constexpr const char* kLock = ".paddlectl-lock";  // hidden: no node may give such a file
constexpr std::size_t kPidBytesMax = 20;
constexpr auto kLockLookPeriod = std::chrono::milliseconds(100);

// A lock on a file that its last holder has removed protects nothing.
bool is_there(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 && info.st_nlink > 0;
}

std::string holder_of(int file) {
  char text[kPidBytesMax];
  const ssize_t got = ::pread(file, text, sizeof text, 0);
  std::string pid(text, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos
             ? ""
             : fmt::format(" (pid {})", pid);
}

}  // namespace

Result<OutputLock> OutputLock::take(Context& context, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kLock;
  for (bool is_told = false;;) {
    UniqueFd file(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
    if (!file) return OutputLock(path, UniqueFd());
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (!is_there(file.get())) continue;
      // The pid is for a message: a disk that is full keeps nobody from the lock.
      if (::ftruncate(file.get(), 0) == 0)
        (void)::dprintf(file.get(), "%s", std::to_string(::getpid()).c_str());
      return OutputLock(path, std::move(file));
    }
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return OutputLock(path, UniqueFd());
    if (context.interrupted()) {
      return Error{Errc::kInterrupted,
                   fmt::format("no longer waiting for the paddlectl that writes to {}",
                               shown_path(context, folder.string())),
                   ""};
    }
    if (!is_told) {
      context.console.note(fmt::format("another paddlectl{} writes to {}: waiting for its end",
                                       holder_of(file.get()),
                                       shown_path(context, folder.string())));
      is_told = true;
    }
    context.pause(kLockLookPeriod);
  }
}

OutputLock::~OutputLock() {
  if (file_ && is_there(file_.get())) ::unlink(path_.c_str());
}

}  // namespace paddle::cli

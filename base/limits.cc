#include "base/limits.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/fd.h"

namespace paddle {
namespace {

constexpr rlim_t kDescriptorsWanted = 4096;
constexpr rlim_t kStackWanted = 8U << 20U;
constexpr rlim_t kStackMin = 512U << 10U;
constexpr std::size_t kThreadStackMin = 1U << 20U;

const char* g_program = "paddle";

// Writes to stderr without allocating memory.
void put(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

[[noreturn]] void end_for_lack(std::string_view what, std::string_view hint) {
  put("\n");
  put(g_program);
  put(": ");
  put(what);
  put("\nhint: ");
  put(hint);
  put("\n");
  ::_exit(static_cast<int>(Errc::kResource));
}

constexpr std::string_view kNoThread =
    "the system cannot start a thread: too many processes or threads, or no memory for its stack";
constexpr std::string_view kThreadHint =
    "see `ulimit -u`, `ulimit -v` and pids.max of the control group (cgroup)";
constexpr std::string_view kNoMemory = "out of memory";
constexpr std::string_view kMemoryHint =
    "see `ulimit -v`, `free -m` and the memory limit of the control group (cgroup)";
constexpr std::string_view kProcessHint =
    "allow more processes: ulimit -u, and pids.max of the control group (cgroup)";
constexpr std::string_view kFileSizeHint = "allow larger files: ulimit -f";
constexpr std::string_view kDiskHint =
    "make room on that disk, see df -h and df -i; then run the "
    "same command again";

struct Lack {
  std::string_view words;
  std::string_view hint;
};
constexpr Lack kLacks[] = {
    {"File too large", kFileSizeHint},
    {"File size limit exceeded", kFileSizeHint},  // a shell's message
    {"Too many open files in system", "allow more on that machine: sysctl fs.file-max"},
    {"Too many open files", "allow more open descriptors: ulimit -n 4096"},
    {"Cannot fork", kProcessHint},  // dash's message
    {"Resource temporarily unavailable", kProcessHint},
    {"Cannot allocate memory", kMemoryHint},
    {"Read-only file system", "make that file system writable, or choose another folder"},
    {"No space left on device", kDiskHint},
    {"Disk quota exceeded", kDiskHint},
};

// Ends the program if an exception's message contains one of kLacks, as Asio's does when there are
// no descriptors left. Otherwise prints the message.
void end_if_lack(const char* message) {
  const std::string_view hint = hint_for_lack(message);
  if (!hint.empty()) end_for_lack(message, hint);
  put(message);
  put("\n");
}

// Names the limit if the system refused memory, a thread or a descriptor. Any other exception is a
// bug: std::abort() leaves a core file.
[[noreturn]] void on_terminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      end_for_lack(kNoMemory, kMemoryHint);
    } catch (const std::system_error& error) {
      if (error.code().value() == EAGAIN) end_for_lack(kNoThread, kThreadHint);
      if (error.code().value() == ENOMEM) end_for_lack(kNoMemory, kMemoryHint);
      end_if_lack(error.what());
    } catch (const std::exception& error) {
      end_if_lack(error.what());
    } catch (...) {
    }
  } else if (std::uncaught_exceptions() > 0) {
    // An exception unwinds the stack and destroys a std::thread that still runs: the system refused
    // a thread after others had started. The program exits without joining them.
    end_for_lack(kNoThread, kThreadHint);
  }
  std::abort();
}

// Raises the soft limit to `wanted`, and the hard limit too where this process may do so (root);
// else raises the soft limit to the hard one. Returns the soft limit, at most `wanted`.
rlim_t raise_limit(decltype(RLIMIT_STACK) which, rlim_t wanted) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur >= wanted) return wanted;
  if (limit.rlim_max < wanted) {
    const rlimit more{wanted, wanted};
    if (::setrlimit(which, &more) == 0) return wanted;
  }
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(which, &limit);
  return limit.rlim_cur;
}

// glibc uses the soft stack limit at the program's start as the stack size of threads, or two
// megabytes if it is unlimited. Raises that size to kThreadStackMin.
void give_threads_a_stack() {
  pthread_attr_t attributes;
  std::size_t size = 0;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  if (::pthread_attr_getstacksize(&attributes, &size) == 0 && size < kThreadStackMin &&
      ::pthread_attr_setstacksize(&attributes, kThreadStackMin) == 0) {
    ::pthread_setattr_default_np(&attributes);
  }
  ::pthread_attr_destroy(&attributes);
}

}  // namespace

Status prepare_limits(const char* program) {
  g_program = program;
  std::set_terminate(on_terminate);
  std::signal(SIGXFSZ, SIG_IGN);
  raise_descriptor_limit();
  raise_limit(RLIMIT_NOFILE, kDescriptorsWanted);
  give_threads_a_stack();
  const rlim_t stack = raise_limit(RLIMIT_STACK, kStackWanted);
  if (stack >= kStackMin) return {};
  return Error{Errc::kResource,
               "the stack is limited to " + std::to_string(stack / 1024) + " kB, but " +
                   std::to_string(kStackMin / 1024) + " kB are needed",
               "allow more: ulimit -s 8192"};
}

std::string_view hint_for_lack(std::string_view message) {
  for (const Lack& lack : kLacks) {
    if (message.find(lack.words) != message.npos) return lack.hint;
  }
  return "";
}

Status need_descriptors(std::size_t count, const std::string& what) {
  std::vector<UniqueFd> tried;
  tried.reserve(count);
  while (tried.size() < count) {
    UniqueFd one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!one) {
      Error error = system_error(Errc::kResource, what);
      error.message += ": " + std::to_string(count) + " more are needed, " +
                       std::to_string(tried.size()) + " can be open";
      error.hint = "allow more open descriptors: ulimit -n 4096";
      return error;
    }
    tried.push_back(std::move(one));
  }
  return {};
}

}  // namespace paddle

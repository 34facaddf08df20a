#include "engine/math/allocator.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "base/fd.h"
#include "base/result.h"

namespace paddle {

namespace {

// The lowest value of `file` in mount/group and in the folders above it.
std::uint64_t least_limit(const std::string& mount, std::string group, const char* file) {
  std::uint64_t least = UINT64_MAX;
  for (;; group.resize(group.rfind('/'))) {
    if (const auto text = read_file(mount + group + "/" + file)) {
      std::uint64_t bytes = 0;  // the text may also be "max"
      const auto parsed = std::from_chars(text->data(), text->data() + text->size(), bytes);
      if (parsed.ec == std::errc()) least = std::min(least, bytes);
    }
    if (group.rfind('/') == std::string::npos) return least;
  }
}

const char* out_of_memory_what = "";
const char* out_of_memory_advice = "";
std::terminate_handler other_terminate = std::abort;

// Ends the process with a message. Must not allocate memory.
[[noreturn]] void end_with(const char* what, const char* advice) {
  for (const char* const text : {"paddle: ", out_of_memory_what, what, "\nhint: ", advice, "\n"}) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
  }
  ::_exit(static_cast<int>(Errc::kResource));
}

[[noreturn]] void end_out_of_memory() {
  end_with(" is out of memory", out_of_memory_advice);
}

// Terminate handler. The standard library throws std::system_error when the system refuses a
// thread.
[[noreturn]] void end_unhandled() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::resource_unavailable_try_again) {
        end_with(
            " cannot start another thread",
            "raise the limits of processes and of address space (ulimit -u, ulimit -v, pids.max "
            "of its control group), or lower ports_num, ports_num_for_sparse or "
            "train.trainer_count");
      }
    } catch (...) {
    }
  }
  other_terminate();
  std::abort();
}

}  // namespace

std::uint64_t group_memory_bytes(const std::string& root, std::string_view groups) {
  std::uint64_t least = UINT64_MAX;
  for (std::size_t at = 0; at < groups.size();) {
    const std::size_t end = std::min(groups.find('\n', at), groups.size());
    const std::string_view line = groups.substr(at, end - at);
    at = end + 1;
    // A line is "0::/group", or with version 1 "4:memory:/group".
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', std::min(first, line.size() - 1) + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string group(line.substr(second + 1));
    if (controllers.empty()) {
      least = std::min(least, least_limit(root, group, "memory.max"));
    } else if (("," + std::string(controllers) + ",").find(",memory,") != std::string::npos) {
      least = std::min(least, least_limit(root + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

std::uint64_t usable_memory_bytes() {
  const auto physical = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto groups = read_file("/proc/self/cgroup");
  return groups ? std::min(physical, group_memory_bytes("/sys/fs/cgroup", *groups)) : physical;
}

void end_when_out_of_memory(const char* what, const char* advice) {
  out_of_memory_what = what;
  out_of_memory_advice = advice;
  std::set_new_handler(end_out_of_memory);
  if (const auto other = std::get_terminate(); other != end_unhandled) other_terminate = other;
  std::set_terminate(end_unhandled);
}

void keep_freed_memory() {
  constexpr int kLargestKept = 32 << 20;  // bytes; the maximum of glibc
  constexpr int kKeptUnused = 256 << 20;  // bytes at the end of a heap
  ::mallopt(M_MMAP_THRESHOLD, kLargestKept);
  ::mallopt(M_TRIM_THRESHOLD, kKeptUnused);
}

void return_large_buffers() {
  constexpr int kLargestKept = 4 << 20;  // bytes, of a buffer and at the end of a heap
  ::mallopt(M_MMAP_THRESHOLD, kLargestKept);
  ::mallopt(M_TRIM_THRESHOLD, kLargestKept);
}

}  // namespace paddle

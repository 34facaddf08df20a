#include "engine/math/allocator.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "base/result.h"

namespace paddle {

namespace {

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

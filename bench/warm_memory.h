// Memory that the machine has had before.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>

namespace paddle::bench {

// Has another process write that much memory and end; whether it could. Where this machine is a
// guest, memory that it never had, or gave back, takes the host 5 ms per 2 MiB to find, many times
// what clearing it takes: that is the host's time, and not what a benchmark asks about.
inline bool warm_memory(std::size_t gib) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    for (std::size_t i = 0; i < gib; ++i) {
      constexpr std::size_t kGib = 1ULL << 30U;
      void* const memory = ::mmap(nullptr, kGib, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      if (memory == MAP_FAILED) ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace paddle::bench

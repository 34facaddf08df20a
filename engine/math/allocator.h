// Memory of the process: how much parameters may use, what happens when it runs out, and the reuse
// of freed buffers.
#pragma once

#include <cstdint>

#include "base/control_group.h"

namespace paddle {

// The part of usable_memory_bytes() for parameters and optimizer state; the rest is for requests
// and the system.
constexpr std::uint64_t kParameterMemoryPercent = 80;
inline std::uint64_t parameter_memory_bytes() {
  return usable_memory_bytes() / 100 * kParameterMemoryPercent;
}

// After this call, a failed allocation ends the process with code 7 (resource) and two lines on
// stderr, "paddle: <what> is out of memory" and "hint: <advice>", instead of an abort. If the
// system refuses a thread, the process ends with the same code and a message about threads. Both
// texts must stay valid until the process ends.
void end_when_out_of_memory(const char* what, const char* advice);

// Keeps freed buffers of up to 32 MiB in the process: servers and trainers free them with every
// request, and the kernel would clear the same pages again each time.
void keep_freed_memory();

// From this call on, returns a freed buffer of over 4 MiB to the system at once, and all but 4 MiB
// at the end of a heap: for a server that may have one large request among many small ones.
void return_large_buffers();

}  // namespace paddle

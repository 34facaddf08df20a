// Memory of the process: how much there is, the end when it runs out, and freed buffers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace paddle {

// Bytes that this process may use: the machine's memory, or the limit of its control group if that
// is lower.
std::uint64_t usable_memory_bytes();
// The lowest limit of the control groups that `groups` names and of their parents; UINT64_MAX
// without any. `groups` is the text of /proc/self/cgroup, `root` /sys/fs/cgroup. Version 2, and
// version 1 with its controller "memory".
std::uint64_t group_memory_bytes(const std::string& root, std::string_view groups);
// The part of it for parameters and optimizer state; the rest is for requests and the system.
constexpr std::uint64_t kParameterMemoryPercent = 80;
inline std::uint64_t parameter_memory_bytes() {
  return usable_memory_bytes() / 100 * kParameterMemoryPercent;
}

// After this call, a failed allocation ends the process with code 7 (resource) and two lines on
// stderr, "paddle: <what> is out of memory" and "hint: <advice>", instead of an abort; likewise a
// refused thread. Both texts must live as long as the process.
void end_when_out_of_memory(const char* what, const char* advice);

// Keeps freed buffers of up to 32 MiB in the process: servers and trainers free them with every
// request, and the kernel would clear the same pages again each time.
void keep_freed_memory();

}  // namespace paddle

// What the allocator does with large buffers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace paddle {

// Bytes that this process may use before the kernel ends something: the machine's memory, or less
// where a control group says so.
std::uint64_t usable_memory_bytes();
// The least limit of the control groups that `groups` names, and of those above them; UINT64_MAX
// without any. `groups` is the text of /proc/self/cgroup, `root` /sys/fs/cgroup. Version 2, and
// version 1 with its controller "memory".
std::uint64_t group_memory_bytes(const std::string& root, std::string_view groups);
// What parameters and optimizer state may take of it; the rest is for requests and the system.
constexpr std::uint64_t kParameterMemoryPercent = 80;
inline std::uint64_t parameter_memory_bytes() {
  return usable_memory_bytes() / 100 * kParameterMemoryPercent;
}

// From here on a process that gets no memory ends with code 7 (resource) and two lines on stderr,
// "paddle: <what> is out of memory" and "hint: <advice>", in place of an abort; likewise one that
// gets no thread. Both must live as long as the process.
void end_when_out_of_memory(const char* what, const char* advice);

// A server's and a trainer's buffers of up to 32 MiB come and go with every request: freed ones
// stay in the process, so that the kernel does not hand out and clear the same pages each time.
void keep_freed_memory();

}  // namespace paddle

// What the allocator does with large buffers.
#pragma once

#include <cstdint>
#include <string>

namespace paddle {

// Bytes that this process may use before the kernel ends something: the machine's memory, or less
// where a control group says so.
std::uint64_t usable_memory_bytes();
// The least limit of a control group (version 2) and those above it; UINT64_MAX without any.
// `group` is the path in /proc/self/cgroup, `mount` the folder of the hierarchy.
std::uint64_t group_memory_bytes(const std::string& mount, std::string group);
// What parameters and optimizer state may take of it; the rest is for requests and the system.
constexpr std::uint64_t kParameterMemoryPercent = 80;
inline std::uint64_t parameter_memory_bytes() {
  return usable_memory_bytes() / 100 * kParameterMemoryPercent;
}

// A server's and a trainer's buffers of up to 32 MiB come and go with every request: freed ones
// stay in the process, so that the kernel does not hand out and clear the same pages each time.
void keep_freed_memory();

}  // namespace paddle

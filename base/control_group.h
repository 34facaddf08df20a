// The share of a machine that this process may use: limits of control groups (cgroups, versions 1
// and 2) count, as those of a container do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace paddle {

// Bytes of memory: the machine's, or the limit of a control group if that is lower.
std::uint64_t usable_memory_bytes();
// Cores: those that the process may run on (its affinity), or the quota of a control group if that
// is lower, rounded up; at least 1.
std::uint32_t usable_cores();

// The lowest limits of the control groups in `groups` and of their parents; UINT64_MAX if there is
// none. `groups` is the text of /proc/self/cgroup, `root` is the path /sys/fs/cgroup. Read are
// version 2, and the controllers "memory" and "cpu" of version 1.
std::uint64_t group_memory_bytes(const std::string& root, std::string_view groups);
std::uint64_t group_cores(const std::string& root, std::string_view groups);

}  // namespace paddle

// Kills for lack of memory, as the kernel counts them for the memory group (cgroup) of a process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace paddle::agent {

// The number after "oom_kill" in memory.oom_control (cgroup v1), memory.events (v2) or
// /proc/vmstat; nothing when there is none.
std::optional<std::uint64_t> oom_kills_in(const std::string& counters);

// The group's folder in a mounted hierarchy of memory groups.
struct MemoryGroup {
  std::string mount;    // "/sys/fs/cgroup/memory"
  std::string path;     // below it: "/job/step"; "" for its top
  std::string counter;  // the name of its file: "memory.oom_control" or "memory.events"
};
// From the contents of /proc/<pid>/cgroup and /proc/self/mountinfo; nothing when no mount shows it.
std::optional<MemoryGroup> memory_group_in(const std::string& groups, const std::string& mounts);

// Watches the counter that counts for one process. A process may be moved between groups, so the
// counter is looked for again and again; where no group counts, the machine's is taken, as for a
// process that has just started and may have been moved since the last look.
class OomWatch {
 public:
  // Call this when the process starts, and then every second or so while it runs; more often does
  // nothing.
  void look(pid_t process, TimePoint now);
  // True when a kill was counted so shortly before that a process which has died now was the one.
  bool has_counted(TimePoint now);

 private:
  void count(TimePoint now);

  std::optional<TimePoint> started_at_;         // of the first look
  std::optional<std::uint64_t> machine_kills_;  // at the last look
  TimePoint looked_at_;
  std::string groups_;   // /proc/<pid>/cgroup at the last look
  std::string counter_;  // path of the file
  std::optional<std::uint64_t> kills_;
  std::optional<TimePoint> rose_at_;
};

}  // namespace paddle::agent

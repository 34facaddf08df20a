// Detects that the kernel killed a process for lack of memory, by the counter of kills of the
// process's memory group (cgroup).
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
  std::string mount;    // where the hierarchy is mounted: "/sys/fs/cgroup/memory"
  std::string path;     // the group below `mount`: "/job/step"; "": `mount` itself
  std::string counter;  // name of the counter's file: "memory.oom_control" or "memory.events"
};
// Finds the group from the contents of /proc/<pid>/cgroup and /proc/self/mountinfo; nothing when no
// mount contains it.
std::optional<MemoryGroup> memory_group_in(const std::string& groups, const std::string& mounts);

// Watches the counter of kills that applies to one process. The process may be moved between
// groups, so look() searches for the counter again and again. The machine's counter applies where
// no group has one, and also to a process that has just started, which may have been moved since
// the last look().
class OomWatch {
 public:
  // Call this when the process starts, and then every second or so while it runs; more frequent
  // calls do nothing.
  void look(pid_t process, TimePoint now);
  // True when a kill was counted so recently that a process that has just died must be the victim.
  bool has_counted(TimePoint now);

 private:
  void count(TimePoint now);

  std::optional<TimePoint> started_at_;         // time of the first look()
  std::optional<std::uint64_t> machine_kills_;  // value at the last look()
  TimePoint looked_at_;
  std::string groups_;                  // /proc/<pid>/cgroup at the last look()
  std::string counter_;                 // path of the counter's file
  std::optional<std::uint64_t> kills_;  // the counter's last value
  std::optional<TimePoint> rose_at_;    // when kills_ last rose
};

}  // namespace paddle::agent

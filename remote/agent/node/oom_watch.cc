#include "remote/agent/node/oom_watch.h"

#include <unistd.h>

#include <charconv>
#include <sstream>
#include <string_view>
#include <vector>

#include "remote/agent/node/proc.h"

namespace paddle::agent {
namespace {

// A kill is counted at once, but a process with much memory takes time to end.
constexpr Duration kDyingMax = std::chrono::seconds(30);
constexpr Duration kLookPeriod = std::chrono::seconds(1);
// A service manager or batch system that moves a process into a group does so when the process
// starts.
constexpr Duration kMovedWithin = std::chrono::seconds(5);
constexpr const char* kCounterOfMachine = "/proc/vmstat";

bool has_item(const std::string& list, std::string_view item) {
  std::istringstream items(list);
  for (std::string one; std::getline(items, one, ',');) {
    if (one == item) return true;
  }
  return false;
}

struct Group {
  std::string path;
  bool is_v1 = false;
};

// Lines are "number:controllers:path"; the unified hierarchy of v2 has number 0 and no controllers.
std::optional<Group> group_in(const std::string& groups) {
  std::optional<Group> unified;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (has_item(controllers, "memory")) return Group{line.substr(second + 1), true};
    if (line.starts_with("0::")) unified = Group{line.substr(second + 1), false};
  }
  return unified;
}

// Returns the part of `path` below `root`, the folder that a mount shows; nothing when `path` is
// not below it.
std::optional<std::string> below(std::string path, const std::string& root) {
  if (!path.starts_with('/') || path.find("..") != std::string::npos) return std::nullopt;
  if (path == "/") path.clear();
  if (root == "/") return path;
  if (path != root && !path.starts_with(root + "/")) return std::nullopt;
  return path.substr(root.size());
}

// Returns the counter's file of the nearest group that has one: in v2, perhaps only a group further
// up has a memory controller.
std::string counter_of(MemoryGroup group) {
  for (;;) {
    std::string file = group.mount + group.path + "/" + group.counter;
    if (::access(file.c_str(), R_OK) == 0) return file;
    if (group.path.empty()) return kCounterOfMachine;
    group.path.resize(group.path.rfind('/'));
  }
}

}  // namespace

std::optional<std::uint64_t> oom_kills_in(const std::string& counters) {
  std::istringstream lines(counters);
  std::uint64_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name;
    if (fields >> name && name == "oom_kill" && fields >> count) return count;
  }
  return std::nullopt;
}

std::optional<MemoryGroup> memory_group_in(const std::string& groups, const std::string& mounts) {
  const auto group = group_in(groups);
  if (!group) return std::nullopt;
  std::istringstream lines(mounts);
  // "id parent device root mount-point options [tags...] - type source options", proc(5).
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string skipped, root, mount, type, options;
    fields >> skipped >> skipped >> skipped >> root >> mount;
    while (fields >> skipped && skipped != "-") {
    }
    fields >> type >> skipped >> options;
    const bool fits =
        group->is_v1 ? type == "cgroup" && has_item(options, "memory") : type == "cgroup2";
    if (!fits) continue;
    if (const auto path = below(group->path, root)) {
      return MemoryGroup{mount, *path, group->is_v1 ? "memory.oom_control" : "memory.events"};
    }
  }
  return std::nullopt;
}

void OomWatch::count(TimePoint now) {
  const auto kills = oom_kills_in(text_of(counter_));
  if (kills && kills_ && *kills > *kills_) rose_at_ = now;
  if (kills) kills_ = kills;
}

void OomWatch::look(pid_t process, TimePoint now) {
  if (!counter_.empty() && now - looked_at_ < kLookPeriod) return;
  looked_at_ = now;
  if (!started_at_) started_at_ = now;
  machine_kills_ = oom_kills_in(text_of(kCounterOfMachine));
  // Reads the old counter first: v1 shows a dying process in another group.
  if (!counter_.empty()) count(now);
  std::string groups = text_of("/proc/" + std::to_string(process) + "/cgroup");
  if (groups == groups_ && !counter_.empty()) return;
  groups_ = std::move(groups);
  const auto group = memory_group_in(groups_, text_of("/proc/self/mountinfo"));
  const std::string counter = group ? counter_of(*group) : kCounterOfMachine;
  if (counter == counter_) return;
  counter_ = counter;
  kills_ = oom_kills_in(text_of(counter_));
}

bool OomWatch::has_counted(TimePoint now) {
  count(now);
  if (rose_at_ && now - *rose_at_ < kDyingMax) return true;
  if (!started_at_ || now - *started_at_ >= kMovedWithin) return false;
  return machine_kills_ && oom_kills_in(text_of(kCounterOfMachine)) > machine_kills_;
}

}  // namespace paddle::agent

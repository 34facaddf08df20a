#include "base/control_group.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>

#include "base/fd.h"

namespace paddle {
namespace {

constexpr std::uint64_t kNoLimit = UINT64_MAX;
constexpr int kProcessorsMax = 4096;
constexpr const char* kRoot = "/sys/fs/cgroup";

// "" for a file that cannot be read.
std::string text_of(const std::string& path) {
  auto text = read_file(path);
  return text ? *std::move(text) : "";
}

std::uint64_t number_in(const std::string& path) {
  std::uint64_t number = kNoLimit;
  return std::istringstream(text_of(path)) >> number ? number : kNoLimit;  // "max": none
}

// A folder of a hierarchy, and what it limits.
using LimitOf = std::uint64_t (*)(const std::string& folder);

std::uint64_t memory_of(const std::string& folder) {
  return number_in(folder + "/memory.max");
}
std::uint64_t memory_of_v1(const std::string& folder) {
  return number_in(folder + "/memory.limit_in_bytes");
}

// Quota and period are microseconds of CPU time.
std::uint64_t cores_in(std::uint64_t quota, std::uint64_t period) {
  if (quota > kNoLimit / 2 || period == 0 || period > kNoLimit / 2) return kNoLimit;
  return std::max<std::uint64_t>((quota + period - 1) / period, 1);
}
std::uint64_t cores_of(const std::string& folder) {
  std::istringstream fields(text_of(folder + "/cpu.max"));  // "200000 100000", or "max 100000"
  std::uint64_t quota = kNoLimit;
  std::uint64_t period = 0;
  return fields >> quota >> period ? cores_in(quota, period) : kNoLimit;
}
std::uint64_t cores_of_v1(const std::string& folder) {
  const std::string quota = text_of(folder + "/cpu.cfs_quota_us");
  if (quota.empty() || quota.front() == '-') return kNoLimit;  // -1: none
  return cores_in(number_in(folder + "/cpu.cfs_quota_us"),
                  number_in(folder + "/cpu.cfs_period_us"));
}

// The least limit of a group and of its parents, up to the root of the hierarchy.
std::uint64_t least_limit(const std::string& root, std::string group, LimitOf limit_of) {
  std::uint64_t least = kNoLimit;
  for (;; group.resize(group.rfind('/'))) {
    least = std::min(least, limit_of(root + group));
    if (group.rfind('/') == std::string::npos) return least;
  }
}

// A line of `groups` is "0::/group", or with version 1 "4:memory:/group". Folders of version 1 are
// named by their controllers, and a link has each controller's name.
std::uint64_t least_of_groups(const std::string& root, std::string_view groups, LimitOf limit_of,
                              const std::string& controller, LimitOf limit_of_v1) {
  std::uint64_t least = kNoLimit;
  for (std::size_t at = 0; at < groups.size();) {
    const std::size_t end = std::min(groups.find('\n', at), groups.size());
    const std::string_view line = groups.substr(at, end - at);
    at = end + 1;
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', std::min(first, line.size() - 1) + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string names = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const std::string group(line.substr(second + 1));
    if (names == ",,") {
      least = std::min(least, least_limit(root, group, limit_of));
    } else if (names.find("," + controller + ",") != std::string::npos) {
      least = std::min(least, least_limit(root + "/" + controller, group, limit_of_v1));
    }
  }
  return least;
}

std::uint32_t cores_of_affinity() {
  const std::unique_ptr<cpu_set_t, decltype(&std::free)> set(CPU_ALLOC(kProcessorsMax), &std::free);
  const std::size_t size = CPU_ALLOC_SIZE(kProcessorsMax);
  if (!set || ::sched_getaffinity(0, size, set.get()) != 0) return 1;
  return static_cast<std::uint32_t>(std::max(CPU_COUNT_S(size, set.get()), 1));
}

}  // namespace

std::uint64_t group_memory_bytes(const std::string& root, std::string_view groups) {
  return least_of_groups(root, groups, memory_of, "memory", memory_of_v1);
}

std::uint64_t group_cores(const std::string& root, std::string_view groups) {
  return least_of_groups(root, groups, cores_of, "cpu", cores_of_v1);
}

std::uint64_t usable_memory_bytes() {
  const auto physical = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(physical, group_memory_bytes(kRoot, text_of("/proc/self/cgroup")));
}

std::uint32_t usable_cores() {
  const std::uint64_t quota = group_cores(kRoot, text_of("/proc/self/cgroup"));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(cores_of_affinity(), quota));
}

}  // namespace paddle

#include "engine/base/memory.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "engine/base/fd.h"

namespace paddle {

std::uint64_t group_memory_bytes(const std::string& mount, std::string group) {
  std::uint64_t least = UINT64_MAX;
  for (;; group.resize(group.rfind('/'))) {
    if (const auto text = read_file(mount + group + "/memory.max")) {
      std::uint64_t bytes = 0;  // or "max", which is no number
      const auto parsed = std::from_chars(text->data(), text->data() + text->size(), bytes);
      if (parsed.ec == std::errc()) least = std::min(least, bytes);
    }
    if (group.rfind('/') == std::string::npos) return least;
  }
}

std::uint64_t usable_memory_bytes() {
  const auto physical = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  constexpr std::string_view kUnified = "0::";  // the line of version 2
  std::string group;
  if (const auto groups = read_file("/proc/self/cgroup")) {
    for (std::size_t at = 0; at < groups->size();) {
      const std::size_t end = std::min(groups->find('\n', at), groups->size());
      const std::string_view line = std::string_view(*groups).substr(at, end - at);
      if (line.starts_with(kUnified)) group = line.substr(kUnified.size());
      at = end + 1;
    }
  }
  return std::min(physical, group_memory_bytes("/sys/fs/cgroup", group));
}

void keep_freed_memory() {
  constexpr int kLargestKept = 32 << 20;  // bytes; glibc takes no more
  constexpr int kKeptUnused = 256 << 20;  // bytes at the end of a heap
  ::mallopt(M_MMAP_THRESHOLD, kLargestKept);
  ::mallopt(M_TRIM_THRESHOLD, kKeptUnused);
}

}  // namespace paddle

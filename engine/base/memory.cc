#include "engine/base/memory.h"

#include <malloc.h>

namespace paddle {

void keep_freed_memory() {
  constexpr int kLargestKept = 32 << 20;  // bytes; glibc takes no more
  constexpr int kKeptUnused = 256 << 20;  // bytes at the end of a heap
  ::mallopt(M_MMAP_THRESHOLD, kLargestKept);
  ::mallopt(M_TRIM_THRESHOLD, kKeptUnused);
}

}  // namespace paddle

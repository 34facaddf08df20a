// Loads of memory into the cache before it is used.
#pragma once

#include <cstddef>

namespace paddle {

// Loads a cache line. Consecutive loads overlap as far as the CPU can follow them and, unlike
// prefetches, are never dropped: Zen 4, which waits for some 24 lines at once, drops 16 % of 64
// consecutive prefetches (updates of 10 million rows: 3 times as fast with loads).
inline void load_line(const void* memory) {
  static_cast<void>(*static_cast<const volatile std::byte*>(memory));
}

// Starts to load a cache line without waiting, for a few lines at a time between other work.
inline void prefetch(const void* memory) {
  __builtin_prefetch(memory);
  // Without this gcc 12 takes functions that only prefetch for pure ones and deletes their calls.
  asm volatile("" : : "r"(memory));
}

}  // namespace paddle

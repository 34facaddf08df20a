// Bringing memory into the cache before it is used.
#pragma once

#include <cstddef>

namespace paddle {

// Loads from `memory`. Loads in a row overlap as far as the CPU can follow them, and unlike a
// prefetch they are never dropped: of 64 prefetches in a row 16 % are on Zen 4, which waits for
// some 24 lines at once (updates of 10 million rows: 3 times as fast with loads).
inline void touch(const void* memory) {
  static_cast<void>(*static_cast<const volatile std::byte*>(memory));
}

// Begins to load without waiting, for few lines at a time between other work.
inline void prefetch(const void* memory) {
  __builtin_prefetch(memory);
  // Else gcc 12 takes functions that only prefetch for ones without effect, and deletes their
  // calls.
  asm volatile("" : : "r"(memory));
}

}  // namespace paddle

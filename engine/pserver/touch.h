// Bringing memory into the cache before it is used.
#pragma once

#include <cstddef>

namespace paddle::pserver {

// Loads from `memory`. Loads in a row overlap as far as the CPU can follow them, and unlike a
// prefetch they are not dropped where the address has yet to be translated, which random access to
// a large table nearly always finds (updates of 10 million rows: 3 times as fast on Zen 4).
inline void touch(const void* memory) {
  static_cast<void>(*static_cast<const volatile std::byte*>(memory));
}

}  // namespace paddle::pserver

// Memory that the host and the card see at the same address, so that tests which are written for
// the host give a card their vectors. A child of fork() cannot touch it, and it is gone when the
// program's destructors run.
#pragma once

#include <cstddef>

namespace paddle::test {

struct SharedSource {
  void* (*allocate)(std::size_t bytes);  // null: there is no memory left
  void (*release)(void* memory);
};

// Comes before share_memory(). With `own_blocks`, all but the smallest blocks are allocations of
// their own, so that a tool which knows allocations finds a kernel that reads past a vector's end.
void set_shared_source(SharedSource source, bool own_blocks);
// Whether `new` gives such memory from now on.
void share_memory(bool is_on);
bool is_shared(const void* memory);

}  // namespace paddle::test

// Memory for large arrays that are gone through again and again.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/base/bytes.h"

namespace paddle {

// From here on a block has pages of 2 MiB where the kernel gives any: with thousands of small
// pages much of the time goes into translating their addresses. It takes whole ones.
constexpr std::size_t kHugePagesFrom = 512U << 10U;  // bytes

// Throws std::bad_alloc as operator new.
void* allocate_huge(std::size_t bytes);
void free_huge(void* memory, std::size_t bytes);

// Leaves elements uninitialised on resize, as its base does.
template <class T>
class HugePageAllocator : public DefaultInitAllocator<T> {
 public:
  template <class U>
  struct rebind {
    using other = HugePageAllocator<U>;
  };
  HugePageAllocator() = default;
  template <class U>
  HugePageAllocator(const HugePageAllocator<U>&) {}  // NOLINT: rebinding is implicit
  T* allocate(std::size_t count) {
    if (count * sizeof(T) < kHugePagesFrom) return std::allocator<T>::allocate(count);
    return static_cast<T*>(allocate_huge(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t count) {
    if (count * sizeof(T) < kHugePagesFrom) return std::allocator<T>::deallocate(memory, count);
    free_huge(memory, count * sizeof(T));
  }
};

template <class T>
using LargeArray = std::vector<T, HugePageAllocator<T>>;

}  // namespace paddle

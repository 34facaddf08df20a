// Allocator for large arrays that are read again and again.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "base/bytes.h"

namespace paddle {

// Blocks of this size or more take whole pages of 2 MiB, if the kernel has any: with thousands of
// small pages, much of the time is spent on address translation.
constexpr std::size_t kHugePagesFrom = 512U << 10U;  // bytes

// Smaller blocks begin on a cache line, so that vector loads of whole-line rows cross none.
constexpr std::size_t kLineBytes = 64;

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
    const std::size_t bytes = count * sizeof(T);
    return static_cast<T*>(bytes < kHugePagesFrom
                               ? ::operator new(bytes, std::align_val_t(kLineBytes))
                               : allocate_huge(bytes));
  }
  void deallocate(T* memory, std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes >= kHugePagesFrom) return free_huge(memory, bytes);
    ::operator delete(memory, std::align_val_t(kLineBytes));
  }
};

template <class T>
using LargeArray = std::vector<T, HugePageAllocator<T>>;

}  // namespace paddle

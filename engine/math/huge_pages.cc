#include "engine/math/huge_pages.h"

#include <sys/mman.h>

namespace paddle {
namespace {

constexpr std::size_t kPageBytes = 2U << 20U;

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

void* allocate_huge(std::size_t bytes) {
  void* const memory = ::operator new(whole_pages(bytes), std::align_val_t(kPageBytes));
  ::madvise(memory, whole_pages(bytes), MADV_HUGEPAGE);  // small pages work too
  return memory;
}

void free_huge(void* memory, std::size_t bytes) {
  ::operator delete(memory, whole_pages(bytes), std::align_val_t(kPageBytes));
}

}  // namespace paddle

#include "tests/gpu/shared_memory.h"

#include <cuda_runtime_api.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

#include "base/check.h"

// Blocks of powers of two of one region, which come back when they are free.
namespace paddle::test {
namespace {

constexpr std::size_t kRegionBytes = std::size_t{8} << 30U;
constexpr std::size_t kSmallest = 64;
constexpr std::size_t kHead = 64;  // before a block, so that blocks are aligned: its class

struct Free {
  Free* next;
};

std::mutex g_mutex;                 // NOLINT: of all below
std::byte* g_region = nullptr;      // NOLINT
std::size_t g_used = 0;             // NOLINT
std::array<Free*, 64> g_free = {};  // NOLINT: by the power of two

bool is_shared(const void* memory) {
  return g_region != nullptr && memory >= g_region && memory < g_region + kRegionBytes;
}

void* take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(bytes + kHead < kSmallest ? kSmallest : bytes + kHead);
  const auto power = static_cast<std::size_t>(std::countr_zero(size));
  const std::lock_guard lock(g_mutex);
  if (g_region == nullptr) return nullptr;
  std::byte* block = nullptr;
  if (Free* const free = g_free[power]) {
    g_free[power] = free->next;
    block = reinterpret_cast<std::byte*>(free);
  } else {
    if (size > kRegionBytes - g_used) return nullptr;
    block = g_region + g_used;
    g_used += size;
  }
  *reinterpret_cast<std::size_t*>(block) = power;
  return block + kHead;
}

void give_back(void* memory) {
  if (!is_shared(memory)) return std::free(memory);
  auto* const block = static_cast<std::byte*>(memory) - kHead;
  const std::size_t power = *reinterpret_cast<std::size_t*>(block);
  const std::lock_guard lock(g_mutex);
  g_free[power] = new (block) Free{g_free[power]};
}

}  // namespace

void share_memory() {
  void* region = nullptr;
  PADDLE_CHECK(cudaMallocManaged(&region, kRegionBytes, cudaMemAttachGlobal) == cudaSuccess);
  g_region = static_cast<std::byte*>(region);
}

}  // namespace paddle::test

void* operator new(std::size_t bytes) {
  if (void* const memory = paddle::test::take(bytes)) return memory;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  paddle::test::give_back(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  paddle::test::give_back(memory);
}

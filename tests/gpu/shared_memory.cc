#include "tests/gpu/shared_memory.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

#include "base/check.h"

// Blocks of powers of two of one region, which come back when they are free, and blocks that are
// allocations of their own.
namespace paddle::test {
namespace {

constexpr std::size_t kRegionBytes = std::size_t{8} << 30U;
constexpr std::size_t kSmallest = 64;
constexpr std::size_t kHead = 64;  // before a block, so that blocks are aligned: its class

struct Free {
  Free* next;
};

// Not by `new`, which needs the blocks.
template <class T>
struct Mallocator {
  using value_type = T;
  Mallocator() = default;
  template <class U>
  explicit Mallocator(const Mallocator<U>& /*other*/) {}
  T* allocate(std::size_t count) { return static_cast<T*>(std::malloc(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t /*count*/) { std::free(memory); }
  bool operator==(const Mallocator&) const = default;
};
// Bytes by begin.
using Blocks = std::map<const std::byte*, std::size_t, std::less<>,
                        Mallocator<std::pair<const std::byte* const, std::size_t>>>;

std::atomic<bool> g_is_on = false;           // NOLINT
thread_local bool t_is_allocating = false;   // NOLINT: the source itself may use `new`
std::mutex g_mutex;                          // NOLINT: of all below
SharedSource g_source = {};                  // NOLINT
bool g_has_own = false;                      // NOLINT
std::atomic<std::size_t> g_own = 0;          // NOLINT: own_blocks().size()
std::atomic<std::byte*> g_region = nullptr;  // NOLINT
std::size_t g_used = 0;                      // NOLINT
std::array<Free*, 64> g_free = {};           // NOLINT: by the power of two

Blocks& own_blocks() {
  static auto* const blocks = new (std::malloc(sizeof(Blocks))) Blocks();
  return *blocks;
}

bool is_in_region(const void* memory) {
  const std::byte* const region = g_region;
  return region != nullptr && memory >= region && memory < region + kRegionBytes;
}

void* allocate(std::size_t bytes) {
  t_is_allocating = true;
  void* const memory = g_source.allocate(bytes);
  t_is_allocating = false;
  return memory;
}

void* take_own(std::size_t bytes) {
  void* const memory = allocate(bytes);
  if (memory == nullptr) return nullptr;
  const std::lock_guard lock(g_mutex);
  own_blocks().emplace(static_cast<const std::byte*>(memory), bytes);
  g_own = own_blocks().size();
  return memory;
}

void* take(std::size_t bytes) {
  if (!g_is_on || t_is_allocating) return nullptr;
  if (g_has_own && bytes > kSmallest) return take_own(bytes);
  const std::size_t size = std::bit_ceil(bytes + kHead);
  const auto power = static_cast<std::size_t>(std::countr_zero(size));
  const std::lock_guard lock(g_mutex);
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

bool give_back_own(void* memory) {
  if (g_own == 0) return false;
  {
    const std::lock_guard lock(g_mutex);
    if (own_blocks().erase(static_cast<const std::byte*>(memory)) == 0) return false;
    g_own = own_blocks().size();
  }
  g_source.release(memory);
  return true;
}

void give_back(void* memory) {
  if (memory == nullptr || give_back_own(memory)) return;
  if (!is_in_region(memory)) return std::free(memory);
  auto* const block = static_cast<std::byte*>(memory) - kHead;
  const std::size_t power = *reinterpret_cast<std::size_t*>(block);
  const std::lock_guard lock(g_mutex);
  g_free[power] = new (block) Free{g_free[power]};
}

}  // namespace

void set_shared_source(SharedSource source, bool own_blocks) {
  const std::lock_guard lock(g_mutex);
  g_source = source;
  g_has_own = own_blocks;
}

void share_memory(bool is_on) {
  if (is_on && g_region == nullptr) {
    g_region = static_cast<std::byte*>(allocate(kRegionBytes));
    PADDLE_CHECK(g_region != nullptr);
  }
  g_is_on = is_on;
}

bool is_shared(const void* memory) {
  if (is_in_region(memory)) return true;
  const auto* const address = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(g_mutex);
  const auto after = own_blocks().upper_bound(address);
  if (after == own_blocks().begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return address <= begin + bytes;
}

}  // namespace paddle::test

void* operator new(std::size_t bytes) {
  if (void* const memory = paddle::test::take(bytes)) return memory;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
// AddressSanitizer's own would not match the `delete` below.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  if (void* const memory = paddle::test::take(bytes)) return memory;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept {
  paddle::test::give_back(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  paddle::test::give_back(memory);
}

// A card of host memory. Memory that it shares with the host behaves as that of a real card: the
// child of a fork() cannot touch it, and it is gone when the program's destructors run.
#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "base/check.h"
#include "tests/gpu/card.h"
#include "tests/support/device/fake_driver.h"
#include "tests/support/device/fake_orders.h"

namespace paddle::test {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// The pages of all blocks, which a page without access follows.
class Pages {
 public:
  // The block ends where its pages end.
  void* allocate(std::size_t bytes) {
    static const bool is_first = std::atexit([] { pages().release_all(); }) == 0;
    PADDLE_CHECK(is_first);
    const std::size_t size = round_up(bytes, kPage);
    void* const begin = ::mmap(nullptr, size + kPage, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    PADDLE_CHECK(begin != MAP_FAILED);
    PADDLE_CHECK(::mprotect(begin, size, PROT_READ | PROT_WRITE) == 0);
    PADDLE_CHECK(::madvise(begin, size, MADV_DONTFORK) == 0);
    const std::lock_guard lock(mutex_);
    sizes_.emplace(begin, size + kPage);
    return static_cast<std::byte*>(begin) + size - round_up(bytes, 16);
  }
  void release(void* block) {
    const std::lock_guard lock(mutex_);
    const auto after = sizes_.upper_bound(block);
    PADDLE_CHECK(after != sizes_.begin());
    const auto of = std::prev(after);
    ::munmap(of->first, of->second);
    sizes_.erase(of);
  }
  void release_all() {
    for (const auto& [begin, size] : sizes_) ::munmap(begin, size);
  }

  static Pages& pages() {
    static auto* const all = new Pages();
    return *all;
  }

 private:
  std::mutex mutex_;
  std::map<void*, std::size_t> sizes_;
};

}  // namespace

device::Driver& card_driver() {
  static auto* const driver = new FakeDriver(1);
  return *driver;
}

SharedSource shared_source() {
  return {[](std::size_t bytes) { return Pages::pages().allocate(bytes); },
          [](void* block) { Pages::pages().release(block); }};
}

// A kernel that uses memory which a real card cannot see ends the tests.
void run_on_card(const kernels::device::Kernel& kernel) {
  visit_pointers(kernel, [](const void* pointer) {
    if (!is_shared(pointer)) violation("a kernel has memory that the card does not see");
  });
  compute(kernel, kLate);
}

}  // namespace paddle::test

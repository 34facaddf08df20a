// Memory that the kernel gives and clears before its first use, at once or by a thread beside the
// one that will use it.
#pragma once

#include <cstddef>
#include <memory>

namespace paddle {

// Has the kernel give and clear whole pages now: a fifth of what the first writes to them would
// take. Where it cannot, they will.
void populate(std::byte* begin, std::size_t bytes);

class MemoryPreparer {
 public:
  virtual ~MemoryPreparer() = default;
  // [begin, begin + bytes) of whole pages, mapped and writable, is about to be written. Does not
  // wait: where too much is asked for, or the kernel cannot, the first write finds the page itself.
  virtual void prepare(std::byte* begin, std::size_t bytes) = 0;
  // Before the range is unmapped, moved or given back: nothing of it is or will be prepared. Waits
  // for the kernel to clear kPreparedAtOnceBytes at most.
  virtual void forget(const std::byte* begin, std::size_t bytes) = 0;
};

constexpr std::size_t kPreparedAtOnceBytes = 2U << 20U;
constexpr std::size_t kPreparedBytesMax = 256U << 20U;  // that wait for it

// With a thread of its own. Any thread may call it.
std::unique_ptr<MemoryPreparer> make_memory_preparer();

}  // namespace paddle

// Prefaulting of memory before its first use, at once or by a background thread.
#pragma once

#include <cstddef>
#include <memory>

namespace paddle {

// Prefaults pages with MADV_POPULATE_WRITE; five times cheaper than faulting on first write. Best
// effort.
void populate(std::byte* begin, std::size_t bytes);

class MemoryPreparer {
 public:
  virtual ~MemoryPreparer() = default;
  // Queues [begin, begin + bytes) of whole pages, mapped and writable, for prefaulting. Does not
  // wait; a range beyond the queue's limit is left to its first write.
  virtual void prepare(std::byte* begin, std::size_t bytes) = 0;
  // Takes a range back before it is unmapped, moved or released. Waits for the kernel to clear
  // kPreparedAtOnceBytes at most.
  virtual void forget(const std::byte* begin, std::size_t bytes) = 0;
};

constexpr std::size_t kPreparedAtOnceBytes = 2U << 20U;
constexpr std::size_t kPreparedBytesMax = 256U << 20U;  // queued

// A preparer with a thread of its own. Any thread may call it.
std::unique_ptr<MemoryPreparer> make_memory_preparer();

}  // namespace paddle

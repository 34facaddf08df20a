// Zeroed memory that grows in place: address space is reserved ahead, pages are mapped when they
// are first written, or prefaulted before, at once or by a background thread.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/result.h"

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
  // Removes a range from the queue. Must be called before the range is unmapped, moved or released.
  // Waits until the kernel has cleared at most kPreparedAtOnceBytes.
  virtual void forget(const std::byte* begin, std::size_t bytes) = 0;
};

constexpr std::size_t kPreparedAtOnceBytes = 2U << 20U;
constexpr std::size_t kPreparedBytesMax = 256U << 20U;  // queued

// A preparer with a thread of its own. Any thread may call it.
std::unique_ptr<MemoryPreparer> make_memory_preparer();

class MemoryRegion {
 public:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kHugePageBytes = 2U << 20U;

  // From offset huge_from on (a multiple of kHugePageBytes) the region has huge pages if the kernel
  // gives any: they save most of the address translation of random access, and take memory in
  // larger steps. `preparer` may be null; it must outlive the region.
  explicit MemoryRegion(std::size_t huge_from, MemoryPreparer* preparer = nullptr)
      : huge_from_(huge_from), preparer_(preparer) {}
  ~MemoryRegion();
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;
  MemoryRegion(MemoryRegion&& other) noexcept { swap(other); }
  MemoryRegion& operator=(MemoryRegion&& other) noexcept {
    swap(other);
    return *this;
  }

  // Makes [0, bytes) usable; new bytes read as 0. May move the content, by remapping pages.
  // kResource when the kernel refuses.
  Status reserve(std::size_t bytes);
  // Collapses 2 MiB of small pages before huge_from into a huge page with every call (about a
  // millisecond), once all of them are among the first `used` bytes. Best effort.
  void promote(std::size_t used);
  // Maps the small pages among the first `used` bytes at once, with a few after them. Call it
  // before these bytes are written.
  void populate(std::size_t used);
  // Has the preparer prefault the huge pages that overlap [begin, end), so that the first write to
  // one need not wait until its 2 MiB are cleared (5 ms where a hypervisor must first back them).
  // Skips the pages of the last call.
  void prepare(std::size_t begin, std::size_t end);
  // Releases the pages of [bytes, end); they read as 0 again.
  void release_from(std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }
  // Bytes of memory held by the first `used` bytes and by pages mapped or prepared behind them.
  std::size_t resident(std::size_t used) const;

 private:
  void swap(MemoryRegion& other) noexcept {
    std::swap(huge_from_, other.huge_from_);
    std::swap(preparer_, other.preparer_);
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(promoted_, other.promoted_);
    std::swap(populated_, other.populated_);
    std::swap(prepared_begin_, other.prepared_begin_);
    std::swap(prepared_end_, other.prepared_end_);
  }

  void ask(std::size_t begin, std::size_t end);
  void forget();

  std::size_t huge_from_ = 0;
  MemoryPreparer* preparer_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t promoted_ = 0;        // bytes before huge_from_ that are in huge pages
  std::size_t populated_ = 0;       // bytes before huge_from_ that populate() has mapped
  std::size_t prepared_begin_ = 0;  // range of the last prepare()
  std::size_t prepared_end_ = 0;
};

}  // namespace paddle

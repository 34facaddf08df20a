// Zeroed memory that grows in place: address space is reserved ahead, the kernel gives pages when
// they are first written.
#pragma once

#include <cstddef>
#include <utility>

#include "base/result.h"
#include "engine/memory/preparer.h"

namespace paddle {

class MemoryRegion {
 public:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kHugePageBytes = 2U << 20U;

  // From offset huge_from on (a multiple of kHugePageBytes) the kernel is asked for huge pages:
  // they save most of the address translation of random access, and hold memory in larger steps.
  // `preparer`, where there is one, must outlive the region.
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

  // Makes [0, bytes) usable; what is new reads as 0. May move the content: pages, not bytes.
  // kResource when the kernel refuses.
  Status reserve(std::size_t bytes);
  // Turns 2 MiB of small pages before huge_from into a huge one with every call (about a
  // millisecond), once all of them are among the first `used` bytes: none is held for nothing.
  // Leaves them where the kernel refuses.
  void promote(std::size_t used);
  // The first `used` bytes are about to be written: small pages among them are given many at once,
  // with a few behind them.
  void populate(std::size_t used);
  // Has the huge pages that [begin, end) meets given by the preparer, so that the first write to
  // one need not wait until its 2 MiB are clear (5 ms where a hypervisor first finds them). Those
  // of the last call are not asked for again.
  void prepare(std::size_t begin, std::size_t end);
  // Gives the pages of [bytes, end) back; they read as 0 again.
  void release_from(std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }
  // Bytes of memory that hold the first `used` bytes and what was given or prepared behind them,
  // pages counted whole.
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
  std::size_t promoted_ = 0;        // bytes before huge_from_ that were made huge pages
  std::size_t populated_ = 0;       // bytes before huge_from_ that populate() has given
  std::size_t prepared_begin_ = 0;  // what the last call asked for
  std::size_t prepared_end_ = 0;
};

}  // namespace paddle

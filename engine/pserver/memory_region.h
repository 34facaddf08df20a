// Zeroed memory that grows in place: address space is reserved ahead, the kernel gives pages when
// they are first written.
#pragma once

#include <cstddef>
#include <utility>

#include "engine/base/result.h"

namespace paddle::pserver {

class MemoryRegion {
 public:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kHugePageBytes = 2U << 20U;

  // From offset huge_from on (a multiple of kHugePageBytes) the kernel is asked for huge pages:
  // they save most of the address translation of random access, and hold memory in larger steps.
  explicit MemoryRegion(std::size_t huge_from) : huge_from_(huge_from) {}
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
  // Once the first `used` bytes are twice those before huge_from: turns 2 MiB of small pages there
  // into a huge one with every call (about a millisecond). Leaves them where the kernel refuses.
  void promote(std::size_t used);
  // Has the huge page at `offset` given now rather than by the first write to it, which clears 2
  // MiB (5 ms where a hypervisor first finds them): writers that do so in turns never wait for two
  // at once. False when it was there, or the kernel refuses.
  bool prepare(std::size_t offset);
  // Gives the pages of [bytes, end) back; they read as 0 again.
  void release_from(std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }
  // Bytes of memory that hold the first `used` bytes, pages counted whole.
  std::size_t resident(std::size_t used) const;

 private:
  void swap(MemoryRegion& other) noexcept {
    std::swap(huge_from_, other.huge_from_);
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(promoted_, other.promoted_);
  }

  std::size_t huge_from_ = 0;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t promoted_ = 0;  // bytes before huge_from_ that were made huge pages
};

}  // namespace paddle::pserver

#include "engine/pserver/memory_region.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "engine/base/fd.h"

namespace paddle::pserver {
namespace {

// Each reservation is this many times the last one: 2 MiB, 512 MiB, 128 GiB. Address space costs
// nothing, moving pages costs time.
constexpr std::size_t kGrowth = 256;
#ifdef MADV_COLLAPSE
constexpr int kCollapse = MADV_COLLAPSE;
#else
constexpr int kCollapse = 25;  // Linux 6.1, in headers of later ones
#endif
#ifdef MADV_POPULATE_WRITE
constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
constexpr int kPopulate = 23;  // Linux 5.14
#endif
constexpr std::size_t kReservationMin = MemoryRegion::kHugePageBytes;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Huge-page aligned address space of `bytes`, without memory; null when refused.
std::byte* map_aligned(std::size_t bytes) {
  const std::size_t padded = bytes + MemoryRegion::kHugePageBytes;
  void* const raw = ::mmap(nullptr, padded, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(raw);
  const std::size_t skip =
      round_up(reinterpret_cast<std::uintptr_t>(begin), MemoryRegion::kHugePageBytes) -
      reinterpret_cast<std::uintptr_t>(begin);
  if (skip > 0) ::munmap(begin, skip);
  const std::size_t rest = padded - skip - bytes;
  if (rest > 0) ::munmap(begin + skip + bytes, rest);
  return begin + skip;
}

// Moves the pages of a range that has one set of advice.
bool move_pages(std::byte* from, std::byte* to, std::size_t bytes) {
  return bytes == 0 ||
         ::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
}

}  // namespace

MemoryRegion::~MemoryRegion() {
  if (data_ != nullptr) ::munmap(data_, capacity_);
}

Status MemoryRegion::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return {};
  std::size_t wanted =
      round_up(std::max({bytes, capacity_ * kGrowth, kReservationMin}), kHugePageBytes);
  std::byte* moved = map_aligned(wanted);
  if (moved == nullptr) {  // where address space is limited
    wanted = round_up(bytes, kHugePageBytes);
    moved = map_aligned(wanted);
  }
  if (moved == nullptr) return system_error(Errc::kResource, "reserve memory");
  const std::size_t plain = std::min(huge_from_, capacity_);
  if (!move_pages(data_, moved, plain) ||
      !move_pages(data_ + plain, moved + plain, capacity_ - plain)) {
    return system_error(Errc::kResource, "move memory");
  }
  if (huge_from_ < wanted) {
    // A kernel without huge pages serves small ones: slower, not wrong.
    ::madvise(moved + huge_from_, wanted - huge_from_, MADV_HUGEPAGE);
  }
  data_ = moved;
  capacity_ = wanted;
  return {};
}

void MemoryRegion::promote(std::size_t used) {
  if (used / 2 < huge_from_) return;
  if (promoted_ == huge_from_) return;
  const bool done = ::madvise(data_ + promoted_, kHugePageBytes, kCollapse) == 0;
  // Refused: not here, or not now. Slower, not wrong.
  promoted_ = done ? promoted_ + kHugePageBytes : huge_from_;
}

bool MemoryRegion::prepare(std::size_t offset) {
  const std::size_t begin = offset / kHugePageBytes * kHugePageBytes;
  if (begin < huge_from_ || begin + kHugePageBytes > capacity_) return false;
  // Its last small page tells: of a huge page all are there, and before it is written none.
  unsigned char is_there = 0;
  std::byte* const last = data_ + begin + kHugePageBytes - kPageBytes;
  if (::mincore(last, kPageBytes, &is_there) != 0 || (is_there & 1U) != 0) return false;
  return ::madvise(data_ + begin, kHugePageBytes, kPopulate) == 0;
}

void MemoryRegion::release_from(std::size_t bytes) {
  promoted_ = std::min(promoted_, bytes / kHugePageBytes * kHugePageBytes);
  const std::size_t begin = round_up(bytes, kPageBytes);
  if (begin < capacity_) ::madvise(data_ + begin, capacity_ - begin, MADV_DONTNEED);
}

std::size_t MemoryRegion::resident(std::size_t used) const {
  return used <= huge_from_ ? round_up(used, kPageBytes) : round_up(used, kHugePageBytes);
}

}  // namespace paddle::pserver

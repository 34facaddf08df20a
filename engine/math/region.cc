#include "engine/math/region.h"

#include <sys/mman.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <thread>

#include "base/fd.h"

namespace paddle {
namespace {

// Each reservation is this many times the last one: 2 MiB, 512 MiB, 128 GiB. Address space costs
// nothing, moving pages costs time.
constexpr std::size_t kGrowth = 256;
#ifdef MADV_COLLAPSE
constexpr int kCollapse = MADV_COLLAPSE;
#else
constexpr int kCollapse = 25;  // since Linux 6.1; older headers lack it
#endif
#ifdef MADV_POPULATE_WRITE
constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
constexpr int kPopulate = 23;  // since Linux 5.14
#endif
// MemoryRegion::populate() maps used / kPopulatedAhead bytes ahead, at most kPopulatedAheadMax.
constexpr std::size_t kPopulatedAhead = 16;
constexpr std::size_t kPopulatedAheadMax = 128U << 10U;
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

// Moves the pages of a range. REQUIRES: all of the range has the same advice of madvise(): mremap()
// moves one mapping.
bool move_pages(std::byte* from, std::byte* to, std::size_t bytes) {
  return bytes == 0 ||
         ::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
}

class ThreadedPreparer final : public MemoryPreparer {
 public:
  ThreadedPreparer() : thread_([this] { serve(); }) {}
  ~ThreadedPreparer() override {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void prepare(std::byte* begin, std::size_t bytes) override {
    {
      const std::lock_guard lock(mutex_);
      for (Range left(begin, bytes); !left.empty();) {
        if (waiting_.size() >= kPreparedBytesMax / kPreparedAtOnceBytes) break;
        const std::size_t some = std::min(left.size(), kPreparedAtOnceBytes);
        waiting_.push_back(left.first(some));
        left = left.subspan(some);
      }
    }
    changed_.notify_all();
  }

  void forget(const std::byte* begin, std::size_t bytes) override {
    const auto meets = [begin, bytes](Range range) {
      return range.data() < begin + bytes && begin < range.data() + range.size();
    };
    std::unique_lock lock(mutex_);
    std::erase_if(waiting_, meets);
    changed_.wait(lock, [&] { return !meets(current_); });
  }

 private:
  using Range = std::span<std::byte>;

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_over_ || !waiting_.empty(); });
      if (is_over_) return;
      current_ = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      populate(current_.data(), current_.size());
      lock.lock();
      current_ = {};
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Range> waiting_;
  Range current_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace

void populate(std::byte* begin, std::size_t bytes) {
  ::madvise(begin, bytes, kPopulate);
}

std::unique_ptr<MemoryPreparer> make_memory_preparer() {
  return std::make_unique<ThreadedPreparer>();
}

MemoryRegion::~MemoryRegion() {
  if (data_ == nullptr) return;
  forget();
  ::munmap(data_, capacity_);
}

Status MemoryRegion::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return {};
  std::size_t wanted =
      round_up(std::max({bytes, capacity_ * kGrowth, kReservationMin}), kHugePageBytes);
  std::byte* moved = map_aligned(wanted);
  if (moved == nullptr) {  // the limit of address space may be lower
    wanted = round_up(bytes, kHugePageBytes);
    moved = map_aligned(wanted);
  }
  if (moved == nullptr) {
    Error refused = system_error(Errc::kResource, "reserve memory");
    refused.hint = "raise the limit of address space (ulimit -v), or use more pservers";
    return refused;
  }
  forget();
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
  if (promoted_ + kHugePageBytes > std::min(used, huge_from_)) return;
  const bool done = ::madvise(data_ + promoted_, kHugePageBytes, kCollapse) == 0;
  // Best effort: without huge pages access is slower, not wrong. A refusal ends the attempts.
  promoted_ = done ? promoted_ + kHugePageBytes : huge_from_;
}

void MemoryRegion::populate(std::size_t used) {
  const std::size_t end = std::min(huge_from_, capacity_);
  if (used <= populated_ || populated_ >= end) return;
  const std::size_t ahead = std::min(used / kPopulatedAhead, kPopulatedAheadMax);
  const std::size_t until = std::min(round_up(used + ahead, kPageBytes), end);
  paddle::populate(data_ + populated_, until - populated_);
  populated_ = until;
}

void MemoryRegion::prepare(std::size_t begin, std::size_t end) {
  begin = std::max(begin / kHugePageBytes * kHugePageBytes, huge_from_);
  end = std::min(round_up(end, kHugePageBytes), capacity_);
  if (preparer_ == nullptr || begin >= end) return;
  if (begin >= prepared_end_ || end <= prepared_begin_) {
    ask(begin, end);
  } else {
    ask(begin, prepared_begin_);
    ask(prepared_end_, end);
  }
  prepared_begin_ = begin;
  prepared_end_ = end;
}

void MemoryRegion::ask(std::size_t begin, std::size_t end) {
  if (begin < end) preparer_->prepare(data_ + begin, end - begin);
}

// Withdraws all requests from the preparer.
void MemoryRegion::forget() {
  if (preparer_ != nullptr && data_ != nullptr) preparer_->forget(data_, capacity_);
  prepared_begin_ = prepared_end_ = 0;
}

void MemoryRegion::release_from(std::size_t bytes) {
  promoted_ = std::min(promoted_, bytes / kHugePageBytes * kHugePageBytes);
  const std::size_t begin = round_up(bytes, kPageBytes);
  populated_ = std::min(populated_, begin);
  forget();
  if (begin < capacity_) ::madvise(data_ + begin, capacity_ - begin, MADV_DONTNEED);
}

std::size_t MemoryRegion::resident(std::size_t used) const {
  const std::size_t whole = round_up(used, used <= huge_from_ ? kPageBytes : kHugePageBytes);
  return std::max({whole, populated_, prepared_end_});
}

}  // namespace paddle

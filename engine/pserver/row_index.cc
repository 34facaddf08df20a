#include "engine/pserver/row_index.h"

#include <algorithm>

namespace paddle::pserver {
namespace {

constexpr std::uint64_t kBucketsMin = 16;
constexpr std::uint64_t kDoubleBelow = 4096;  // buckets: small tables grow fast, large ones finely
constexpr std::uint64_t kGrowthShare = 8;     // a large table grows by an eighth
constexpr std::uint64_t kHugeFrom = 1U << 19U;  // buckets
constexpr std::uint64_t kBucketsPerExtent = MemoryRegion::kHugePageBytes / 64;
// Behind the last home, for ids that go past it; inside the same huge page.
constexpr std::uint64_t kSpare = 512;
constexpr std::uint64_t kMovesPerInsert = 8;  // homes; the growing ends long before the next one
constexpr std::uint64_t kHomesPerMove = 128;  // their buckets stay in the cache
constexpr std::uint16_t kPassedMax = 0xffff;  // stays there: searches go on for no need, no harm

// Ids in a table of this many buckets at most: 91 % of the slots, so 81 % after growing.
std::uint64_t ids_max(std::uint64_t buckets) {
  return buckets * RowIndex::kSlots * 91 / 100;
}

std::uint64_t grown(std::uint64_t buckets) {
  const std::uint64_t next =
      buckets + std::max(buckets / kGrowthShare, std::min(buckets, kDoubleBelow));
  if (next < kHugeFrom) return next;
  // Whole huge pages, with the spare buckets in the last one: nothing is held for nothing.
  return (next + kSpare + kBucketsPerExtent - 1) / kBucketsPerExtent * kBucketsPerExtent - kSpare;
}

}  // namespace

RowIndex::RowIndex() : memory_(kHugeFrom * sizeof(Bucket)) {}

std::uint64_t RowIndex::bytes() const {
  return memory_.resident(std::max(end_, buckets_) * sizeof(Bucket));
}

Status RowIndex::reserve(std::uint64_t count) {
  std::uint64_t buckets = buckets_;
  while (ids_max(buckets) < size_ + count) buckets = buckets == 0 ? kBucketsMin : grown(buckets);
  return memory_.reserve((std::max(end_, buckets + kSpare) + count) * sizeof(Bucket));
}

void RowIndex::make_room(std::uint64_t count) {
  while (size_ + count > ids_max(buckets_)) {
    while (boundary_ > 0) move_homes();
    old_buckets_ = buckets_;
    boundary_ = buckets_;
    buckets_ = buckets_ == 0 ? kBucketsMin : grown(buckets_);
  }
  for (std::uint64_t i = 0; boundary_ > 0 && i < count * kMovesPerInsert; i += kHomesPerMove) {
    move_homes();
  }
}

void RowIndex::insert_at(std::uint64_t home, std::uint64_t id, std::uint32_t number) {
  std::uint64_t at = home;
  Bucket* bucket = &table()[at];
  while (bucket->count == kSlots) {
    if (bucket->passed != kPassedMax) ++bucket->passed;
    ++at;
    ++bucket;
    PADDLE_CHECK((at + 1) * sizeof(Bucket) <= memory_.capacity());
  }
  bucket->ids[bucket->count] = id;
  bucket->numbers[bucket->count] = number;
  ++bucket->count;
  end_ = std::max(end_, at + 1);
  ++size_;
}

void RowIndex::unpass(std::uint64_t home, std::uint64_t at) {
  for (Bucket* bucket = &table()[home]; bucket != &table()[at]; ++bucket) {
    if (bucket->passed != kPassedMax) --bucket->passed;
  }
}

// Takes the ids of the last homes that still count in old_buckets_ to their new homes, which are
// not below theirs.
void RowIndex::move_homes() {
  moving_.clear();
  const std::uint64_t begin = boundary_ - std::min(boundary_, kHomesPerMove);
  for (std::uint64_t at = begin;; ++at) {
    Bucket& bucket = table()[at];
    // What the next move reads and writes.
    __builtin_prefetch(&bucket - std::min(begin, kHomesPerMove), 1, 2);
    __builtin_prefetch(&table()[(at - std::min(begin, kHomesPerMove)) * buckets_ / old_buckets_], 1,
                       2);
    const bool goes_on = bucket.passed > 0;
    std::uint32_t kept = 0;
    for (std::uint32_t slot = 0; slot < bucket.count; ++slot) {
      const std::uint64_t id = bucket.ids[slot];
      const std::uint32_t number = bucket.numbers[slot];
      const std::uint64_t hash = hash_of(id);
      const std::uint64_t home = scale(hash, old_buckets_);
      if (home >= begin && home < boundary_) {
        unpass(home, at);
        moving_.push_back({scale(hash, buckets_), id, number});
      } else {  // passed by from below, or moved before
        bucket.ids[kept] = id;
        bucket.numbers[kept] = number;
        ++kept;
      }
    }
    size_ -= bucket.count - kept;
    bucket.count = static_cast<std::uint16_t>(kept);
    if (at + 1 >= boundary_ && !goes_on) break;
  }
  boundary_ = begin;
  for (const Moved& moved : moving_) insert_at(moved.home, moved.id, moved.number);
}

void RowIndex::assign(std::uint64_t id, std::uint32_t number) {
  for (Bucket* bucket = &table()[home(id)];; ++bucket) {
    const std::uint32_t slot = slot_of(*bucket, id);
    if (slot < bucket->count) {
      bucket->numbers[slot] = number;
      return;
    }
    PADDLE_CHECK(bucket->passed > 0);
  }
}

void RowIndex::erase(std::uint64_t id) {
  const std::uint64_t begin = home(id);
  for (std::uint64_t at = begin;; ++at) {
    Bucket& bucket = table()[at];
    const std::uint32_t slot = slot_of(bucket, id);
    if (slot < bucket.count) {
      --bucket.count;
      bucket.ids[slot] = bucket.ids[bucket.count];
      bucket.numbers[slot] = bucket.numbers[bucket.count];
      unpass(begin, at);
      --size_;
      return;
    }
    PADDLE_CHECK(bucket.passed > 0);
  }
}

Status RowIndex::fit() {
  if (boundary_ == 0 && size_ * 2 > ids_max(buckets_)) return {};
  RowIndex fresh;
  PADDLE_TRY_STATUS(fresh.reserve(size_));
  fresh.make_room(size_);
  for_each([&fresh](std::uint64_t id, std::uint32_t number) { fresh.insert(id, number); });
  *this = std::move(fresh);
  return {};
}

void RowIndex::scan(std::uint64_t from, std::uint64_t wanted, std::vector<Entry>& entries) const {
  if (size_ == 0) return;
  const std::size_t begin = entries.size();
  const std::uint64_t old_home = scale(from, old_buckets_);
  const std::uint64_t first = old_home < boundary_ ? old_home : scale(from, buckets_);
  for (std::uint64_t at = first; at < end_; ++at) {
    const Bucket& bucket = table()[at];
    for (std::uint32_t i = 0; i < bucket.count; ++i) {
      const std::uint64_t position = hash_of(bucket.ids[i]);
      if (position >= from) entries.push_back({position, bucket.ids[i], bucket.numbers[i]});
    }
    // Nothing went past this bucket: all ids up to its home have been seen.
    if (bucket.passed == 0 && entries.size() - begin >= wanted) break;
  }
  std::sort(entries.begin() + static_cast<std::ptrdiff_t>(begin), entries.end(),
            [](const Entry& a, const Entry& b) { return a.position < b.position; });
}

}  // namespace paddle::pserver

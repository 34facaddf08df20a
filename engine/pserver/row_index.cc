#include "engine/pserver/row_index.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace paddle::pserver {
namespace {

constexpr std::uint64_t kBucketsMin = 16;
constexpr std::uint64_t kDoubleBelow = 4096;  // buckets: small tables grow fast, large ones finely
// A large table grows by a fifth: an id is moved about four times while the table doubles.
constexpr std::uint64_t kGrowthShare = 5;
constexpr std::uint64_t kHugeFrom = 1U << 18U;  // buckets
constexpr std::uint64_t kBucketsPerExtent = MemoryRegion::kHugePageBytes / sizeof(RowBucket);
// Behind the last home, for ids that go past it; inside the same huge page.
constexpr std::uint64_t kSpare = 512;
// From here on a bucket's place and the stored bits tell the whole hash.
constexpr std::uint64_t kPlaceTellsFrom = 1U << 17U;
constexpr std::uint64_t kMovesPerInsert = 3;  // homes; the growing ends long before the next one
constexpr std::uint64_t kHomesPerMove = 256;  // their buckets stay in the cache
// The last homes move at once, so that old places and new ones are always far apart.
constexpr std::uint64_t kHomesInLastMove = 1024;
// The growing is near when this part of the ids is left to come.
constexpr std::uint64_t kSoon = 64;
static_assert(kHomesInLastMove / kGrowthShare > 2 * RowBucket::kReachMax);
static_assert(kSpare > RowBucket::kReachMax);

// Ids in a table of this many buckets at most: 84 % of the slots, so 70 % after growing, which is
// 15.3 bytes an id.
std::uint64_t ids_max(std::uint64_t buckets) {
  return buckets * RowBucket::kSlots * 84 / 100;
}

std::uint64_t grown(std::uint64_t buckets) {
  const std::uint64_t next =
      buckets + std::max(buckets / kGrowthShare, std::min(buckets, kDoubleBelow));
  if (next < kHugeFrom) return next;
  // Whole huge pages, with the spare buckets in the last one: nothing is held for nothing.
  return (next + kSpare) / kBucketsPerExtent * kBucketsPerExtent - kSpare;
}

// Rounded down: over all homes that is less than the stored bits have to spare.
std::uint64_t hashes_per_home(std::uint64_t buckets) {
  return std::numeric_limits<std::uint64_t>::max() / buckets;
}

constexpr std::uint64_t inverse(std::uint64_t odd) {
  std::uint64_t x = odd;  // right in the last 3 bits; each step doubles that
  for (int i = 0; i < 5; ++i) x *= 2 - odd * x;
  return x;
}

constexpr std::uint64_t unshift(std::uint64_t x, unsigned by) {
  std::uint64_t result = x;
  for (unsigned done = by; done < 64; done += by) result = x ^ (result >> by);
  return result;
}

}  // namespace

// mix64 backwards.
std::uint64_t RowIndex::id_of(std::uint64_t hash) {
  std::uint64_t x = unshift(hash * inverse(kSpread), 31);
  x = unshift(x * inverse(0x94d049bb133111ebULL), 27);
  x = unshift(x * inverse(0xbf58476d1ce4e5b9ULL), 30);
  return x - kSpread;
}

RowIndex::RowIndex(Numbers numbers, MemoryPreparer* preparer)
    : numbers_(numbers),
      preparer_(preparer),
      number_mask_(numbers == Numbers::kDense ? kSmallNumberMask : ~0U),
      memory_(kHugeFrom * sizeof(RowBucket), preparer) {}

std::uint64_t RowIndex::first_buckets() const {
  return numbers_ == Numbers::kAny ? kPlaceTellsFrom : kBucketsMin;
}

std::uint64_t RowIndex::bytes() const {
  constexpr std::uint64_t kStashedBytes = 64;
  return memory_.resident(std::max(end_, buckets_) * sizeof(RowBucket)) +
         stash_.size() * kStashedBytes;
}

Status RowIndex::reserve(std::uint64_t count) {
  memory_.promote(buckets_ * sizeof(RowBucket));
  std::uint64_t buckets = std::max(buckets_, first_buckets());
  while (ids_max(buckets) < size_ + count) buckets = grown(buckets);
  return memory_.reserve((std::max(end_, buckets) + kSpare) * sizeof(RowBucket));
}

void RowIndex::start_growing() {
  if (buckets_ == 0) {
    buckets_ = first_buckets();
    width_ = hashes_per_home(buckets_);
    return;
  }
  if (number_mask_ == kSmallNumberMask && buckets_ >= kPlaceTellsFrom) {
    for (std::uint64_t at = 0; at < end_; ++at) {
      for (std::uint32_t& number : table()[at].numbers) number &= kSmallNumberMask;
    }
    number_mask_ = ~0U;
  }
  old_buckets_ = buckets_;
  old_width_ = width_;
  boundary_ = size_ == 0 ? 0 : buckets_;
  buckets_ = grown(buckets_);
  width_ = hashes_per_home(buckets_);
}

void RowIndex::make_room(std::uint64_t count) {
  while (size_ + count > ids_max(buckets_)) {
    while (boundary_ > 0) move_homes();
    start_growing();
  }
  for (std::uint64_t i = 0; boundary_ > 0 && i < count * kMovesPerInsert; i += kHomesPerMove) {
    move_homes();
  }
}

// Homes move from the last one down, into memory that is new above the old buckets.
void RowIndex::prepare(std::size_t bytes) {
  std::uint64_t begin = old_buckets_;  // buckets
  std::uint64_t end = scale(boundary_ * old_width_, buckets_);
  if (boundary_ == 0) {
    if (size_ < ids_max(buckets_) / kSoon * (kSoon - 1)) return;
    begin = buckets_;
    end = grown(buckets_) + kSpare;
  }
  const std::uint64_t first = end - std::min(end, bytes / sizeof(RowBucket));
  memory_.prepare(std::max(begin, first) * sizeof(RowBucket), end * sizeof(RowBucket));
}

void RowIndex::set_number(RowBucket& bucket, std::uint32_t slot, std::uint64_t hash,
                          std::uint32_t number) {
  PADDLE_CHECK((number & ~number_mask_) == 0);
  bucket.numbers[slot] = number | (static_cast<std::uint32_t>(hash >> 32U) & ~number_mask_);
}

// In the bucket itself; false when it is full.
inline bool RowIndex::put(RowBucket& bucket, std::uint64_t hash, std::uint32_t number) {
  const std::uint32_t slot = bucket.count();
  if (slot == RowBucket::kSlots) return false;
  bucket.set_low(slot, hash);
  set_number(bucket, slot, hash, number);
  bucket.set_count(slot + 1);
  return true;
}

void RowIndex::insert_at(std::uint64_t home, std::uint64_t hash, std::uint32_t number) {
  ++size_;
  end_ = std::max(end_, home + 1);
  if (!put(table()[home], hash, number)) insert_behind(home, hash, number);
}

// Of an id whose home is full.
void RowIndex::insert_behind(std::uint64_t home, std::uint64_t hash, std::uint32_t number) {
  RowBucket& first = table()[home];
  for (std::uint32_t i = 1; i <= RowBucket::kReachMax; ++i) {
    if (!put(table()[home + i], hash, number)) continue;
    if (i > first.reach()) first.set_reach(i);
    end_ = std::max(end_, home + i + 1);
    return;
  }
  stash_[hash] = number;
  first.set_reach(RowBucket::kReachStash);
}

std::uint32_t RowIndex::find_behind(std::uint64_t home, std::uint64_t hash) const {
  const std::uint32_t reach = table()[home].reach();
  for (std::uint32_t i = 1; i <= std::min(reach, RowBucket::kReachMax); ++i) {
    const std::uint32_t number = find_in(table()[home + i], hash);
    if (number != kNone) return number;
  }
  if (reach < RowBucket::kReachStash) return kNone;
  const auto found = stash_.find(hash);
  return found == stash_.end() ? kNone : found->second;
}

std::uint64_t RowIndex::first_hash(std::uint64_t at) const {
  const bool is_old = at < boundary_ + RowBucket::kReachMax + 1 && boundary_ > 0;
  return (at - std::min<std::uint64_t>(at, RowBucket::kReachMax)) * (is_old ? old_width_ : width_);
}

std::uint64_t RowIndex::hash_at(std::uint64_t at, std::uint32_t slot) const {
  return hash_in(table()[at], slot, first_hash(at));
}

RowIndex::Place RowIndex::place_of(std::uint64_t home, std::uint64_t hash) const {
  const std::uint32_t reach = table()[home].reach();
  for (std::uint32_t i = 0; i <= std::min(reach, RowBucket::kReachMax); ++i) {
    const RowBucket& bucket = table()[home + i];
    for (std::uint32_t found = bucket.candidates(hash); found != 0; found &= found - 1) {
      const auto slot = static_cast<std::uint32_t>(std::countr_zero(found));
      if (is_at(bucket, slot, hash)) return {home + i, slot};
    }
  }
  return {home, kNone};
}

void RowIndex::remove_slot(RowBucket& bucket, std::uint32_t slot) {
  const std::uint32_t last = bucket.count() - 1;
  bucket.set_low(slot, bucket.low(last));
  bucket.numbers[slot] = bucket.numbers[last];
  bucket.set_count(last);
  --size_;
}

void RowIndex::tighten(std::uint64_t of) {
  RowBucket& first = table()[of];
  if (first.reach() == RowBucket::kReachStash) return;
  for (std::uint32_t i = first.reach(); i > 0; --i) {
    const RowBucket& bucket = table()[of + i];
    for (std::uint32_t slot = 0; slot < bucket.count(); ++slot) {
      if (home(hash_at(of + i, slot)) == of) return first.set_reach(i);
    }
  }
  first.set_reach(0);
}

// Of the homes in [begin, end), to moving_.
void RowIndex::take_stashed(std::uint64_t begin, std::uint64_t end) {
  for (auto it = stash_.lower_bound(begin * old_width_); it != stash_.end();) {
    const std::uint64_t home = scale(it->first, old_buckets_);
    if (home >= end) return;
    if (home < begin) {
      ++it;
      continue;
    }
    moving_.push_back({it->first, it->second});
    it = stash_.erase(it);
    --size_;
  }
}

// Takes the ids of the last homes that still count in old_buckets_ to their new homes, which are
// not below theirs.
void RowIndex::move_homes() {
  moving_.clear();
  const std::uint64_t begin = boundary_ <= kHomesInLastMove ? 0 : boundary_ - kHomesPerMove;
  std::uint64_t last = boundary_ - 1;
  bool has_stashed = false;
  for (std::uint64_t at = begin; at <= last; ++at) {
    RowBucket& bucket = table()[at];
    if (at < boundary_ && bucket.meta != 0) {
      has_stashed = has_stashed || bucket.reach() == RowBucket::kReachStash;
      last = std::max(last, at + std::min(bucket.reach(), RowBucket::kReachMax));
      bucket.set_reach(0);
    }
    const std::uint64_t first = first_hash(at);
    const bool has_others = at < begin + RowBucket::kReachMax || at >= boundary_;
    std::uint32_t kept = 0;
    for (std::uint32_t slot = 0; slot < bucket.count(); ++slot) {
      const Moved moved{hash_in(bucket, slot, first), number_of(bucket, slot)};
      // Others are passed by from below, or wait for their own move.
      const std::uint64_t home = has_others ? scale(moved.hash, old_buckets_) : begin;
      if (home >= begin && home < boundary_) {
        moving_.push_back(moved);
      } else {
        bucket.set_low(kept, moved.hash);
        bucket.numbers[kept++] = bucket.numbers[slot];
      }
    }
    size_ -= bucket.count() - kept;
    bucket.set_count(kept);
  }
  if (has_stashed) take_stashed(begin, boundary_);
  const std::uint64_t places_end = std::min(scale(boundary_ * old_width_, buckets_), end_);
  for (std::uint64_t at = scale(begin * old_width_, buckets_); at < places_end; ++at) {
    touch(&table()[at]);
  }
  boundary_ = begin;
  for (const Moved& moved : moving_) {
    const std::uint64_t home = scale(moved.hash, buckets_);
    if (!put(table()[home], moved.hash, moved.number)) {
      insert_behind(home, moved.hash, moved.number);
    }
    end_ = std::max(end_, home + 1);
  }
  size_ += moving_.size();
}

void RowIndex::assign(std::uint64_t id, std::uint32_t number) {
  const std::uint64_t hash = hash_of(id);
  const Place place = place_of(home(hash), hash);
  if (place.slot != kNone) return set_number(table()[place.at], place.slot, hash, number);
  const auto stashed = stash_.find(hash);
  PADDLE_CHECK(stashed != stash_.end());
  stashed->second = number;
}

void RowIndex::erase(std::uint64_t id) {
  const std::uint64_t hash = hash_of(id);
  const std::uint64_t begin = home(hash);
  const Place place = place_of(begin, hash);
  if (place.slot == kNone) {
    PADDLE_CHECK(stash_.erase(hash) == 1);
    --size_;
    return;
  }
  remove_slot(table()[place.at], place.slot);
  if (place.at > begin && place.at == begin + table()[begin].reach()) tighten(begin);
}

Status RowIndex::fit() {
  if (boundary_ == 0 && size_ * 2 > ids_max(buckets_)) return {};
  RowIndex fresh(numbers_, preparer_);
  PADDLE_TRY_STATUS(fresh.reserve(size_));
  fresh.make_room(size_);
  for_each([&fresh](std::uint64_t id, std::uint32_t number) { fresh.insert(id, number); });
  *this = std::move(fresh);
  return {};
}

void RowIndex::scan(std::uint64_t from, std::uint64_t wanted, std::vector<Entry>& entries) const {
  if (size_ == 0) return;
  const std::size_t begin = entries.size();
  const auto add = [&](std::uint64_t hash, std::uint32_t number) {
    if (hash >= from) entries.push_back({hash, id_of(hash), number});
  };
  std::uint64_t reached = 0;  // no id of the homes seen lies behind it
  std::uint64_t at = home(from);
  for (; at < end_; ++at) {
    const RowBucket& bucket = table()[at];
    for (std::uint32_t slot = 0; slot < bucket.count(); ++slot) {
      add(hash_at(at, slot), number_of(bucket, slot));
    }
    reached = std::max(reached, at + std::min(bucket.reach(), RowBucket::kReachMax));
    if (reached == at && entries.size() - begin >= wanted) break;
  }
  for (auto it = stash_.lower_bound(from); it != stash_.end() && home(it->first) <= at; ++it) {
    add(it->first, it->second);
  }
  std::sort(entries.begin() + static_cast<std::ptrdiff_t>(begin), entries.end(),
            [](const Entry& a, const Entry& b) { return a.position < b.position; });
}

}  // namespace paddle::pserver

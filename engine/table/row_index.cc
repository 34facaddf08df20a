#include "engine/table/row_index.h"

#include <limits>
#include <span>
#include <utility>

namespace paddle::table {
namespace {

constexpr std::uint64_t kBucketsMin = 16;
constexpr std::uint64_t kDoubleBelow = 4096;    // buckets; a smaller table doubles
constexpr std::uint64_t kHugeFrom = 1U << 18U;  // buckets
constexpr std::uint64_t kBucketsPerExtent = MemoryRegion::kHugePageBytes / sizeof(RowBucket);
// Buckets behind the last home, for ids that overflow it; from kHugeFrom on in the same huge page.
constexpr std::uint64_t kSpare = 512;
constexpr std::uint64_t kMovesPerInsert = 6;  // homes; lookups are slower while the table grows
constexpr std::uint64_t kHomesPerMove = 256;  // their buckets stay in the cache
// The last homes move at once, so that old and new positions are always far apart.
constexpr std::uint64_t kHomesInLastMove = 1024;
// The table prepares to grow when this part of the ids is still free.
constexpr std::uint64_t kSoon = 64;

// A large table grows by three tenths, less what rounding down to whole huge pages takes off. An id
// is then moved about three times for each id that is inserted.
constexpr std::uint64_t growth(std::uint64_t buckets) {
  return buckets * 3 / 10;
}
// A table grows by an eighth at least, and between two moves it has at least (kHomesInLastMove -
// kHomesPerMove) old homes, so old and new positions are far enough apart.
static_assert((kHomesInLastMove - kHomesPerMove) / 8 > 2 * RowBucket::kReachMax);
static_assert(kSpare > RowBucket::kReachMax);

// The most ids for so many buckets: 80 % of the slots. After growing, 61.5 % of them are used,
// which is 14.9 bytes an id.
std::uint64_t ids_max(std::uint64_t buckets) {
  return buckets * RowBucket::kSlots * 80 / 100;
}

std::uint64_t grown(std::uint64_t buckets) {
  const std::uint64_t next = buckets + std::max(growth(buckets), std::min(buckets, kDoubleBelow));
  if (next < kHugeFrom) return next;
  // Whole huge pages, with the spare buckets in the last one.
  return (next + kSpare) / kBucketsPerExtent * kBucketsPerExtent - kSpare;
}

}  // namespace

// A slot stores a number below the count of slots, and the part of the hash that its bucket's
// position does not imply: at least 72 - log2(2 * 7 * count) bits. These identify a hash, since 18
// homes have fewer different hashes, and an id lies in one of 15 buckets; rounding the width adds
// less than one.
RowIndex::Homes::Homes(std::uint64_t count)
    : buckets(count),
      width(std::numeric_limits<std::uint64_t>::max() / count),
      number_bits(static_cast<unsigned>(std::bit_width(count * RowBucket::kSlots))) {
  static_assert((1U << (RowBucket::kSlotBits - 64)) / (2 * RowBucket::kSlots) >=
                RowBucket::kReachMax + 2);
}

RowIndex::RowIndex(MemoryPreparer* preparer)
    : preparer_(preparer), memory_(kHugeFrom * sizeof(RowBucket), preparer) {}

std::uint64_t RowIndex::bytes() const {
  constexpr std::uint64_t kStashedBytes = 64;
  return memory_.resident(std::max(end_, now_.buckets) * sizeof(RowBucket)) +
         stash_.size() * kStashedBytes;
}

Status RowIndex::reserve(std::uint64_t count) {
  memory_.promote(now_.buckets * sizeof(RowBucket));
  std::uint64_t buckets = std::max(now_.buckets, kBucketsMin);
  while (ids_max(buckets) < size_ + count) buckets = grown(buckets);
  return memory_.reserve((std::max(end_, buckets) + kSpare) * sizeof(RowBucket));
}

void RowIndex::start_growing() {
  before_ = now_;
  now_ = Homes(now_.buckets == 0 ? kBucketsMin : grown(now_.buckets));
  boundary_ = size_ == 0 ? 0 : before_.buckets;
  old_end_ = boundary_ == 0 ? 0 : boundary_ + RowBucket::kReachMax + 1;
  memory_.populate((now_.buckets + kSpare) * sizeof(RowBucket));
  homes_due_ = kHomesPerMove;  // the first move comes at once; it moves all of a small table
}

void RowIndex::make_room(std::uint64_t count) {
  while (size_ + count > ids_max(now_.buckets)) {
    while (boundary_ > 0) move_homes();
    start_growing();
  }
  homes_due_ += count * kMovesPerInsert;
  for (; boundary_ > 0 && homes_due_ >= kHomesPerMove; homes_due_ -= kHomesPerMove) move_homes();
}

// Homes are moved from the last one down, at first into the new memory above the old buckets.
void RowIndex::prepare(std::size_t bytes) {
  std::uint64_t begin = before_.buckets;
  std::uint64_t end = scale(boundary_ * before_.width, now_.buckets);
  if (boundary_ == 0) {
    if (size_ < ids_max(now_.buckets) / kSoon * (kSoon - 1)) return;
    begin = now_.buckets;
    end = grown(now_.buckets) + kSpare;
  }
  const std::uint64_t first = end - std::min(end, bytes / sizeof(RowBucket));
  memory_.prepare(std::max(begin, first) * sizeof(RowBucket), end * sizeof(RowBucket));
}

void RowIndex::set(std::uint64_t at, std::uint32_t slot, std::uint64_t hash, std::uint32_t number) {
  const unsigned bits = number_bits(at);
  PADDLE_CHECK(std::uint64_t{number} >> bits == 0);
  table()[at].set(slot, hash, number, bits);
}

// Puts an id into a bucket; false when it is full.
inline bool RowIndex::put_in(RowBucket& bucket, std::uint64_t hash, std::uint32_t number,
                             unsigned bits) {
  const std::uint32_t slot = bucket.count();
  if (slot == RowBucket::kSlots) return false;
  bucket.set(slot, hash, number, bits);
  bucket.set_count(slot + 1);
  return true;
}

inline void RowIndex::put(std::uint64_t home, std::uint64_t hash, std::uint32_t number,
                          unsigned bits) {
  end_ = std::max(end_, home + 1);
  if (!put_in(table()[home], hash, number, bits)) put_overflow(home, hash, number, bits);
}

// Puts an id whose home is full.
void RowIndex::put_overflow(std::uint64_t home, std::uint64_t hash, std::uint32_t number,
                            unsigned bits) {
  RowBucket& first = table()[home];
  for (std::uint32_t i = 1; i <= RowBucket::kReachMax; ++i) {
    if (!put_in(table()[home + i], hash, number, bits)) continue;
    if (i > first.reach()) first.set_reach(i);
    end_ = std::max(end_, home + i + 1);
    return;
  }
  stash_[hash] = number;
  first.set_reach(RowBucket::kReachStash);
}

void RowIndex::insert_at(std::uint64_t home, std::uint64_t hash, std::uint32_t number) {
  const unsigned bits = number_bits(home);
  PADDLE_CHECK(std::uint64_t{number} >> bits == 0);
  put(home, hash, number, bits);
  ++size_;
  ++version_;
}

std::uint32_t RowIndex::find_overflow(std::uint64_t home, std::uint64_t hash) const {
  const std::uint32_t reach = table()[home].reach();
  const unsigned bits = number_bits(home);
  for (std::uint32_t i = 1; i <= std::min(reach, RowBucket::kReachMax); ++i) {
    const std::uint32_t number = find_in(table()[home + i], hash, bits);
    if (number != kNone) return number;
  }
  if (reach < RowBucket::kReachStash) return kNone;
  const auto found = stash_.find(hash);
  return found == stash_.end() ? kNone : found->second;
}

std::uint64_t RowIndex::first_hash(std::uint64_t at) const {
  return (at - std::min<std::uint64_t>(at, RowBucket::kReachMax)) * homes(at).width;
}

// The smallest hash from `first` on that ends in the stored bits.
inline std::uint64_t whole_hash(const RowBucket& bucket, std::uint32_t slot, std::uint64_t first,
                                unsigned number_bits) {
  const unsigned missing = 64 - RowBucket::stored_bits(number_bits);
  return first + ((bucket.hash(slot, number_bits) - first) << missing >> missing);
}

std::uint64_t RowIndex::hash_at(std::uint64_t at, std::uint32_t slot) const {
  return whole_hash(table()[at], slot, first_hash(at), number_bits(at));
}

RowIndex::Slot RowIndex::slot_of(std::uint64_t home, std::uint64_t hash) const {
  const std::uint32_t reach = table()[home].reach();
  const unsigned bits = number_bits(home);
  for (std::uint32_t i = 0; i <= std::min(reach, RowBucket::kReachMax); ++i) {
    const RowBucket& bucket = table()[home + i];
    for (std::uint32_t found = bucket.candidates(hash); found != 0; found &= found - 1) {
      const auto slot = static_cast<std::uint32_t>(std::countr_zero(found));
      if (bucket.number_if(slot, hash, bits) >> bits == 0) return {home + i, slot};
    }
  }
  return {home, kNone};
}

void RowIndex::remove_slot(RowBucket& bucket, std::uint32_t slot) {
  const std::uint32_t last = bucket.count() - 1;
  bucket.copy_slot(last, slot);
  bucket.set_count(last);
}

void RowIndex::shorten_reach(std::uint64_t of) {
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

// Moves the ids of homes `begin` to boundary_ out of their buckets to moving_; returns their count.
std::size_t RowIndex::take_ids(std::uint64_t begin) {
  const unsigned bits = before_.number_bits;
  std::uint64_t last = boundary_ - 1;
  moving_.resize(std::max<std::size_t>(
      moving_.size(), (boundary_ - begin + RowBucket::kReachMax) * RowBucket::kSlots));
  std::size_t taken = 0;
  bool has_stashed = false;
  for (std::uint64_t at = begin; at <= last; ++at) {
    RowBucket& bucket = table()[at];
    if (at < boundary_) {
      has_stashed = has_stashed || bucket.reach() == RowBucket::kReachStash;
      last = std::max(last, at + std::min(bucket.reach(), RowBucket::kReachMax));
      bucket.set_reach(0);
    }
    const std::uint64_t first = first_hash(at);
    const auto take = [&](std::uint32_t slot) {
      return Moved{whole_hash(bucket, slot, first, bits), bucket.number(slot, bits)};
    };
    std::uint32_t kept = 0;
    if (at >= begin + RowBucket::kReachMax && at < boundary_) {
      // All slots, without a branch on their count.
      for (std::uint32_t slot = 0; slot < RowBucket::kSlots; ++slot) {
        moving_[taken + slot] = take(slot);
      }
      taken += bucket.count();
    } else {
      for (std::uint32_t slot = 0; slot < bucket.count(); ++slot) {
        const Moved moved = take(slot);
        // Ids of homes below `begin` stay for a later move.
        if (scale(moved.hash, before_.buckets) >= begin) {
          moving_[taken++] = moved;
        } else {
          bucket.copy_slot(slot, kept++);
        }
      }
    }
    bucket.set_count(kept);
  }
  return has_stashed ? take_stashed(begin, taken) : taken;
}

// Appends stashed ids of these homes after the first `taken`; returns the new count.
std::size_t RowIndex::take_stashed(std::uint64_t begin, std::size_t taken) {
  for (auto it = stash_.lower_bound(begin * before_.width); it != stash_.end();) {
    const std::uint64_t home = scale(it->first, before_.buckets);
    if (home >= boundary_) break;
    if (home < begin) {
      ++it;
      continue;
    }
    if (taken == moving_.size()) moving_.emplace_back();
    moving_[taken++] = {it->first, it->second};
    it = stash_.erase(it);
  }
  return taken;
}

// Moves the ids of the last old homes to their new homes, which are not below the old ones.
void RowIndex::move_homes() {
  const std::uint64_t begin = boundary_ <= kHomesInLastMove ? 0 : boundary_ - kHomesPerMove;
  const std::size_t taken = take_ids(begin);
  // Skips freshly mapped pages: a read would fault in the zero page and the write fault again.
  const std::uint64_t places_end =
      std::min(scale(boundary_ * before_.width, now_.buckets), before_.buckets);
  for (std::uint64_t at = scale(begin * before_.width, now_.buckets); at < places_end; ++at) {
    load_line(&table()[at]);
  }
  boundary_ = begin;
  old_end_ = boundary_ == 0 ? 0 : boundary_ + RowBucket::kReachMax + 1;
  for (const Moved& moved : std::span(moving_).first(taken)) {
    put(scale(moved.hash, now_.buckets), moved.hash, moved.number, now_.number_bits);
  }
}

void RowIndex::erase(std::uint64_t id) {
  const std::uint64_t hash = hash_of(id);
  const std::uint64_t begin = home(hash);
  const Slot place = slot_of(begin, hash);
  --size_;
  ++version_;
  if (place.slot == kNone) {
    PADDLE_CHECK(stash_.erase(hash) == 1);
    return;
  }
  remove_slot(table()[place.at], place.slot);
  if (place.at > begin && place.at == begin + table()[begin].reach()) shorten_reach(begin);
}

Status RowIndex::fit() {
  if (boundary_ == 0 && size_ * 2 > ids_max(now_.buckets)) return {};
  RowIndex fresh(preparer_);
  PADDLE_TRY_STATUS(fresh.reserve(size_));
  fresh.make_room(size_);
  for_each([&fresh](std::uint64_t id, std::uint32_t number) { fresh.insert(id, number); });
  fresh.version_ = version_ + 1;
  *this = std::move(fresh);
  return {};
}

void RowIndex::scan(std::uint64_t from, std::uint64_t wanted, std::vector<Entry>& entries) const {
  const std::size_t begin = entries.size();
  visit_from(from, wanted, [&entries](std::uint64_t position, std::uint32_t number) {
    entries.push_back({position, id_of(position), number});
  });
  std::sort(entries.begin() + static_cast<std::ptrdiff_t>(begin), entries.end(),
            [](const Entry& a, const Entry& b) { return a.position < b.position; });
}

}  // namespace paddle::table

// Index from ids to row numbers: a flat hash table of 64-byte buckets that grows in place, a little
// with every insertion, so that no single insertion is slow.
//
// Buckets are ordered by the ids' hash (home = hash * buckets / 2^64), so growing means moving each
// id a little further up, from the last bucket to the first, within the same memory; and a scan in
// bucket order has an order that depends on the ids alone. An id whose home is full lies a few
// buckets behind it, or, where those are full too, in a stash.
//
// The hash is a bijection, and the position of a bucket implies its upper bits: as the table grows,
// numbers take more of a slot's 72 bits and fewer bits of the hash suffice to identify the id.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <vector>

#include "base/rng.h"
#include "engine/math/region.h"
#include "engine/math/row_access.h"

namespace paddle::table {

constexpr std::uint64_t kHashSpread = 0x9e3779b97f4a7c15ULL;  // also the increment of mix64

// The hash of a row's id in an index, a bijection: the id follows from it. Ids of one shard share a
// remainder of mix64(id); the product's upper bits depend on all others.
inline std::uint64_t hash_of_id(std::uint64_t id) {
  return mix64(id) * kHashSpread;
}

constexpr std::uint64_t inverse(std::uint64_t odd) {
  std::uint64_t x = odd;  // its last 3 bits are right; each step doubles the right bits
  for (int i = 0; i < 5; ++i) x *= 2 - odd * x;
  return x;
}

constexpr std::uint64_t unshift(std::uint64_t x, unsigned by) {
  std::uint64_t result = x;
  for (unsigned done = by; done < 64; done += by) result = x ^ (result >> by);
  return result;
}

// The inverse of hash_of_id().
inline std::uint64_t id_of_hash(std::uint64_t hash) {
  std::uint64_t x = unshift(hash * inverse(kHashSpread), 31);
  x = unshift(x * inverse(0x94d049bb133111ebULL), 27);
  x = unshift(x * inverse(0xbf58476d1ce4e5b9ULL), 30);
  return x - kHashSpread;
}

// One cache line of a RowIndex: seven ids with their numbers. An id is stored as the part of its
// hash that the position of the line does not imply.
struct alignas(64) RowBucket {
  static constexpr std::uint32_t kSlots = 7;
  static constexpr unsigned kSlotBits = 72;  // for a hash and a number
  // The most buckets that an id may lie behind its home.
  static constexpr std::uint32_t kReachMax = 14;
  static constexpr std::uint32_t kReachStash = 15;  // as a reach: some ids are in the index's stash

  std::array<std::uint32_t, kSlots> words;  // hash bits 0 to 31
  std::array<std::uint32_t, kSlots> rests;  // the number and above it hash bits 32 and up,
  std::array<std::uint8_t, kSlots> tops;    // 40 bits in all
  std::uint8_t meta;                        // count of slots in use, the first ones; reach << 3

  std::uint32_t count() const { return meta & 7U; }
  // No id whose home is this bucket lies further behind it, so a search ends there.
  std::uint32_t reach() const { return meta >> 3U; }
  void set_count(std::uint32_t count) { meta = static_cast<std::uint8_t>((meta & ~7U) | count); }
  void set_reach(std::uint32_t reach) {
    meta = static_cast<std::uint8_t>((meta & 7U) | reach << 3U);
  }

  std::uint64_t rest(std::uint32_t slot) const {
    return rests[slot] | static_cast<std::uint64_t>(tops[slot]) << 32U;
  }
  // `number_bits`: how many bits of the rest belong to the number.
  std::uint32_t number(std::uint32_t slot, unsigned number_bits) const {
    return static_cast<std::uint32_t>(rest(slot) & ((std::uint64_t{1} << number_bits) - 1));
  }
  void set(std::uint32_t slot, std::uint64_t hash, std::uint32_t number, unsigned number_bits) {
    const std::uint64_t rest = number | (hash >> 32U) << number_bits;
    words[slot] = static_cast<std::uint32_t>(hash);
    rests[slot] = static_cast<std::uint32_t>(rest);
    tops[slot] = static_cast<std::uint8_t>(rest >> 32U);
  }
  void copy_slot(std::uint32_t from, std::uint32_t to) {
    words[to] = words[from];
    rests[to] = rests[from];
    tops[to] = tops[from];
  }
  // The lower stored_bits() bits of the hash.
  std::uint64_t hash(std::uint32_t slot, unsigned number_bits) const {
    return words[slot] | rest(slot) >> number_bits << 32U;
  }
  static constexpr unsigned stored_bits(unsigned number_bits) {
    return std::min(kSlotBits - number_bits, 64U);
  }
  // The row number if the slot holds `hash`, else a value >= 1 << number_bits.
  std::uint64_t number_if(std::uint32_t slot, std::uint64_t hash, unsigned number_bits) const {
    constexpr std::uint64_t kRestMask = (std::uint64_t{1} << (kSlotBits - 32)) - 1;
    return (rest(slot) ^ (hash >> 32U) << number_bits) & kRestMask;
  }
  // A bit for each slot whose lower 32 hash bits are those of `hash`.
  std::uint32_t candidates(std::uint64_t hash) const {
    const auto word = static_cast<std::uint32_t>(hash);
#ifdef __SSE2__
    const __m128i wanted = _mm_set1_epi32(static_cast<int>(word));
    const auto match = [&](__m128i four) {
      return static_cast<std::uint32_t>(
          _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(four, wanted))));
    };
    const std::uint32_t found =
        match(_mm_load_si128(reinterpret_cast<const __m128i*>(words.data()))) |
        match(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words.data() + 3))) << 3U;
#else
    std::uint32_t found = 0;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      found |= static_cast<std::uint32_t>(words[slot] == word) << slot;
    }
#endif
    return found & ((1U << count()) - 1);
  }
};
static_assert(sizeof(RowBucket) == 64);

class RowIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  explicit RowIndex(MemoryPreparer* preparer = nullptr);

  std::uint64_t size() const { return size_; }
  // Rises with every insertion, erasure and for_each(). Numbers that were found stay valid as long
  // as the version is the same.
  std::uint64_t version() const { return version_; }
  std::uint64_t bytes() const;  // memory in use

  // Reserves address space for `count` more ids. kResource as MemoryRegion.
  Status reserve(std::uint64_t count);
  // Called before up to `count` reserved insertions: moves ids for them if the table is growing.
  // Invalidates homes.
  void make_room(std::uint64_t count);
  // Prepares up to `bytes` of the memory that ids move to next, if the table grows or soon will.
  void prepare(std::size_t bytes);

  // A lookup in steps, so that the memory of many ids is fetched at once. REQUIRES: the index is
  // not empty.
  static std::uint64_t hash_of(std::uint64_t id) { return hash_of_id(id); }
  std::uint64_t home(std::uint64_t hash) const {
    // Branchless: while the index grows, which of the two applies is unpredictable.
    const std::uint64_t new_home = scale(hash, now_.buckets);
    const std::uint64_t old_home = scale(hash, before_.buckets);
    const std::uint64_t is_old = 0 - static_cast<std::uint64_t>(old_home < boundary_);
    return new_home ^ ((new_home ^ old_home) & is_old);
  }
  void load_home(std::uint64_t home) const { load_line(&table()[home]); }
  void prefetch_home(std::uint64_t home) const { prefetch(&table()[home]); }
  // Prefetches the buckets of nearly all ids that overflowed this home.
  void prefetch_overflow(std::uint64_t home) const {
    prefetch(&table()[home + 1]);
    if (table()[home].reach() > 1) prefetch(&table()[home + 2]);
  }
  // Loads the first buckets of ids that overflowed this home.
  void load_overflow(std::uint64_t home) const {
    load_line(&table()[home + 1]);
    load_line(&table()[home + std::min(table()[home].reach(), 2U)]);
  }
  // Loads the bucket where an absent id is nearly always inserted. Branchless, since whether a home
  // is full is unpredictable.
  void load_room(std::uint64_t home) const {
    const auto is_full = static_cast<std::uint64_t>(table()[home].count() == RowBucket::kSlots);
    load_line(&table()[home + is_full]);
    load_line(&table()[home + 2 * is_full]);
  }
  // The id's number, or kNone.
  std::uint32_t find_at(std::uint64_t home, std::uint64_t hash) const {
    const std::uint32_t number = find_home(home, hash);
    return number != kNone || !overflows(home) ? number : find_overflow(home, hash);
  }
  // find_at() in two steps. The second is for the few ids that the first does not find and whose
  // home overflows.
  [[gnu::always_inline]] std::uint32_t find_home(std::uint64_t home, std::uint64_t hash) const {
    const RowBucket& bucket = table()[home];
    const std::uint32_t found = bucket.candidates(hash);
    const unsigned bits = number_bits(home);
    if ((found & (found - 1)) != 0) [[unlikely]]
      return find_in(bucket, hash, bits);
    // Branchless: whether an id lies in its home is unpredictable.
    const auto slot = static_cast<std::uint32_t>(std::countr_zero(found | 1U << 8U)) & 7U;
    const std::uint64_t number = bucket.number_if(slot, hash, bits);
    const std::uint32_t is_here =
        static_cast<std::uint32_t>(found != 0) & static_cast<std::uint32_t>(number >> bits == 0);
    return static_cast<std::uint32_t>(number) | (is_here - 1);
  }
  bool overflows(std::uint64_t home) const { return table()[home].reach() > 0; }
  std::uint32_t find_overflow(std::uint64_t home, std::uint64_t hash) const;
  std::uint32_t find(std::uint64_t id) const {
    const std::uint64_t hash = hash_of(id);
    return find_at(home(hash), hash);
  }

  // REQUIRES: the id is absent, make_room() was called for it, and the number is below the largest
  // size() since the last fit().
  void insert_at(std::uint64_t home, std::uint64_t hash, std::uint32_t number);
  void insert(std::uint64_t id, std::uint32_t number) {
    const std::uint64_t hash = hash_of(id);
    insert_at(home(hash), hash, number);
  }
  // REQUIRES: the id is present.
  void erase(std::uint64_t id);
  // Shrinks the table if it is far larger than the ids need. REQUIRES: numbers are below size().
  Status fit();

  // Calls visit(id, number) in no particular order; `visit` may change the number.
  template <class Visit>
  void for_each(Visit visit) {
    ++version_;
    for (std::uint64_t at = 0; at < end_; ++at) {
      RowBucket& bucket = table()[at];
      for (std::uint32_t slot = 0; slot < bucket.count(); ++slot) {
        const std::uint64_t hash = hash_at(at, slot);
        std::uint32_t number = bucket.number(slot, number_bits(at));
        visit(id_of_hash(hash), number);
        set(at, slot, hash, number);
      }
    }
    for (auto& [hash, number] : stash_) visit(id_of_hash(hash), number);
  }

  struct Entry {
    std::uint64_t position = 0;  // in the order of the scan; unique to the id
    std::uint64_t id = 0;
    std::uint32_t number = 0;
  };
  // Appends entries by rising position, which depends on the id alone: from position `from` on, at
  // least `wanted` if there are as many. A scan continues at the last position + 1.
  void scan(std::uint64_t from, std::uint64_t wanted, std::vector<Entry>& entries) const;
  static std::uint64_t id_of(std::uint64_t position) { return id_of_hash(position); }
  // Visits the same entries in no particular order, as visit(position, number). Returns the
  // position to continue from, 0 at the end.
  template <class Visit>
  std::uint64_t visit_from(std::uint64_t from, std::uint64_t wanted, Visit visit) const {
    if (size_ == 0) return 0;
    std::uint64_t visited = 0;
    std::uint64_t last = from;
    const auto pass = [&](std::uint64_t hash, std::uint32_t number) {
      if (hash < from) return;
      ++visited;
      last = std::max(last, hash);
      visit(hash, number);
    };
    std::uint64_t reached = 0;  // no id of the homes seen lies beyond it
    std::uint64_t at = home(from);
    for (; at < end_; ++at) {
      const RowBucket& bucket = table()[at];
      for (std::uint32_t slot = 0; slot < bucket.count(); ++slot) {
        pass(hash_at(at, slot), bucket.number(slot, number_bits(at)));
      }
      reached = std::max(reached, at + std::min(bucket.reach(), RowBucket::kReachMax));
      if (reached == at && visited >= wanted) break;
    }
    for (auto it = stash_.lower_bound(from); it != stash_.end() && home(it->first) <= at; ++it) {
      pass(it->first, it->second);
    }
    return at < end_ ? last + 1 : 0;
  }

 private:
  // Quantities derived from the number of homes.
  struct Homes {
    Homes() = default;
    explicit Homes(std::uint64_t count);
    std::uint64_t buckets = 0;
    std::uint64_t width = 0;  // hashes per home, rounded down
    unsigned number_bits = 0;
  };

  static std::uint64_t scale(std::uint64_t hash, std::uint64_t buckets) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(hash) * buckets) >> 64U);
  }

  // The homes that apply to a bucket's ids.
  const Homes& homes(std::uint64_t at) const { return at < old_end_ ? before_ : now_; }
  unsigned number_bits(std::uint64_t at) const {
    const unsigned is_old = 0U - static_cast<unsigned>(at < old_end_);
    return now_.number_bits ^ ((now_.number_bits ^ before_.number_bits) & is_old);
  }
  void set(std::uint64_t at, std::uint32_t slot, std::uint64_t hash, std::uint32_t number);
  static std::uint32_t find_in(const RowBucket& bucket, std::uint64_t hash, unsigned bits) {
    for (std::uint32_t found = bucket.candidates(hash); found != 0; found &= found - 1) {
      const auto slot = static_cast<std::uint32_t>(std::countr_zero(found));
      const std::uint64_t number = bucket.number_if(slot, hash, bits);
      if (number >> bits == 0) return static_cast<std::uint32_t>(number);
    }
    return kNone;
  }

  struct Slot {
    std::uint64_t at;
    std::uint32_t slot;  // kNone: in the stash
  };
  // The slot of an id that is present.
  Slot slot_of(std::uint64_t home, std::uint64_t hash) const;
  // The smallest hash that may lie in a bucket.
  std::uint64_t first_hash(std::uint64_t at) const;
  // The whole hash of an occupied slot.
  std::uint64_t hash_at(std::uint64_t at, std::uint32_t slot) const;
  static void remove_slot(RowBucket& bucket, std::uint32_t slot);
  // Recomputes the reach of a home after one of its ids was erased.
  void shorten_reach(std::uint64_t of);
  static bool put_in(RowBucket& bucket, std::uint64_t hash, std::uint32_t number, unsigned bits);
  void put(std::uint64_t home, std::uint64_t hash, std::uint32_t number, unsigned bits);
  void put_overflow(std::uint64_t home, std::uint64_t hash, std::uint32_t number, unsigned bits);
  void start_growing();
  void move_homes();
  std::size_t take_ids(std::uint64_t begin);
  std::size_t take_stashed(std::uint64_t begin, std::size_t taken);

  struct Moved {
    std::uint64_t hash;
    std::uint32_t number;
  };

  RowBucket* table() const { return reinterpret_cast<RowBucket*>(memory_.data()); }

  MemoryPreparer* preparer_;
  MemoryRegion memory_;
  std::uint64_t size_ = 0;
  std::uint64_t version_ = 0;
  Homes now_;                    // ids that overflow the last home lie behind it
  Homes before_;                 // for ids whose old home is below boundary_
  std::uint64_t boundary_ = 0;   // 0: all have moved
  std::uint64_t old_end_ = 0;    // buckets below it contain only ids of such homes
  std::uint64_t homes_due_ = 0;  // number of homes to move
  std::uint64_t end_ = 0;        // no bucket from here on was ever used
  std::map<std::uint64_t, std::uint32_t>
      stash_;  // by hash; empty unless ids were chosen to collide
  std::vector<Moved> moving_;
};

}  // namespace paddle::table

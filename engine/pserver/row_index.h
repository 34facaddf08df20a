// Which number an id has: a flat hash table of 64-byte buckets that grows in place, a little with
// every insertion, so that no single one is slow.
//
// A bucket holds five ids, their numbers, and how many ids went past it because it was full; an
// absent id's search ends at the first bucket that nothing went past. Buckets are ordered by the
// ids' hash (home = hash * buckets / 2^64), so growing means moving each id a little further up,
// from the last bucket to the first, within the same memory; and a scan in bucket order has an
// order that depends on the ids alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/rng.h"
#include "engine/pserver/memory_region.h"

namespace paddle::pserver {

class RowIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::uint32_t kSlots = 5;

  RowIndex();

  std::uint64_t size() const { return size_; }
  std::uint64_t bytes() const;  // of memory

  // Address space for `count` more ids. kResource as MemoryRegion.
  Status reserve(std::uint64_t count);
  // Before up to `count` insertions that are reserved: a share of the growing. Homes computed
  // before are void.
  void make_room(std::uint64_t count);

  // In three steps, so that the memory of many ids is fetched at once.
  std::uint64_t home(std::uint64_t id) const {
    const std::uint64_t hash = hash_of(id);
    const std::uint64_t old_home = scale(hash, old_buckets_);
    return old_home < boundary_ ? old_home : scale(hash, buckets_);
  }
  void prefetch(std::uint64_t home) const { __builtin_prefetch(&table()[home], 0, 3); }
  // The id's number or kNone.
  std::uint32_t find_at(std::uint64_t home, std::uint64_t id) const {
    const Bucket* bucket = &table()[home];
    for (;; ++bucket) {
      const std::uint32_t slot = slot_of(*bucket, id);
      if (slot < bucket->count) return bucket->numbers[slot];
      if (bucket->passed == 0) return kNone;
    }
  }
  std::uint32_t find(std::uint64_t id) const { return find_at(home(id), id); }

  // The id must be absent, and make_room() must have been called for it.
  void insert_at(std::uint64_t home, std::uint64_t id, std::uint32_t number);
  void insert(std::uint64_t id, std::uint32_t number) { insert_at(home(id), id, number); }
  // The id must be present.
  void assign(std::uint64_t id, std::uint32_t number);
  void erase(std::uint64_t id);
  // Gives memory back when far more is held than the ids need.
  Status fit();

  // visit(id, number): in no order; it may change the number.
  template <class Visit>
  void for_each(Visit visit) {
    for (std::uint64_t at = 0; at < end_; ++at) {
      Bucket& bucket = table()[at];
      for (std::uint32_t i = 0; i < bucket.count; ++i) visit(bucket.ids[i], bucket.numbers[i]);
    }
  }

  struct Entry {
    std::uint64_t position = 0;  // in the order of the scan; unique to the id
    std::uint64_t id = 0;
    std::uint32_t number = 0;
  };
  // Entries by rising position, which depends on the id alone: those at `from` and after, at least
  // `wanted` where there are as many. Appends; a scan goes on at the last position + 1.
  void scan(std::uint64_t from, std::uint64_t wanted, std::vector<Entry>& entries) const;

 private:
  struct alignas(64) Bucket {
    std::array<std::uint64_t, kSlots> ids;
    std::array<std::uint32_t, kSlots> numbers;
    std::uint16_t count;   // slots in use: the first ones
    std::uint16_t passed;  // ids that went on to a later bucket
  };
  static_assert(sizeof(Bucket) == 64);

  // Ids of one shard share a remainder of mix64(id); the product's upper bits depend on all others.
  static std::uint64_t hash_of(std::uint64_t id) { return mix64(id) * 0x9e3779b97f4a7c15ULL; }
  static std::uint64_t scale(std::uint64_t hash, std::uint64_t buckets) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(hash) * buckets) >> 64U);
  }
  // kSlots or more when the id is not in the bucket; without branches on the ids.
  static std::uint32_t slot_of(const Bucket& bucket, std::uint64_t id) {
    std::uint32_t slot = kSlots;
    for (std::uint32_t i = kSlots; i-- > 0;) slot = bucket.ids[i] == id ? i : slot;
    return slot;
  }

  struct Moved {
    std::uint64_t home;
    std::uint64_t id;
    std::uint32_t number;
  };

  Bucket* table() const { return reinterpret_cast<Bucket*>(memory_.data()); }
  void move_homes();
  // An id of `home` no longer lies in bucket `at`.
  void unpass(std::uint64_t home, std::uint64_t at);

  MemoryRegion memory_;
  std::uint64_t size_ = 0;
  std::uint64_t buckets_ = 0;      // homes are below; ids that go past the last one lie behind it
  std::uint64_t end_ = 0;          // no bucket from here on was ever used
  std::uint64_t old_buckets_ = 0;  // homes below boundary_ are still those of old_buckets_
  std::uint64_t boundary_ = 0;
  std::vector<Moved> moving_;
};

}  // namespace paddle::pserver

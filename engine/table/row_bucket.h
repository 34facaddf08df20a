// One cache line of a RowIndex: seven ids with their numbers. An id is stored as the part of its
// hash that the position of the line does not imply.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/rng.h"

namespace paddle::table {

constexpr std::uint64_t kHashSpread = 0x9e3779b97f4a7c15ULL;  // also the increment of mix64

// The hash of a row's id in an index, a bijection: the id follows from it. Ids of one shard share a
// remainder of mix64(id); the product's upper bits depend on all others.
inline std::uint64_t hash_of_id(std::uint64_t id) {
  return mix64(id) * kHashSpread;
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

// mix64 backwards.
inline std::uint64_t id_of_hash(std::uint64_t hash) {
  std::uint64_t x = unshift(hash * inverse(kHashSpread), 31);
  x = unshift(x * inverse(0x94d049bb133111ebULL), 27);
  x = unshift(x * inverse(0xbf58476d1ce4e5b9ULL), 30);
  return x - kHashSpread;
}

struct alignas(64) RowBucket {
  static constexpr std::uint32_t kSlots = 7;
  static constexpr unsigned kSlotBits = 72;  // of a hash and a number
  // Most buckets that an id may lie behind its home.
  static constexpr std::uint32_t kReachMax = 14;
  static constexpr std::uint32_t kReachStash = 15;  // some ids are in the index's stash

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

}  // namespace paddle::table

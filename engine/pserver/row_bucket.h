// One cache line of a RowIndex: six ids, as hashes of which the line's place tells the rest, and
// their numbers.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <array>
#include <bit>
#include <cstdint>

namespace paddle::pserver {

struct alignas(64) RowBucket {
  static constexpr std::uint32_t kSlots = 6;
  static constexpr unsigned kLowBits = 52;  // of each hash are stored apart from the number
  static constexpr std::uint64_t kLowMask = (1ULL << kLowBits) - 1;
  // How many buckets behind its home an id may lie.
  static constexpr std::uint32_t kReachMax = 30;
  static constexpr std::uint32_t kReachStash = 31;  // and some are in the index's stash

  std::array<std::uint32_t, kSlots> words;     // hash bits 0 to 31
  std::array<std::uint32_t, kSlots> numbers;   // the owner's 32 bits
  std::array<std::uint16_t, kSlots> halves;    // 32 to 47
  std::array<std::uint8_t, kSlots / 2> pairs;  // 48 to 51 of two slots
  std::uint8_t meta;                           // count of slots in use, the first ones; reach << 3

  std::uint32_t count() const { return meta & 7U; }
  // Of the ids whose home is this bucket: none lies further behind it. Absent ids end here.
  std::uint32_t reach() const { return meta >> 3U; }
  void set_count(std::uint32_t count) { meta = static_cast<std::uint8_t>((meta & ~7U) | count); }
  void set_reach(std::uint32_t reach) {
    meta = static_cast<std::uint8_t>((meta & 7U) | reach << 3U);
  }

  std::uint64_t low(std::uint32_t slot) const {
    const std::uint64_t top = pairs[slot / 2] >> (4 * (slot % 2)) & 15U;
    return words[slot] | static_cast<std::uint64_t>(halves[slot]) << 32U | top << 48U;
  }
  void set_low(std::uint32_t slot, std::uint64_t low) {
    const unsigned shift = 4 * (slot % 2);
    words[slot] = static_cast<std::uint32_t>(low);
    halves[slot] = static_cast<std::uint16_t>(low >> 32U);
    pairs[slot / 2] = static_cast<std::uint8_t>((pairs[slot / 2] & ~(15U << shift)) |
                                                (low >> 48U & 15U) << shift);
  }
  // Slots whose first hash bits are these, as bits.
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
        match(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(words.data() + 4))) << 4U;
#else
    const auto match = [&](std::uint32_t slot) {
      return static_cast<std::uint32_t>(words[slot] == word) << slot;
    };
    const std::uint32_t found = match(0) | match(1) | match(2) | match(3) | match(4) | match(5);
#endif
    return found & ((1U << count()) - 1);
  }
};
static_assert(sizeof(RowBucket) == 64);

}  // namespace paddle::pserver

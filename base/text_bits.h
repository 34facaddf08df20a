// Texts as bits: many bytes are loaded or compared at once.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace paddle {

// Loads 1 to 8 bytes, the first one into the lowest. There is no loop, since texts of varying size
// would have its end mispredicted.
inline std::uint64_t load_short(std::string_view text) {
  static_assert(std::endian::native == std::endian::little);
  const std::size_t size = text.size();
  const char* const begin = text.data();
  if (size >= 4) {
    std::uint32_t first = 0;
    std::uint32_t last = 0;  // the two may overlap
    std::memcpy(&first, begin, sizeof(first));
    std::memcpy(&last, begin + size - sizeof(last), sizeof(last));
    return first | std::uint64_t{last} << (8 * (size - 4));
  }
  const auto byte = [begin](std::size_t at) {
    return std::uint64_t{static_cast<unsigned char>(begin[at])} << (8 * at);
  };
  return byte(0) | byte(size / 2) | byte(size - 1);
}

// As one == other, but without a call for texts of 1 to 8 bytes, such as keys.
inline bool are_equal(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  return one.size() - 1 <= 7 ? load_short(one) == load_short(other) : one == other;
}

inline bool is_ascii(std::string_view text) {
  std::uint64_t bits = 0;
  for (; text.size() > 8; text.remove_prefix(8)) bits |= load_short(text.substr(0, 8));
  if (!text.empty()) bits |= load_short(text);
  return (bits & 0x8080808080808080U) == 0;
}

// 64 bytes of a text; zeros stand in for those after its end.
class ByteBlock {
 public:
  static constexpr std::size_t kBytes = 64;

  // REQUIRES: begin < text.size()
  ByteBlock(std::string_view text, std::size_t begin) : bytes_(text.data() + begin) {
    const std::size_t count = text.size() - begin;
    if (count >= kBytes) return;
    std::memset(padded_.data(), 0, kBytes);
    std::memcpy(padded_.data(), bytes_, count);
    bytes_ = padded_.data();
  }
  ByteBlock(const ByteBlock&) = delete;
  ByteBlock& operator=(const ByteBlock&) = delete;

  // Marks the bytes that equal `wanted` if the bits of `ignored` do not count; the first byte is
  // the lowest bit. REQUIRES: `wanted` has the bits of `ignored`, and others.
  std::uint64_t matches(char wanted, char ignored = 0) const {
    std::uint64_t mask = 0;
#ifdef __SSE2__
    const __m128i wanted_bytes = _mm_set1_epi8(wanted);
    const __m128i ignored_bits = _mm_set1_epi8(ignored);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kBytes; i += sizeof(__m128i)) {
      const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes_ + i));
      const __m128i found = _mm_cmpeq_epi8(_mm_or_si128(some, ignored_bits), wanted_bytes);
      mask |= std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_epi8(found))} << i;
    }
#else
    for (std::size_t i = 0; i < kBytes; ++i)
      mask |= std::uint64_t{static_cast<char>(bytes_[i] | ignored) == wanted} << i;
#endif
    return mask;
  }

 private:
  const char* bytes_;
  std::array<char, kBytes> padded_;  // NOLINT: set where it is used
};

}  // namespace paddle

// Searches for several bytes of a text at once: 64 bytes in one step, each a bit of a mask.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace paddle {

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

  // Marks the bytes that are `wanted` once the bits of `ignored` are set in them; the first byte is
  // the lowest bit. REQUIRES: wanted is not 0.
  std::uint64_t matches(char wanted, char ignored = 0) const {
    std::uint64_t mask = 0;
#ifdef __SSE2__
    const __m128i wanted_bytes = _mm_set1_epi8(wanted);
    const __m128i ignored_bits = _mm_set1_epi8(ignored);
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

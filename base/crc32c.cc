#include "base/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace paddle {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reversed 0x1edc6f41

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr auto kTable = make_table();

std::uint32_t update_portable(std::uint32_t crc, const std::byte* data, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(data[i])) & 0xff];
  }
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t update_sse42(std::uint32_t crc,
                                                             const std::byte* data,
                                                             std::size_t size) {
  std::uint64_t wide = crc;
  for (; size >= 8; data += 8, size -= 8) wide = _mm_crc32_u64(wide, load_le<std::uint64_t>(data));
  crc = static_cast<std::uint32_t>(wide);
  for (; size > 0; ++data, --size) crc = _mm_crc32_u8(crc, static_cast<unsigned char>(*data));
  return crc;
}

// The effect of a run of zero bytes on a CRC. It is a linear map over GF(2): column i of its matrix
// is the CRC that it makes of bit i alone. The matrix of a run of twice the length is the square:
// the matrix applied to each of its own columns.
class ZeroRun {
 public:
  explicit ZeroRun(std::size_t bytes_power_of_two) {
    std::array<std::uint32_t, 32> columns;
    constexpr std::byte kZero{0};
    for (std::uint32_t i = 0; i < 32; ++i) columns[i] = update_portable(1U << i, &kZero, 1);
    for (std::size_t bytes = 1; bytes < bytes_power_of_two; bytes *= 2) {
      std::array<std::uint32_t, 32> doubled;
      for (std::size_t i = 0; i < 32; ++i) doubled[i] = product(columns, columns[i]);
      columns = doubled;
    }
    for (std::uint32_t byte = 0; byte < 4; ++byte) {
      for (std::uint32_t i = 0; i < 256; ++i) {
        by_byte_[byte][i] = product(columns, i << (8 * byte));
      }
    }
  }
  std::uint32_t operator()(std::uint32_t crc) const {
    return by_byte_[0][crc & 0xff] ^ by_byte_[1][(crc >> 8) & 0xff] ^
           by_byte_[2][(crc >> 16) & 0xff] ^ by_byte_[3][crc >> 24];
  }

 private:
  static std::uint32_t product(const std::array<std::uint32_t, 32>& columns, std::uint32_t bits) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < 32; ++i) sum ^= ((bits >> i) & 1) != 0 ? columns[i] : 0;
    return sum;
  }
  std::array<std::array<std::uint32_t, 256>, 4> by_byte_;
};

constexpr std::size_t kLaneBytes = 2048;

// The instruction takes three cycles but one can start each cycle, so three lanes run side by side.
__attribute__((target("sse4.2"))) std::uint32_t update_lanes(std::uint32_t crc,
                                                             const std::byte* data,
                                                             std::size_t size) {
  static const ZeroRun skip_lane(kLaneBytes);
  for (; size >= 3 * kLaneBytes; data += 3 * kLaneBytes, size -= 3 * kLaneBytes) {
    std::uint64_t first = crc;
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kLaneBytes; i += 8) {
      first = _mm_crc32_u64(first, load_le<std::uint64_t>(data + i));
      second = _mm_crc32_u64(second, load_le<std::uint64_t>(data + kLaneBytes + i));
      third = _mm_crc32_u64(third, load_le<std::uint64_t>(data + 2 * kLaneBytes + i));
    }
    crc = skip_lane(skip_lane(static_cast<std::uint32_t>(first)) ^
                    static_cast<std::uint32_t>(second)) ^
          static_cast<std::uint32_t>(third);
  }
  return update_sse42(crc, data, size);
}

// x^power modulo the polynomial, bits reflected, as a factor of a reflected carry-less product.
constexpr std::uint64_t fold_factor(unsigned power) {
  std::uint32_t remainder = 0x80000000;  // x^0: the polynomial below is reflected too
  for (unsigned i = 0; i < power; ++i) {
    remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kPolynomial : 0);
  }
  return std::uint64_t{remainder} << 1U;
}

constexpr std::size_t kFoldBytes = 256;      // four registers
constexpr std::size_t kFoldBytesMin = 1024;  // below it, update_lanes() is as fast

// Folds 256 bytes at a time into the 256 that follow, which leaves the CRC as it is (Gopal et al.,
// "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", 2009). REQUIRES: size >=
// kFoldBytes.
__attribute__((target("avx512f,vpclmulqdq,sse4.2"))) std::uint32_t update_folds(
    std::uint32_t crc, const std::byte* data, std::size_t size) {
  constexpr unsigned kBits = kFoldBytes * 8;
  constexpr auto kLow = static_cast<long long>(fold_factor(kBits + 32));
  constexpr auto kHigh = static_cast<long long>(fold_factor(kBits - 32));
  const __m512i factors = _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
  __m512i sums[4];
  for (std::size_t i = 0; i < 4; ++i) sums[i] = _mm512_loadu_si512(data + 64 * i);
  const __m128i start = _mm_cvtsi32_si128(static_cast<int>(crc));
  sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(start));
  data += kFoldBytes;
  size -= kFoldBytes;
  for (; size >= kFoldBytes; data += kFoldBytes, size -= kFoldBytes) {
    for (std::size_t i = 0; i < 4; ++i) {
      const __m512i low = _mm512_clmulepi64_epi128(sums[i], factors, 0x00);
      const __m512i high = _mm512_clmulepi64_epi128(sums[i], factors, 0x11);
      const __m512i next = _mm512_loadu_si512(data + 64 * i);
      sums[i] = _mm512_ternarylogic_epi64(low, high, next, 0x96);  // xor of all three
    }
  }
  std::array<std::byte, kFoldBytes> folded;
  for (std::size_t i = 0; i < 4; ++i) _mm512_storeu_si512(folded.data() + 64 * i, sums[i]);
  return update_sse42(update_sse42(0, folded.data(), folded.size()), data, size);
}
#endif

}  // namespace

std::uint32_t crc32c(ByteSpan data, std::uint32_t previous) {
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2") != 0;
  static const bool has_folds = has_sse42 && __builtin_cpu_supports("avx512f") != 0 &&
                                __builtin_cpu_supports("vpclmulqdq") != 0;
  if (has_folds && data.size() >= kFoldBytesMin) {
    return ~update_folds(~previous, data.data(), data.size());
  }
  if (has_sse42) return ~update_lanes(~previous, data.data(), data.size());
#endif
  return ~update_portable(~previous, data.data(), data.size());
}

}  // namespace paddle

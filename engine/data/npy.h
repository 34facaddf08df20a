// Arrays of numpy in its npy format, versions 1 to 3: a header, and then the numbers.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "engine/data/byte_source.h"
#include "engine/data/chunk.h"

namespace paddle::data {

struct NpyHeader {
  NumberType type;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;  // size of the header itself
};

// Reads the header at the beginning of an array. kData: there is no header, or it is longer than
// numpy accepts; the elements are not numbers but texts, records or objects (which are Python
// programs); or the array is stored column by column. Messages do not name the array.
Result<NpyHeader> read_npy_header(ByteSource& source);

// Fills all of `into`. kData: the source ends before.
Status read_exactly(ByteSource& source, std::span<std::byte> into);

// The value of a 16-bit float of IEEE 754.
float half_to_float(std::uint16_t bits);

struct Half {
  std::uint16_t bits;
};

// Calls take(number), which returns a Status, for each of `count` numbers of type T.
template <class T, class Take>
Status each_of(const std::byte* at, std::uint64_t count, bool is_big_endian, const Take& take) {
  for (std::uint64_t i = 0; i < count; ++i) {
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), at + i * sizeof(T), sizeof(T));
    if (is_big_endian) std::ranges::reverse(bytes);
    const auto value = std::bit_cast<T>(bytes);
    if constexpr (std::is_same_v<T, Half>) {
      PADDLE_TRY_STATUS(take(half_to_float(value.bits)));
    } else {
      PADDLE_TRY_STATUS(take(value));
    }
  }
  return {};
}

// Calls take(number), which returns a Status, for each of `count` numbers, in their own type; a
// float16 is given as a float, and a truth value as 0 or 1.
template <class Take>
Status each_number(const std::byte* at, std::uint64_t count, const NumberType& type,
                   const Take& take) {
  using Kind = NumberType::Kind;
  const bool big = type.is_big_endian;
  switch (type.kind) {
    case Kind::kBool:
      return each_of<std::uint8_t>(at, count, false,
                                   [&](std::uint8_t one) { return take(std::uint8_t{one != 0}); });
    case Kind::kUnsigned:
      if (type.bytes == 1) return each_of<std::uint8_t>(at, count, big, take);
      if (type.bytes == 2) return each_of<std::uint16_t>(at, count, big, take);
      if (type.bytes == 4) return each_of<std::uint32_t>(at, count, big, take);
      return each_of<std::uint64_t>(at, count, big, take);
    case Kind::kSigned:
      if (type.bytes == 1) return each_of<std::int8_t>(at, count, big, take);
      if (type.bytes == 2) return each_of<std::int16_t>(at, count, big, take);
      if (type.bytes == 4) return each_of<std::int32_t>(at, count, big, take);
      return each_of<std::int64_t>(at, count, big, take);
    case Kind::kFloat:
      if (type.bytes == 2) return each_of<Half>(at, count, big, take);
      if (type.bytes == 4) return each_of<float>(at, count, big, take);
      return each_of<double>(at, count, big, take);
  }
  return {};
}

}  // namespace paddle::data

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "engine/data/format.h"

namespace paddle::data {
namespace {

using NumberKind = NumberType::Kind;

// 2^53, below which a float64 has all whole numbers.
constexpr double kWholeMax = 9007199254740992.0;

struct Half {
  std::uint16_t bits;
};

template <class T>
T swapped(T value) {
  auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  std::ranges::reverse(bytes);
  return std::bit_cast<T>(bytes);
}

// Calls take(number), which returns a Status, for each number of type T.
template <class T, class Take>
Status each_of(const std::byte* at, std::uint64_t count, bool is_big_endian, const Take& take) {
  for (std::uint64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, at + i * sizeof(T), sizeof(T));
    if (is_big_endian) value = swapped(value);
    if constexpr (std::is_same_v<T, Half>) {
      PADDLE_TRY_STATUS(take(half_to_float(value.bits)));
    } else {
      PADDLE_TRY_STATUS(take(value));
    }
  }
  return {};
}

// Calls take(number) for each number of a record, in the type of the slot.
template <class Take>
Status each(const SlotNumbers& slot, std::uint64_t record, const Take& take) {
  const std::uint64_t begin = slot.begin_of(record);
  const std::uint64_t count = slot.end_of(record) - begin;
  const std::byte* const at = slot.bytes.data() + begin * slot.type.bytes;
  const bool big = slot.type.is_big_endian;
  switch (slot.type.kind) {
    case NumberKind::kBool:
      return each_of<std::uint8_t>(at, count, false,
                                   [&](std::uint8_t one) { return take(std::uint8_t{one != 0}); });
    case NumberKind::kUnsigned:
      if (slot.type.bytes == 1) return each_of<std::uint8_t>(at, count, big, take);
      if (slot.type.bytes == 2) return each_of<std::uint16_t>(at, count, big, take);
      if (slot.type.bytes == 4) return each_of<std::uint32_t>(at, count, big, take);
      return each_of<std::uint64_t>(at, count, big, take);
    case NumberKind::kSigned:
      if (slot.type.bytes == 1) return each_of<std::int8_t>(at, count, big, take);
      if (slot.type.bytes == 2) return each_of<std::int16_t>(at, count, big, take);
      if (slot.type.bytes == 4) return each_of<std::int32_t>(at, count, big, take);
      return each_of<std::int64_t>(at, count, big, take);
    case NumberKind::kFloat:
      if (slot.type.bytes == 2) return each_of<Half>(at, count, big, take);
      if (slot.type.bytes == 4) return each_of<float>(at, count, big, take);
      return each_of<double>(at, count, big, take);
  }
  return {};
}

Status append_floats(const config::DataSlotConfig& config, const SlotNumbers& slot,
                     std::uint64_t record, RecordBlock& block) {
  return each(slot, record, [&](auto number) {
    if constexpr (std::is_floating_point_v<decltype(number)>) {
      const bool is_finite = std::abs(number) <= std::numeric_limits<float>::max();
      if (!is_finite && !(std::isnan(number) && config.marks_missing())) {
        return Status(Error{
            Errc::kData,
            fmt::format("array '{}' has {}, which is not a finite float32", config.name, number),
            std::isnan(number) ? "missing = \"mean\", or a number, in the slot fills it in" : ""});
      }
    }
    block.values.push_back(static_cast<float>(number));
    return Status();
  });
}

Status append_ids(const config::DataSlotConfig& slot, const ClassNames& classes,
                  const SlotNumbers& numbers, std::uint64_t record, RecordBlock& block) {
  return each(numbers, record, [&](auto number) {
    if (!classes.empty()) {
      const auto found = classes.find(static_cast<double>(number));
      if (!found) {
        return Status(Error{
            Errc::kData,
            fmt::format("array '{}' has {}, which is not a label of the slot", slot.name, number)});
      }
      block.ids.push_back(*found);
      return Status();
    }
    bool is_whole = true;
    if constexpr (std::is_signed_v<decltype(number)>) is_whole = number >= 0;
    if constexpr (std::is_floating_point_v<decltype(number)>)
      is_whole = is_whole && number <= kWholeMax && std::floor(number) == number;
    if (!is_whole) {
      return Status(Error{
          Errc::kData,
          fmt::format("array '{}' has {}, but an id is a whole number from 0", slot.name, number)});
    }
    block.ids.push_back(static_cast<std::uint64_t>(number));
    return Status();
  });
}

}  // namespace

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = bits >> 10U & 31U;
  const std::uint32_t fraction = bits & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13U);
  if (exponent > 0) {
    return std::bit_cast<float>(sign | (exponent + 112) << 23U | fraction << 13U);
  }
  const float small = static_cast<float>(fraction) * 0x1p-24F;
  return sign == 0 ? small : -small;
}

Status append_numbers(const config::DataConfig& data, std::span<const ClassNames> classes,
                      const Chunk& chunk, std::uint64_t record, RecordBlock& block) {
  const RecordBlock::Extent begin = block.end();
  for (std::size_t i = 0; i < data.slots.size(); ++i) {
    const config::DataSlotConfig& slot = data.slots[i];
    const SlotNumbers& numbers = chunk.slots[i];
    if (slot.type == config::SlotType::kFloat) {
      PADDLE_TRY_STATUS(append_floats(slot, numbers, record, block));
      continue;
    }
    PADDLE_TRY_STATUS(append_ids(slot, classes[i], numbers, record, block));
    if (slot.has_many_ids()) {
      block.counts.push_back(
          static_cast<std::uint32_t>(numbers.end_of(record) - numbers.begin_of(record)));
    }
  }
  block.add_record(begin);
  return {};
}

}  // namespace paddle::data

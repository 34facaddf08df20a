#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "engine/data/format.h"
#include "engine/data/npy.h"

namespace paddle::data {
namespace {

// 2^53, below which a float64 has all whole numbers.
constexpr double kWholeMax = 9007199254740992.0;

// Calls take(number) for each number of a record, in the type of the slot.
template <class Take>
Status each(const SlotNumbers& slot, std::uint64_t record, const Take& take) {
  const std::uint64_t begin = slot.begin_of(record);
  return each_number(slot.bytes.data() + begin * slot.type.bytes, slot.end_of(record) - begin,
                     slot.type, take);
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

#include "engine/pserver/sparse_table.h"

#include <algorithm>

#include "engine/base/rng.h"
#include "engine/param/initial.h"
#include "engine/param/optimizer.h"
#include "engine/param/parameter_set.h"
#include "engine/param/partition.h"

namespace paddle::pserver {
namespace {

// Rows of one shard share mix64(id)'s remainder, so slots must come from another hash.
constexpr std::uint64_t kSlotStream = 0x736c6f7473;
constexpr std::size_t kSlotsMin = 64;

}  // namespace

SparseTable::SparseTable(const wire::ParameterSet& set, std::uint32_t index)
    : spec_(set.parameters(static_cast<int>(index))),
      seed_(set.seed()),
      width_(param::row_width(spec_)),
      state_width_(static_cast<std::uint32_t>(param::state_width(set.optimizer()))),
      row_floats_(width_ * (1 + state_width_)),
      slots_(kSlotsMin, kEmpty) {}

float* SparseTable::row_data(std::uint32_t number) const {
  return chunks_[number / kRowsPerChunk].get() + (number % kRowsPerChunk) * row_floats_;
}

std::size_t SparseTable::find_slot(std::uint64_t id) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash_combine(kSlotStream, id) & mask;
  while (slots_[slot] != kEmpty && ids_[slots_[slot] - 1] != id) slot = (slot + 1) & mask;
  return slot;
}

void SparseTable::grow() {
  slots_.assign(slots_.size() * 2, kEmpty);
  for (std::size_t number = 0; number < ids_.size(); ++number) {
    slots_[find_slot(ids_[number])] = static_cast<std::uint32_t>(number + 1);
  }
}

std::uint32_t SparseTable::find_or_create(std::uint64_t id) {
  std::size_t slot = find_slot(id);
  if (slots_[slot] != kEmpty) return slots_[slot] - 1;
  PADDLE_CHECK(ids_.size() < kRowsMax);
  if ((ids_.size() + 1) * 4 > slots_.size() * 3) {
    grow();
    slot = find_slot(id);
  }
  const auto number = static_cast<std::uint32_t>(ids_.size());
  if (number % kRowsPerChunk == 0) {
    chunks_.push_back(std::make_unique<float[]>(kRowsPerChunk * row_floats_));
  }
  ids_.push_back(id);
  update_counts_.push_back(0);
  slots_[slot] = number + 1;
  param::fill_initial_row({row_data(number), width_}, spec_, seed_, id);
  return number;
}

void SparseTable::read(std::uint64_t id, std::span<float> to) const {
  PADDLE_CHECK(to.size() == width_);
  const std::uint32_t found = slots_[find_slot(id)];
  if (found == kEmpty) return param::fill_initial_row(to, spec_, seed_, id);
  std::copy_n(row_data(found - 1), width_, to.begin());
}

void SparseTable::apply(const wire::ParameterSet& set, std::uint64_t id,
                        std::span<const float> gradient) {
  PADDLE_CHECK(gradient.size() == width_);
  if (spec_.is_static()) return;
  const std::uint32_t number = find_or_create(id);
  float* const data = row_data(number);
  const param::Update update{
      .learning_rate = set.optimizer().learning_rate() * spec_.learning_rate(),
      .l2 = spec_.l2(),
      .count = ++update_counts_[number]};
  param::apply_update(set.optimizer(), update, {data, width_}, gradient,
                      {data + width_, state_width_ * width_});
}

void SparseTable::put(std::uint64_t id, std::uint64_t update_count, std::span<const float> value,
                      std::span<const float> state) {
  PADDLE_CHECK(value.size() == width_ && state.size() == state_width_ * width_);
  const std::uint32_t number = find_or_create(id);
  float* const data = row_data(number);
  std::copy(value.begin(), value.end(), data);
  std::copy(state.begin(), state.end(), data + width_);
  update_counts_[number] = update_count;
}

SparseTable::Row SparseTable::row(std::uint32_t number) const {
  const float* const data = row_data(number);
  return {
      ids_[number], update_counts_[number], {data, width_}, {data + width_, state_width_ * width_}};
}

std::vector<std::uint32_t> SparseTable::export_order() const {
  std::vector<std::uint32_t> order(ids_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
    const auto shard_a = param::virtual_shard(ids_[a]);
    const auto shard_b = param::virtual_shard(ids_[b]);
    return shard_a != shard_b ? shard_a < shard_b : ids_[a] < ids_[b];
  });
  return order;
}

}  // namespace paddle::pserver

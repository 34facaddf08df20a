#include "engine/nn/layers/row_inputs.h"

#include "engine/kernels/rows.h"

namespace paddle::nn {

Status GatheredRows::fill(const Run& run, InputArrays& arrays) const {
  const std::size_t length = rows_.options().length;
  const std::size_t columns = rows_.slots() * length;
  arrays.indices.assign(run.rows() * columns, kernels::kNoRow);
  arrays.weights.clear();
  if (rows_.options().pooling == Pooling::kNone && !rows_.has_weights(run)) {
    for (std::size_t i = 0; i < columns; ++i) {
      PADDLE_TRY_STATUS(rows_.locate(run, i, arrays.indices.data() + i, columns));
    }
    return {};
  }
  arrays.weights.assign(arrays.indices.size(), 1.0F);
  std::vector<std::uint32_t> positions;
  for (std::size_t i = 0; i < rows_.slots(); ++i) {
    const auto [first, last] = rows_.ids_of(run, i);
    positions.resize(last - first);
    PADDLE_TRY_STATUS(rows_.locate(run, i, positions.data(), 1));
    rows_.for_bags(run, i, positions, [&](std::size_t row, const TableRows::Bag& bag) {
      const std::size_t at = row * columns + i * length;
      std::ranges::copy(bag.positions, arrays.indices.data() + at);
      if (bag.weights == nullptr) return;
      std::copy_n(bag.weights, bag.positions.size(), arrays.weights.data() + at);
    });
  }
  return {};
}

Status PooledRows::fill(const Run& run, InputArrays& arrays) const {
  arrays = {};
  const bool has_weights = rows_.has_weights(run);
  for (std::size_t i = 0; i < rows_.slots(); ++i) {
    const auto [first, last] = rows_.ids_of(run, i);
    const std::size_t before = arrays.indices.size();
    arrays.indices.resize(before + (last - first));
    PADDLE_TRY_STATUS(rows_.locate(run, i, arrays.indices.data() + before, 1));
    const auto own = std::span<const std::uint32_t>(arrays.indices).subspan(before);
    if (has_weights) arrays.weights.resize(arrays.indices.size(), 1.0F);
    rows_.for_bags(run, i, own, [&](std::size_t, const TableRows::Bag& bag) {
      const auto start = static_cast<std::size_t>(bag.positions.data() - arrays.indices.data());
      arrays.starts.push_back(static_cast<std::uint32_t>(start));
      if (rows_.options().pooling == Pooling::kMean) arrays.scales.push_back(bag.scale);
      if (bag.weights == nullptr) return;
      std::copy_n(bag.weights, bag.positions.size(), arrays.weights.data() + start);
    });
  }
  arrays.starts.push_back(static_cast<std::uint32_t>(arrays.indices.size()));
  return {};
}

}  // namespace paddle::nn

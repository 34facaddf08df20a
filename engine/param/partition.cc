#include "engine/param/partition.h"

#include <algorithm>

#include "engine/param/parameter_set.h"

namespace paddle::param {
namespace {

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
  return (value + by - 1) / by;
}

// Elements of every block of one parameter but the last.
std::uint64_t block_size(const wire::ParameterSpec& spec, std::uint64_t elements,
                         std::uint64_t shards, std::uint64_t min_block_size) {
  const std::uint64_t limit =
      std::max<std::uint64_t>(1, elements / std::max<std::uint64_t>(1, min_block_size));
  const std::uint64_t size = divide_up(elements, std::min(shards, limit));
  const std::uint64_t row = row_width(spec);
  return divide_up(size, row) * row;
}

}  // namespace

std::vector<DenseBlock> partition_dense(const wire::ParameterSet& set) {
  std::vector<DenseBlock> blocks;
  const std::uint32_t shards = set.dense_shards();
  if (shards == 0) return blocks;
  std::uint32_t next_shard = 0;
  for (int i = 0; i < set.parameters_size(); ++i) {
    const wire::ParameterSpec& spec = set.parameters(i);
    if (spec.sparse()) continue;
    const std::uint64_t elements = element_count(spec);
    if (elements == 0) continue;
    const std::uint64_t size = block_size(spec, elements, shards, set.min_block_size());
    std::uint32_t index = 0;
    for (std::uint64_t begin = 0; begin < elements; begin += size) {
      blocks.push_back(DenseBlock{.parameter = static_cast<std::uint32_t>(i),
                                  .index = index++,
                                  .begin = begin,
                                  .size = std::min(size, elements - begin),
                                  .shard = next_shard});
      next_shard = (next_shard + 1) % shards;
    }
  }
  return blocks;
}

}  // namespace paddle::param

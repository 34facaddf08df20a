#include "engine/table/partition.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>

#include "engine/table/parameter_set.h"

namespace paddle::parameter {
namespace {

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
  return (value + by - 1) / by;
}

// Returns the elements of each block of a parameter; the last block may be smaller.
std::uint64_t block_size(const wire::ParameterSpec& spec, std::uint64_t elements,
                         const wire::ParameterSet& set) {
  if (set.partitioning().whole()) return elements;
  const std::uint64_t shards = set.dense_shards();
  const std::uint64_t min_block_size = set.min_block_size();
  const std::uint64_t limit =
      std::max<std::uint64_t>(1, elements / std::max<std::uint64_t>(1, min_block_size));
  const std::uint64_t size = divide_up(elements, std::min(shards, limit));
  const std::uint64_t row = row_width(spec);
  return divide_up(size, row) * row;
}

std::vector<DenseBlock> cut(const wire::ParameterSet& set) {
  std::vector<DenseBlock> blocks;
  for (int i = 0; i < set.parameters_size(); ++i) {
    const wire::ParameterSpec& spec = set.parameters(i);
    if (spec.sparse()) continue;
    const std::uint64_t elements = element_count(spec);
    if (elements == 0) continue;
    const std::uint64_t size = block_size(spec, elements, set);
    std::uint32_t index = 0;
    for (std::uint64_t begin = 0; begin < elements; begin += size) {
      blocks.push_back(DenseBlock{.parameter = static_cast<std::uint32_t>(i),
                                  .index = index++,
                                  .begin = begin,
                                  .size = std::min(size, elements - begin)});
    }
  }
  return blocks;
}

void place_by_name(const wire::ParameterSet& set, std::vector<DenseBlock>& blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    DenseBlock& block = blocks[i];
    const bool is_cut =
        block.index > 0 || (i + 1 < blocks.size() && blocks[i + 1].parameter == block.parameter);
    std::string name = set.parameters(static_cast<int>(block.parameter)).name();
    if (is_cut) name += ".block" + std::to_string(block.index);
    block.shard = static_cast<std::uint32_t>(stable_hash(name) % set.dense_shards());
  }
}

void place_by_size(const wire::ParameterSet& set, std::vector<DenseBlock>& blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].size > blocks[b].size; });
  std::vector<std::uint64_t> held(set.dense_shards(), 0);
  for (const std::size_t i : order) {
    const auto least = std::min_element(held.begin(), held.end());
    blocks[i].shard = static_cast<std::uint32_t>(least - held.begin());
    *least += blocks[i].size;
  }
}

// Places blocks round robin, except those of parameters that the set places explicitly.
void place_round_robin(const wire::ParameterSet& set, std::vector<DenseBlock>& blocks) {
  std::unordered_map<std::string, std::uint32_t> placed;
  if (set.partitioning().placement() == wire::PLACEMENT_EXPLICIT) {
    for (const auto& one : set.partitioning().placed()) placed[one.parameter()] = one.port();
  }
  std::uint32_t next_shard = 0;
  for (DenseBlock& block : blocks) {
    const auto found = placed.find(set.parameters(static_cast<int>(block.parameter)).name());
    if (found != placed.end()) {
      block.shard = (found->second + block.index) % set.dense_shards();
    } else {
      block.shard = next_shard;
      next_shard = (next_shard + 1) % set.dense_shards();
    }
  }
}

}  // namespace

std::vector<DenseBlock> partition_dense(const wire::ParameterSet& set) {
  if (set.dense_shards() == 0) return {};
  std::vector<DenseBlock> blocks = cut(set);
  switch (set.partitioning().placement()) {
    case wire::PLACEMENT_HASH_NAME:
      place_by_name(set, blocks);
      break;
    case wire::PLACEMENT_SIZE_BALANCED:
      place_by_size(set, blocks);
      break;
    default:
      place_round_robin(set, blocks);
      break;
  }
  return blocks;
}

}  // namespace paddle::parameter

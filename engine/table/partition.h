// Partition of parameters over shards: pure functions of the ParameterSet, so that every process
// computes the same answer.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "proto/parameters.pb.h"

namespace paddle::parameter {

// Elements [begin, begin + size) of a dense parameter, row-major; whole rows of a matrix.
struct DenseBlock {
  std::uint32_t parameter = 0;  // index in the ParameterSet
  std::uint32_t index = 0;      // number of the block within the parameter
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint32_t shard = 0;
  friend bool operator==(const DenseBlock&, const DenseBlock&) = default;
};

// Fluid's slice rule: blocks of at least min_block_size elements, at most dense_shards of them, or
// one block where parameters stay whole. Sparse tables have no blocks. Placements:
//   round_robin    each block on the next shard, also from one parameter to the next
//   hash_name      stable_hash("fc.w.block0"), or of the name alone for one block, mod shards
//   size_balanced  the largest block first, each to the shard that holds the least so far
//   explicit       a named parameter's first block on its shard, its others on the shards after
//                  it; other parameters round robin
// The blocks are in the order of (parameter, index). The set must be valid (parameter_set.h); with
// dense_shards = 0 it has no blocks.
std::vector<DenseBlock> partition_dense(const wire::ParameterSet& set);

// INVARIANT: a row keeps its virtual shard. So a snapshot loads on any number of sparse shards.
constexpr std::uint32_t kVirtualShards = 4096;

constexpr std::uint32_t virtual_shard(std::uint64_t id) {
  return static_cast<std::uint32_t>(mix64(id) % kVirtualShards);
}

// A shard in [0, sparse_shards); sparse_shards > 0.
constexpr std::uint32_t sparse_shard(std::uint64_t id, std::uint32_t sparse_shards) {
  return virtual_shard(id) % sparse_shards;
}

}  // namespace paddle::parameter

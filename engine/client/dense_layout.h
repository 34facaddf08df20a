// Layout of dense parameters on the shards, as a client sees it: which elements of which parameter
// each shard holds.
#pragma once

#include "base/bytes.h"
#include "engine/client/batch_parameters.h"
#include "proto/parameters.pb.h"

namespace paddle::client {

// Elements [begin, begin + size) of a parameter, stored from element `offset` of its shard on.
struct DensePiece {
  std::uint32_t parameter = 0;
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};

struct DenseLayout {
  std::vector<std::vector<DensePiece>> pieces;  // by shard, in order of offset
  std::vector<std::uint64_t> sizes;             // elements by shard
};
DenseLayout dense_layout(const wire::ParameterSet& set);
// Whether each parameter lies whole, and without a gap, in one shard.
bool is_undivided(const DenseLayout& layout);

// Sets `lent` of each parameter in `to` that is not null to its part of the shard's values.
// REQUIRES: is_undivided(), and each parameter's `value` has the parameter's size.
void lend(std::span<const DensePiece> pieces, std::span<const float> values,
          std::span<DenseParameter* const> to);

// The gradients of elements [offset, offset + count) of a shard, in order. `from` is indexed by
// parameter; zeros stand for a parameter that is null or has no gradient.
std::vector<ByteSpan> gather(std::span<const DensePiece> pieces,
                             std::span<const DenseParameter* const> from, std::uint64_t offset,
                             std::uint64_t count);
// The gradient of each piece of a shard; empty if a parameter is null or has no gradient.
std::vector<std::span<const float>> gradients(std::span<const DensePiece> pieces,
                                              std::span<const DenseParameter* const> from);
// The memory of the values of these elements, in order; empty if a parameter is null.
std::vector<std::span<std::byte>> destinations(std::span<const DensePiece> pieces,
                                               std::uint64_t offset, std::uint64_t count,
                                               std::span<DenseParameter* const> of);
// Copies values into the parameters that are not null.
void scatter(std::span<const DensePiece> pieces, std::span<const float> from, std::uint64_t offset,
             std::span<DenseParameter* const> to);

}  // namespace paddle::client

// Which part of which parameter lies where: the client's half of the partition, and the copying in
// and out of frames.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"
#include "engine/client/parameter_client.h"
#include "proto/wire.pb.h"

namespace paddle::client {

// Elements [begin, begin + size) of a parameter, at `offset` of its shard.
struct DensePiece {
  std::uint32_t parameter = 0;
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};

struct DensePlan {
  std::vector<std::vector<DensePiece>> pieces;  // by shard, in order of offset
  std::vector<std::uint64_t> sizes;             // elements by shard
};
DensePlan plan_dense(const wire::ParameterSet& set);
// Whether each parameter lies in one shard, without a gap.
bool is_undivided(const DensePlan& plan);
// Lends the parameters that are not null the values of an undivided plan's shard. They have their
// size.
void lend(std::span<const DensePiece> pieces, std::span<const float> values,
          std::span<DenseParameter* const> to);

// Where the gradients of elements [offset, offset + count) of a shard lie, in order; zeros where a
// parameter (by index) is null or has none.
std::vector<ByteSpan> gather(std::span<const DensePiece> pieces,
                             std::span<const DenseParameter* const> from, std::uint64_t offset,
                             std::uint64_t count);
// Where their values lie; nothing when a parameter is null.
std::vector<std::span<std::byte>> places(std::span<const DensePiece> pieces, std::uint64_t offset,
                                         std::uint64_t count, std::span<DenseParameter* const> of);
// Copies values into the parameters that are not null.
void scatter(std::span<const DensePiece> pieces, std::span<const float> from, std::uint64_t offset,
             std::span<DenseParameter* const> to);

// Neighbours in SparseRows::ids: copied at once. With one shard, all of them.
struct RowRun {
  std::size_t begin = 0;
  std::size_t count = 0;
  friend bool operator==(const RowRun&, const RowRun&) = default;
};
// One frame's worth of rows for one shard.
struct RowRange {
  std::uint32_t table = 0;  // position in the span of SparseRows
  std::size_t count = 0;    // rows in all runs
  std::vector<RowRun> runs;
};
struct RowFrame {
  std::vector<RowRange> ranges;
};
// Whether its floats are sent from, and received into, the batch itself: where they lie in few
// pieces, as those of a single shard do. Many small ones are faster copied.
bool stays_in_place(const RowFrame& frame);

// Splits tables by shard and by bytes_max a frame (ids and floats together). By shard; at
// least one frame, maybe empty, for every shard. Tables must be in ascending order of parameter.
std::vector<std::vector<RowFrame>> plan_rows(std::span<const SparseRows> tables,
                                             const wire::ParameterSet& set,
                                             std::uint64_t bytes_max);

}  // namespace paddle::client

// Division of a batch's rows by sparse shard, and into frames of bounded size.
#pragma once

#include "base/bytes.h"
#include "engine/client/batch_parameters.h"
#include "proto/parameters.pb.h"
#include "proto/wire.pb.h"

namespace paddle::client {

// Neighbours in SparseRows::ids, copied at once. One shard gets all rows in one run.
struct RowRun {
  std::size_t begin = 0;
  std::size_t count = 0;
  friend bool operator==(const RowRun&, const RowRun&) = default;
};

// Rows of one table in a frame.
struct RowRange {
  std::uint32_t table = 0;  // position in the span of SparseRows
  std::size_t count = 0;    // rows in all runs
  std::vector<RowRun> runs;
};

// Rows that one frame to one shard carries.
struct RowFrame {
  std::vector<RowRange> ranges;
};

// Whether the frame's floats are few enough pieces of the batch to be sent from, and received into,
// the batch itself. Many small pieces are faster copied.
bool stays_in_place(const RowFrame& frame);

// Frames by shard, each of at most bytes_max of ids and floats; at least one, maybe empty, for
// every shard. Tables ascend by parameter.
std::vector<std::vector<RowFrame>> split_rows(std::span<const SparseRows> tables,
                                              const wire::ParameterSet& set,
                                              std::uint64_t bytes_max);

// Adds a frame's segments to the head, and its ids to the tail, of a pull or a push.
template <class Message>
void put_ids(Message& message, Bytes& tail, const RowFrame& frame,
             std::span<const SparseRows> tables) {
  for (const RowRange& range : frame.ranges) {
    wire::Segment* const segment = message.add_segments();
    segment->set_parameter(tables[range.table].parameter);
    segment->set_count(range.count);
    const std::span ids(tables[range.table].ids);
    for (const RowRun& run : range.runs) append_bytes(tail, ids.subspan(run.begin, run.count));
  }
}

}  // namespace paddle::client

// Transfer of rows of sparse tables between one trainer and all sparse shards: pulls and pushes.
#pragma once

#include "base/bytes.h"
#include "engine/client/batch_parameters.h"
#include "engine/client/lanes.h"
#include "engine/table/loans.h"
#include "proto/parameters.pb.h"
#include "proto/wire.pb.h"

namespace paddle::client {

// Division of a batch's rows into frames of bounded size, for each sparse shard.

// A run of neighbours in SparseRows::ids, which are copied at once. With one shard, all rows are
// one run.
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
  bool has_values = false;  // a pull was answered into the batch's memory while it was sent
};

// Whether the frame's floats are few enough pieces of the batch to be sent from the batch's memory,
// and received into it. Many small pieces are copied, which is faster.
bool stays_in_place(const RowFrame& frame);

// Frames by shard, each with at most bytes_max of ids and floats. Every shard has at least one
// frame, which may be empty. REQUIRES: tables ascend by parameter.
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

class SparseChannel {
 public:
  // Loans by shard, if the shards are in this process; empty if they are in others.
  using Loans = std::vector<std::shared_ptr<parameter::RowLoan>>;

  // `set` outlives the channel.
  SparseChannel(const wire::ParameterSet& set, ClientLanes lanes, std::uint64_t transfer_bytes,
                Loans loans = {})
      : set_(set),
        lanes_(std::move(lanes)),
        transfer_bytes_(transfer_bytes),
        loans_(std::move(loans)) {}

  ClientLanes& lanes() { return lanes_; }
  const ClientLanes& lanes() const { return lanes_; }

  // kToTrain reads the values of the rows. kToTest reads the averages that the optimizer keeps, or
  // the values if it keeps none, and absent rows as tests read them (SparseTable::read_to_test()).
  enum class Reads { kToTrain, kToTest };
  Status pull(std::span<SparseRows> rows, Reads reads);

  // A push in steps: the requests to dense and sparse shards are sent before the first answer is
  // read. The rows must not change until receive() has returned.
  class Push : public PartedPush<wire::PushRows> {
   public:
    using PartedPush::PartedPush;
    Status receive();
  };
  Result<Push> prepare(const wire::PushPart& totals, std::span<const SparseRows> rows);

  std::uint64_t width(std::uint32_t parameter) const;  // floats of a row's value

 private:
  Status check(std::span<const SparseRows> rows, bool has_gradients) const;
  std::size_t notes_width(std::uint32_t parameter) const;
  // The floats of each run of a pull's rows, in their order.
  std::vector<std::span<float>> places(const RowFrame& frame, std::span<SparseRows> rows) const;
  Status send_pull(std::size_t shard, RowFrame& frame, std::span<SparseRows> rows, Reads reads);
  // Reads the answer to a pull into the values of its rows.
  Status receive_pull(std::size_t shard, const RowFrame& frame, std::span<SparseRows> rows);
  void fill(PartedPush<wire::PushRows>::Part& part, const RowFrame& frame,
            std::span<const SparseRows> tables) const;

  const wire::ParameterSet& set_;
  ClientLanes lanes_;
  std::uint64_t transfer_bytes_;
  Loans loans_;
};

}  // namespace paddle::client

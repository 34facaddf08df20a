// Rows of sparse tables between one trainer and all sparse shards: pulls and pushes.
#pragma once

#include "engine/client/lanes.h"
#include "engine/client/row_split.h"

namespace paddle::client {

class SparseChannel {
 public:
  // `set` outlives the channel.
  SparseChannel(const wire::ParameterSet& set, ClientLanes lanes, std::uint64_t transfer_bytes)
      : set_(set), lanes_(std::move(lanes)), transfer_bytes_(transfer_bytes) {}

  ClientLanes& lanes() { return lanes_; }
  const ClientLanes& lanes() const { return lanes_; }

  // For a batch to train on, the values of the rows. For a test, the averages that the optimizer
  // keeps of them, or else the values, with absent rows as tests read them.
  enum class Reads { kToTrain, kToTest };
  Status pull(std::span<SparseRows> rows, Reads reads);

  // A push in steps, so that requests to both kinds of shards are out before answers are read. The
  // rows stay as they are until receive() has returned.
  class Push {
   public:
    Status send_early() { return parts_.send_early(lanes_); }
    Status send_last() { return parts_.send_last(lanes_); }
    Status receive();

   private:
    friend SparseChannel;
    explicit Push(ClientLanes& lanes) : lanes_(lanes) {}

    ClientLanes& lanes_;
    PartedPush<wire::PushRows> parts_;
  };
  Result<Push> prepare(const wire::PushPart& totals, std::span<const SparseRows> rows);

  std::uint64_t width(std::uint32_t parameter) const;  // floats of a row's value

 private:
  Status check(std::span<const SparseRows> rows, bool has_gradients) const;
  std::size_t notes_width(std::uint32_t parameter) const;
  Status send_pull(std::size_t shard, const RowFrame& frame, std::span<const SparseRows> rows,
                   Reads reads);
  // Reads the answer to a pull into the values of its rows.
  Status receive_pull(std::size_t shard, const RowFrame& frame, std::span<SparseRows> rows);
  void fill(PartedPush<wire::PushRows>::Part& part, const RowFrame& frame,
            std::span<const SparseRows> tables) const;

  const wire::ParameterSet& set_;
  ClientLanes lanes_;
  std::uint64_t transfer_bytes_;
};

}  // namespace paddle::client

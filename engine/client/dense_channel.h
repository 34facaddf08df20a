// Dense parameters between one trainer and all dense shards: pulls, pushes, and the parameters'
// planes for snapshots.
#pragma once

#include "engine/client/dense_layout.h"
#include "engine/client/lanes.h"
#include "engine/parameter/dense_loan.h"

namespace paddle::client {

class DenseChannel {
 public:
  // By shard, for shards of this process; empty: they are elsewhere.
  using Loans = std::vector<std::shared_ptr<parameter::DenseLoan>>;

  // `set` outlives the channel.
  DenseChannel(const wire::ParameterSet& set, ClientLanes lanes, std::uint64_t transfer_bytes,
               Loans loans);

  ClientLanes& lanes() { return lanes_; }
  const ClientLanes& lanes() const { return lanes_; }
  const DenseLayout& layout() const { return layout_; }

  Status pull(std::span<DenseParameter> parameters);
  // Like pull(), of an optimizer's plane instead of the values.
  Status pull_plane(std::uint32_t plane, std::span<DenseParameter> parameters);

  // A push in steps, so that requests to both kinds of shards are out before answers are read.
  // Gradients stay as they are until receive() has returned.
  class Push {
   public:
    Status send_early() { return parts_.send_early(channel_.lanes_); }
    Status send_last();
    // Reads the answers, and the new values into the parameters.
    Status receive();

   private:
    friend DenseChannel;
    explicit Push(DenseChannel& channel) : channel_(channel) {}

    DenseChannel& channel_;
    std::vector<DenseParameter*> parameters_;  // by index; null: not of this push
    PartedPush<wire::PushDense> parts_;
    std::vector<std::vector<std::span<const float>>> lent_;  // gradients by shard
    bool is_empty_ = false;  // of gradients, and the answers of values
  };
  // `node_samples` as in PushTotals. With 0 and no parameters the push carries no gradient.
  Result<Push> prepare(const wire::PushPart& totals, std::span<DenseParameter> parameters,
                       std::optional<std::uint64_t> node_samples = {});

  // Elements [offset, offset + count) of one plane of a shard. Plane 0 is the values, the others
  // are the optimizer's state.
  Result<std::vector<float>> read(std::size_t shard, std::uint32_t plane, std::uint64_t offset,
                                  std::uint64_t count, std::uint64_t& update_count);

 private:
  Result<std::vector<DenseParameter*>> by_index(std::span<DenseParameter> parameters) const;
  Status pull_shard(std::size_t shard, std::span<DenseParameter* const> to);
  // The answer to a request for elements [offset, offset + count) of a shard: the values go to
  // `to`, read straight into it if that is whole. Half-written if the link fails.
  template <class Answer>
  Status receive_values(std::size_t shard, FrameType type, std::uint64_t offset,
                        std::uint64_t count, std::span<DenseParameter* const> to, Answer& answer);

  const wire::ParameterSet& set_;
  ClientLanes lanes_;
  DenseLayout layout_;
  std::uint64_t floats_max_;  // in one frame
  Loans loans_;
  bool borrows_values_;
};

}  // namespace paddle::client

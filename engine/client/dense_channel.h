// Transfer of dense parameters between one trainer and all dense shards: pulls, pushes, and the
// planes of the parameters for snapshots.
#pragma once

#include "engine/client/dense_layout.h"
#include "engine/client/lanes.h"
#include "engine/table/loans.h"

namespace paddle::client {

class DenseChannel {
 public:
  // Loans by shard, if the shards are in this process; empty if they are in others.
  using Loans = std::vector<std::shared_ptr<parameter::DenseLoan>>;

  // `set` outlives the channel.
  DenseChannel(const wire::ParameterSet& set, ClientLanes lanes, std::uint64_t transfer_bytes,
               Loans loans);

  ClientLanes& lanes() { return lanes_; }
  const ClientLanes& lanes() const { return lanes_; }
  const DenseLayout& layout() const { return layout_; }

  Status pull(std::span<DenseParameter> parameters);
  // Like pull(), but reads this plane of the optimizer's state instead of the values.
  Status pull_plane(std::uint32_t plane, std::span<DenseParameter> parameters);

  // A push in steps: the requests to dense and sparse shards are sent before the first answer is
  // read. The gradients must not change until receive() has returned.
  class Push : public PartedPush<wire::PushDense> {
   public:
    Status send();
    // Reads the answers, and copies the new values into the parameters.
    Status receive();

   private:
    friend DenseChannel;
    Push(DenseChannel& channel, const wire::PushPart& totals)
        : PartedPush(channel.lanes_, totals), channel_(channel) {}

    DenseChannel& channel_;
    std::vector<DenseParameter*> parameters_;                // by index; null: not in this push
    std::vector<std::vector<std::span<const float>>> lent_;  // gradients by shard
    bool is_empty_ = false;  // carries no gradients, and the answers carry no values
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
  // Receives the answer to a request for elements [offset, offset + count) of a shard. The values
  // are read straight into `to` if none of its parameters is null, else copied there. After an
  // error some values may be overwritten.
  Status receive_values(std::size_t shard, FrameType type, std::uint64_t offset,
                        std::uint64_t count, std::span<DenseParameter* const> to);

  const wire::ParameterSet& set_;
  ClientLanes lanes_;
  DenseLayout layout_;
  std::uint64_t floats_max_;  // in one frame
  Loans loans_;
  bool borrows_values_;
};

}  // namespace paddle::client

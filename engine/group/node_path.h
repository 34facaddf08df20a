// How dense parameters are exchanged between the trainers of one node and the shards, in rounds:
// the trainers add up their gradients, and one of them pushes the sum and sends the new values to
// the others. Every trainer still pushes each of its batches on its own lanes, so the shards count,
// order and save as they do without groups. But only one push of a node in a round carries a
// gradient.
//
// The sum has the bits of the shards' merge, over the node's trainers in order, with their shares
// of the node's samples. The shards merge the sums of nodes, in the order of the trainers that push
// them. So a job on one node has the same bits as without groups.
#pragma once

#include "engine/client/paths.h"
#include "engine/group/group.h"
#include "engine/group/group_gradients.h"

namespace paddle::strategy {

class NodePath final : public client::DensePath {
 public:
  // The group's ranks are the node's trainers, in the order of their ids. `trainer` is this one's
  // id.
  NodePath(client::ShardChannels& shards, std::unique_ptr<collective::Group> group,
           std::uint32_t trainer);

  Status pull(std::span<client::DenseParameter> parameters) override;
  Status push(const client::PushTotals& totals,
              std::span<client::DenseParameter> parameters) override;
  bool talks_to_trainers() const override { return true; }
  // A trainer without more data takes part in the sums of the others until none has data.
  Status take_part() override;
  void announce_busy(std::string_view activity) override;
  Status leave() override;
  void interrupt(const Error& why) override { group_->abort(why); }

 private:
  using Infos = std::span<const collective::StepInfo>;

  // Adds up the gradients; then every trainer of the node has the sum.
  Result<Infos> sum(collective::StepInfo own);
  Status sum_buckets(Infos infos);
  // The first trainer that still has data: it pushes the sum.
  static std::optional<std::uint32_t> leader_of(Infos infos);
  Status spread(std::uint32_t leader, std::span<client::DenseParameter> parameters);

  Status check(const std::string& above);

  std::uint32_t trainer_;
  GroupGradients gradients_;
  std::vector<float> unused_;  // receives values that this trainer does not need
  // The group reads and writes gradients until it has ended, so it is destroyed first.
  std::unique_ptr<collective::Group> group_;
  std::uint64_t plan_hash_;
  std::uint64_t step_ = 0;
  bool is_busy_ = false;
};

}  // namespace paddle::strategy

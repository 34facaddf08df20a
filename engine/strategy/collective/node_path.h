// The way of dense parameters between the trainers of one node and the shards, in rounds: they add
// their gradients up, and one of them pushes the sum and gives the others the new values. Every
// trainer still pushes each of its batches on its own lanes, so the shards count, order and save
// what they do without groups; but only one push of a node in a round carries a gradient.
//
// The sum has the bits of the shards' merge, over the node's trainers in order, with their shares
// of the node's samples. The shards merge the sums of nodes, in the order of the trainers that push
// them. So a job on one node has the bits of one without groups.
#pragma once

#include "engine/client/paths.h"
#include "engine/collective/group.h"
#include "engine/strategy/collective/group_gradients.h"

namespace paddle::strategy {

class NodePath final : public client::DensePath {
 public:
  // The group is of the node's trainers, by their ids, of which `trainer` is this one's.
  NodePath(client::ShardChannels& shards, std::unique_ptr<collective::Group> group,
           std::uint32_t trainer);

  Status pull(std::span<client::DenseParameter> parameters) override;
  Status push(const client::PushTotals& totals,
              std::span<client::DenseParameter> parameters) override;
  bool talks_to_trainers() const override { return true; }
  // A trainer at the end of its data takes part in the sums of the others until all are there.
  Status take_part() override;
  void announce_busy(std::string_view activity) override;
  Status leave() override;
  void interrupt(const Error& why) override { group_->abort(why); }

 private:
  using Infos = std::span<const collective::StepInfo>;

  // Adds the gradients up; every trainer of the node has the sum then.
  Result<Infos> sum(collective::StepInfo own);
  Status sum_buckets(Infos infos);
  // The first trainer that still has data: it pushes.
  static std::optional<std::uint32_t> leader_of(Infos infos);
  Status spread(std::uint32_t leader, std::span<client::DenseParameter> parameters);

  Status check(const std::string& above);

  std::uint32_t trainer_;
  GroupGradients gradients_;
  std::vector<float> unused_;  // values that others get
  // Reads and writes gradients until it has ended: it goes first.
  std::unique_ptr<collective::Group> group_;
  std::uint64_t plan_hash_;
  std::uint64_t step_ = 0;
  bool is_busy_ = false;
};

}  // namespace paddle::strategy

#include "engine/client/savepoints.h"

#include <algorithm>
#include <utility>

namespace paddle::client {

void note_savepoints(std::span<const ClientLane* const> in_rounds, wire::PushPart& part) {
  if (in_rounds.empty()) return;
  const ClientLane& leading = *in_rounds.front();
  part.set_savepoint(leading.savepoint_asked());
  // A push may only name a savepoint that all shards have: if they report different ones, it names
  // none.
  const auto is_other = [&](const ClientLane* lane) {
    return lane->whole_savepoint() != leading.whole_savepoint();
  };
  if (std::ranges::none_of(in_rounds, is_other))
    part.set_whole_savepoint(leading.whole_savepoint());
}

void RollbackPlan::add(const wire::Position& position) {
  shards_.push_back({position.ready(),
                     position.has_rounds(),
                     {position.savepoints().begin(), position.savepoints().end()}});
}

bool RollbackPlan::all_run() const {
  return std::ranges::all_of(shards_, &Shard::runs);
}

bool RollbackPlan::none_runs() const {
  return std::ranges::none_of(shards_, &Shard::runs);
}

std::optional<std::uint64_t> RollbackPlan::common_savepoint() const {
  std::vector<std::uint64_t> common;
  bool is_first = true;
  for (const Shard& shard : shards_) {
    if (!shard.in_rounds) continue;
    if (std::exchange(is_first, false)) {
      common = shard.savepoints;
    } else {
      std::erase_if(common, [&](std::uint64_t savepoint) {
        return !std::ranges::binary_search(shard.savepoints, savepoint);
      });
    }
  }
  return common.empty() ? std::nullopt : std::optional(common.back());
}

std::optional<std::vector<std::optional<std::uint64_t>>> RollbackPlan::savepoints() const {
  const bool round_is_lost = std::ranges::any_of(
      shards_, [](const Shard& shard) { return shard.in_rounds && !shard.runs; });
  const std::optional<std::uint64_t> common = common_savepoint();
  std::vector<std::optional<std::uint64_t>> chosen;
  for (const Shard& shard : shards_) {
    std::optional<std::uint64_t>& savepoint = chosen.emplace_back();
    if (shard.in_rounds ? !round_is_lost : shard.runs) continue;
    if (shard.in_rounds) {
      savepoint = common;
    } else if (!shard.savepoints.empty()) {
      savepoint = shard.savepoints.back();
    }
    if (!savepoint) return std::nullopt;
  }
  return chosen;
}

}  // namespace paddle::client

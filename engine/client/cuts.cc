#include "engine/client/cuts.h"

#include <algorithm>
#include <utility>

namespace paddle::client {

void note_cuts(std::span<const ClientLane* const> in_rounds, wire::PushPart& part) {
  if (in_rounds.empty()) return;
  const ClientLane& leading = *in_rounds.front();
  part.set_cut(leading.cut_asked());
  // A push may only name a cut that all shards have: if they report different ones, it names none.
  const auto is_other = [&](const ClientLane* lane) {
    return lane->whole_cut() != leading.whole_cut();
  };
  if (std::ranges::none_of(in_rounds, is_other)) part.set_whole_cut(leading.whole_cut());
}

void WayBack::add(const wire::Position& position) {
  shards_.push_back(
      {position.ready(), position.has_rounds(), {position.cuts().begin(), position.cuts().end()}});
}

bool WayBack::all_run() const {
  return std::ranges::all_of(shards_, &Shard::runs);
}

bool WayBack::none_runs() const {
  return std::ranges::none_of(shards_, &Shard::runs);
}

std::optional<std::uint64_t> WayBack::common_cut() const {
  std::vector<std::uint64_t> common;
  bool is_first = true;
  for (const Shard& shard : shards_) {
    if (!shard.in_rounds) continue;
    if (std::exchange(is_first, false)) {
      common = shard.cuts;
    } else {
      std::erase_if(
          common, [&](std::uint64_t cut) { return !std::ranges::binary_search(shard.cuts, cut); });
    }
  }
  return common.empty() ? std::nullopt : std::optional(common.back());
}

std::optional<std::vector<std::optional<std::uint64_t>>> WayBack::cuts() const {
  const bool round_is_lost = std::ranges::any_of(
      shards_, [](const Shard& shard) { return shard.in_rounds && !shard.runs; });
  const std::optional<std::uint64_t> common = common_cut();
  std::vector<std::optional<std::uint64_t>> chosen;
  for (const Shard& shard : shards_) {
    std::optional<std::uint64_t>& cut = chosen.emplace_back();
    if (shard.in_rounds ? !round_is_lost : shard.runs) continue;
    if (shard.in_rounds) {
      cut = common;
    } else if (!shard.cuts.empty()) {
      cut = shard.cuts.back();
    }
    if (!cut) return std::nullopt;
  }
  return chosen;
}

}  // namespace paddle::client

#include "remote/client/fan_out.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::remote {

FanOut::NodeIndex FanOut::join(const std::string& name) {
  const std::lock_guard lock(mutex_);
  nodes_.emplace_back().name = name;
  return nodes_.size() - 1;
}

void FanOut::announce(NodeIndex node, const std::vector<PackShape>& lacks,
                      std::optional<ServingNode> serves) {
  const std::lock_guard lock(mutex_);
  NodeState& state = nodes_[node];
  state.announced = true;
  state.shapes = lacks;
  state.serves = std::move(serves);
  state.left = lacks.size();
  state.first = lacks.size() * (node % node_count_) / node_count_;
  state.have.assign(lacks.size(), Have::kNo);
  for (const PackShape& shape : lacks) {
    PackState& pack = packs_[shape.key];
    pack.lacking.push_back(node);
    state.packs.push_back(&pack);
  }
  notify();
}

// Whether a pull by `node` from `other` may succeed.
bool FanOut::can_pull(const NodeState& node, NodeIndex other) const {
  const NodeState& there = nodes_[other];
  return &there != &node && there.serves && there.active && !there.unreachable() &&
         !node.reaches_none() && !node.avoids.contains(other);
}

std::optional<FanOut::NodeIndex> FanOut::holder_for(NodeIndex node, const PackState& pack,
                                                    bool& busy) const {
  std::optional<NodeIndex> best;
  for (const NodeIndex holder : pack.holders) {
    if (!can_pull(nodes_[node], holder)) continue;
    if (nodes_[holder].pulls >= kServesAtOnce) {
      busy = true;
    } else if (!best || nodes_[holder].pulls < nodes_[*best].pulls) {
      best = holder;
    }
  }
  return best;
}

// Whether a node from which `node` can pull will have the pack soon.
bool FanOut::will_be_pullable(NodeIndex node, const PackState& pack) const {
  if (std::ranges::any_of(pack.receivers,
                          [&](NodeIndex other) { return can_pull(nodes_[node], other); })) {
    return true;
  }
  return std::ranges::any_of(pack.lacking, [&](NodeIndex other) {
    if (!can_pull(nodes_[node], other) || nodes_[other].reaches_none()) return false;
    return std::ranges::any_of(pack.holders,
                               [&](NodeIndex holder) { return can_pull(nodes_[other], holder); });
  });
}

// A pack goes first to nodes that others can pull it from: sent to an unreachable node it would
// have to be sent again.
bool FanOut::may_send(NodeIndex node, const PackState& pack) const {
  const NodeState& state = nodes_[node];
  if (state.reaches_none() || (state.serves && !state.unreachable())) return true;
  return std::ranges::none_of(pack.lacking, [&](NodeIndex other) {
    return can_pull(state, other) && !nodes_[other].reaches_none();
  });
}

void FanOut::plan_pull(NodeIndex node, std::size_t begin, NodeIndex from, Step& step) {
  NodeState& state = nodes_[node];
  step.kind = Step::Kind::kPull;
  step.from = from;
  step.at = nodes_[from].serves;
  std::uint64_t bytes = 0;
  std::size_t blobs = 0;
  for (std::size_t i = begin; i < state.packs.size(); ++i) {
    if (state.have[i] != Have::kNo) continue;
    if (std::ranges::find(state.packs[i]->holders, from) == state.packs[i]->holders.end()) continue;
    bytes += state.shapes[i].bytes;
    blobs += state.shapes[i].blobs;
    if (!step.packs.empty() && (bytes > kPullBytesMax || blobs > kPullBlobsMax)) break;
    state.have[i] = Have::kComing;
    step.packs.push_back(i);
  }
  ++nodes_[from].pulls;
}

void FanOut::plan_send(NodeIndex node, std::size_t begin, Step& step) {
  NodeState& state = nodes_[node];
  step.kind = Step::Kind::kSend;
  std::uint64_t bytes = 0;
  for (std::size_t i = begin; i < state.packs.size(); ++i) {
    PackState& pack = *state.packs[i];
    bool busy = false;
    if (state.have[i] != Have::kNo) break;
    if (i > begin && (holder_for(node, pack, busy) || busy || will_be_pullable(node, pack) ||
                      !may_send(node, pack))) {
      break;
    }
    bytes += state.shapes[i].bytes;
    if (!step.packs.empty() && bytes > kSendBytesMax) break;
    state.have[i] = Have::kComing;
    pack.receivers.push_back(node);
    step.packs.push_back(i);
  }
}

FanOut::Step FanOut::next(NodeIndex node) {
  const std::lock_guard lock(mutex_);
  NodeState& state = nodes_[node];
  Step step;
  step.seen = changes_;
  if (state.left == 0) {
    step.kind = Step::Kind::kDone;
    return step;
  }
  std::optional<std::size_t> to_send;
  const std::size_t count = state.packs.size();
  for (std::size_t turn = 0; turn < count; ++turn) {
    const std::size_t i = (state.first + turn) % count;
    if (state.have[i] != Have::kNo) continue;
    const PackState& pack = *state.packs[i];
    bool busy = false;
    if (const auto holder = holder_for(node, pack, busy)) {
      plan_pull(node, i, *holder, step);
      return step;
    }
    if (!to_send && !busy && !will_be_pullable(node, pack) && may_send(node, pack)) to_send = i;
  }
  if (to_send) plan_send(node, *to_send, step);
  return step;
}

void FanOut::record(NodeIndex node, std::size_t pack, bool is_there) {
  NodeState& state = nodes_[node];
  PackState& shared = *state.packs[pack];
  state.have[pack] = is_there ? Have::kYes : Have::kNo;
  std::erase(shared.receivers, node);
  if (!is_there) return;
  --state.left;
  std::erase(shared.lacking, node);
  if (state.serves) shared.holders.push_back(node);
}

void FanOut::arrived(NodeIndex node, std::size_t pack) {
  const std::lock_guard lock(mutex_);
  record(node, pack, true);
  notify();
}

void FanOut::pulled(NodeIndex node, const Step& step, std::size_t count, bool reached) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < step.packs.size(); ++i) record(node, step.packs[i], i < count);
  NodeState& state = nodes_[node];
  NodeState& from = nodes_[step.from];
  --from.pulls;
  if (reached) {
    state.pulled = from.reached = true;
  } else {
    from.not_reached_by.insert(node);
  }
  // Includes a node that answered but did not deliver everything.
  if (count < step.packs.size()) state.avoids.insert(step.from);
  notify();
}

void FanOut::leave(NodeIndex node) {
  const std::lock_guard lock(mutex_);
  NodeState& state = nodes_[node];
  state.active = false;
  for (PackState* const pack : state.packs) {
    std::erase(pack->lacking, node);
    std::erase(pack->receivers, node);
  }
  notify();
}

void FanOut::notify() {
  ++changes_;
  changed_.notify_all();
}

void FanOut::wait(std::uint64_t seen, Duration patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return changes_ != seen; });
}

std::optional<std::uint64_t> FanOut::unfinished() const {
  const std::lock_guard lock(mutex_);
  if (std::ranges::any_of(nodes_, &NodeState::wants)) return changes_;
  return std::nullopt;
}

std::vector<std::string> FanOut::connection_problems() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (const NodeState& node : nodes_) {
    if (!node.announced) continue;
    if (node.reaches_none())
      found.push_back(fmt::format("{} cannot connect to the other nodes", node.name));
    if (!node.serves || node.unreachable())
      found.push_back(fmt::format("{} cannot be reached from the other nodes", node.name));
  }
  return found;
}

}  // namespace paddle::remote

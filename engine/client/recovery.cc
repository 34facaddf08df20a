#include "engine/client/recovery.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace paddle::client {
namespace {

// Limit for trainer 0 to send Ready to all ports, one after the other.
constexpr Duration kStartMax = std::chrono::seconds(10);
// Limit for a port to read its savepoint; it answers no trainer meanwhile.
constexpr Duration kRollbackMax = std::chrono::minutes(10);

// Whether all trainers have passed the barrier after their last pass and the barrier at the end of
// the job. A job that stops early passes both before its last configured pass.
bool has_met_at_end(const wire::Position& position) {
  return position.pauses() > 1 &&
         std::ranges::all_of(position.pass_batches(), [](std::uint64_t n) { return n == 0; });
}

Error no_way_back() {
  return {Errc::kUnreachable,
          "a pserver was restarted, and there is no savepoint to restore it from",
          "the whole job resumes from its last snapshot"};
}

}  // namespace

Recovery::Recovery(const wire::ParameterSet& parameters, std::uint32_t trainer,
                   std::uint64_t passes)
    : parameters_(parameters.SerializeAsString()),
      trainer_(trainer),
      passes_(passes),
      dense_shards_(parameters.dense_shards()),
      positions_(dense_shards_ + parameters.sparse_shards()) {}

// Requests and limits of each state.

std::optional<Recovery::Request> Recovery::request(std::size_t shard) const {
  if (state_ == State::kJoin) {
    const bool is_sparse = shard >= dense_shards_;
    wire::Join join;
    join.set_shard(static_cast<std::uint32_t>(is_sparse ? shard - dense_shards_ : shard));
    join.set_is_sparse(is_sparse);
    Bytes tail;
    append_bytes(tail, std::span<const char>(parameters_));
    return Request{FrameType::kJoin, std::move(join), std::move(tail)};
  }
  if (state_ == State::kGoBack && rollback_[shard]) {
    wire::GoBack go_back;
    go_back.set_savepoint(*rollback_[shard]);
    return Request{FrameType::kGoBack, std::move(go_back), {}};
  }
  if (state_ == State::kReady) return Request{FrameType::kReady, wire::Ready(), {}};
  return std::nullopt;
}

std::optional<Duration> Recovery::silence_max() const {
  return state_ == State::kGoBack ? std::optional(kRollbackMax) : std::nullopt;
}

// A trainer may wait at a port that runs, while another port waits for Ready of trainer 0.
std::optional<Duration> Recovery::patience_max() const {
  return state_ == State::kReady && has_no_way_back_ ? std::optional(kStartMax) : std::nullopt;
}

// How each state ends.

Status Recovery::end_state(Status asked) {
  if (!asked) {
    if (state_ != State::kReady || !has_no_way_back_) return asked;
    state_ = State::kLost;
    return no_way_back();
  }
  switch (state_) {
    case State::kJoin:
      state_ = after_join();
      return state_ == State::kLost ? Status(no_way_back()) : Status();
    case State::kGoBack:
      state_ = State::kReady;
      return {};
    case State::kReady: {
      LinkPositions all = links(false);
      all.add(links(true));
      state_ = all.is_split() ? State::kRepeat : State::kTrain;
      return {};
    }
    case State::kLoad:
    case State::kRepeat:
    case State::kTrain:
    case State::kOver:
    case State::kLost:
      break;
  }
  PADDLE_CHECK(false);  // these states have no requests
  return {};
}

Recovery::State Recovery::after_join() {
  if (is_over()) return State::kOver;
  for (const wire::Position& position : positions_) plan_.add(position);
  if (plan_.all_run()) return State::kReady;
  const bool decides = trainer_ == 0;
  if (auto savepoints = plan_.savepoints()) {
    if (!decides) return State::kReady;
    rollback_ = *std::move(savepoints);
    return State::kGoBack;
  }
  if (plan_.none_runs()) return decides ? State::kLoad : State::kReady;
  // For other trainers this is perhaps no loss: trainer 0 sends Ready to one port after the other,
  // and they may have joined in between. kReady finds out.
  has_no_way_back_ = true;
  return decides ? State::kLost : State::kReady;
}

// Another trainer has left: it had passed the last barrier, and everything is saved.
bool Recovery::is_over() const {
  return std::ranges::any_of(positions_, [&](const wire::Position& position) {
    return position.ready() && position.left() &&
           (position.passes_finished() >= passes_ || has_met_at_end(position));
  });
}

LinkPositions Recovery::links(bool sparse) const {
  LinkPositions links;
  const std::size_t begin = sparse ? dense_shards_ : 0;
  const std::size_t end = sparse ? positions_.size() : dense_shards_;
  for (std::size_t shard = begin; shard < end; ++shard) {
    links.add(position_of(positions_[shard], trainer_), positions_[shard].has_rounds());
  }
  return links;
}

std::optional<wire::PassOrigin> Recovery::origin() const {
  std::optional<wire::PassOrigin> origin;
  for (const wire::Position& position : positions_) {
    if (position.has_origin()) origin = position.origin();
  }
  return origin;
}

// kJoin: the savepoints to go back to.

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

// kReady and later: where the trainer goes on, and what shards lack.

TrainerPosition position_of(const wire::Position& position, std::uint32_t trainer) {
  const auto id = static_cast<int>(trainer);
  return {position.passes_finished(), position.pauses(),
          id < position.pass_batches_size() ? position.pass_batches(id) : 0};
}

TrainerPosition LinkPositions::start() const {
  TrainerPosition earliest{std::numeric_limits<std::uint64_t>::max(), 0, 0};
  for (const Link& link : links_) earliest = std::min(earliest, link.position);
  return earliest;
}

TrainerPosition LinkPositions::furthest() const {
  TrainerPosition furthest;
  for (const Link& link : links_) furthest = std::max(furthest, link.position);
  return furthest;
}

bool LinkPositions::is_split() const {
  const Link* earliest = nullptr;
  for (const Link& link : links_) {
    if (!link.in_rounds) continue;
    if (earliest == nullptr || link.position < earliest->position) earliest = &link;
  }
  // A trainer ends a pass, or pauses in it, only after every link has the pushes before that. So a
  // link in a later pass or pause has no push that the earliest link lacks.
  return std::ranges::any_of(links_, [&](const Link& link) {
    return link.in_rounds && link.position.passes == earliest->position.passes &&
           link.position.pauses == earliest->position.pauses &&
           link.position.batches != earliest->position.batches;
  });
}

bool LinkPositions::is_behind(TrainerPosition now) const {
  return std::ranges::any_of(links_, [&](const Link& link) { return link.position > now; });
}

void LinkPositions::on_push(TrainerPosition push) {
  for (Link& link : links_) link.position = std::max(link.position, push);
}

// kRepeat: shards without rounds may be several batches behind the kept push. The trainer computes
// these batches again.
bool repeats_push(const JobProgress& now, std::uint64_t pass, std::uint64_t batch) {
  const std::uint64_t next = now.batches + 1;
  return pass == now.passes && (batch == next || (batch > next && now.is_split));
}

// kTrain: pushes ask for the savepoints that the next loss needs.

void note_savepoints(std::span<const ClientLane* const> in_rounds, wire::PushPart& part) {
  if (in_rounds.empty()) return;
  const ClientLane& leading = *in_rounds.front();
  part.set_savepoint(leading.savepoint_asked());
  // A push may only name a savepoint that all shards have: if they report different ones, it names
  // none.
  const auto is_other = [&](const ClientLane* link) {
    return link->whole_savepoint() != leading.whole_savepoint();
  };
  if (std::ranges::none_of(in_rounds, is_other))
    part.set_whole_savepoint(leading.whole_savepoint());
}

}  // namespace paddle::client

// Joining of a job: anew, while it runs, or after some of its shards have lost their parameters.
#include <algorithm>

#include <fmt/format.h>

#include "engine/client/shard_channels.h"
#include "engine/parameter/parameter_set.h"

namespace paddle::client {
namespace {

// In which trainer 0 tells all ports that the job starts.
constexpr Duration kStartMax = std::chrono::seconds(10);
// In which a port reads its cut; it answers nobody meanwhile.
constexpr Duration kWayBackMax = std::chrono::minutes(10);

// All have met after the last pass, and at the end: that may come before the job's last pass.
bool has_met_at_end(const wire::Position& position) {
  return position.pauses() > 1 &&
         std::ranges::all_of(position.pass_batches(), [](std::uint64_t n) { return n == 0; });
}

}  // namespace

Result<std::unique_ptr<ShardChannels>> ShardChannels::join(ShardOptions options, Links dense,
                                                           Links sparse) {
  const wire::ParameterSet& set = options.parameters;
  PADDLE_TRY_STATUS(parameter::validate(set));
  if (dense.size() != set.dense_shards() || sparse.size() != set.sparse_shards() ||
      dense.size() + sparse.size() == 0) {
    return Error{Errc::kUsage,
                 fmt::format("{} dense and {} sparse links for {} dense and {} sparse ports",
                             dense.size(), sparse.size(), set.dense_shards(), set.sparse_shards())};
  }
  std::unique_ptr<ShardChannels> channels(
      new ShardChannels(std::move(options), std::move(dense), std::move(sparse)));
  PADDLE_TRY_STATUS(channels->join());
  return channels;
}

Status ShardChannels::join() {
  const std::string set = options_.parameters.SerializeAsString();
  WayBack way_back;
  const auto ask = [&](ClientLanes& lanes, std::size_t i) {
    Bytes tail;
    append_bytes(tail, std::span<const char>(set));
    wire::Join message;
    message.set_shard(static_cast<std::uint32_t>(i));
    message.set_is_sparse(&lanes == &sparse_.lanes());
    return lanes.send(i, FrameType::kJoin, message, std::move(tail));
  };
  const auto take = [&](ClientLanes& lanes, std::size_t i) -> Status {
    PADDLE_TRY(const Frame frame, lanes.receive(i, FrameType::kPosition));
    wire::Position position;
    PADDLE_TRY_STATUS(lanes.parse(i, frame, position));
    way_back.add(position);
    is_over_ =
        is_over_ || (position.ready() && position.left() &&
                     (position.passes_finished() >= options_.passes || has_met_at_end(position)));
    return {};
  };
  PADDLE_TRY_STATUS(on_all(ask, take));
  if (is_over_) return {};
  is_running_ = way_back.all_run();
  if (is_running_) return {};
  const bool is_first = options_.lane.trainer_id == 0;
  if (const auto cuts = way_back.cuts()) return is_first ? go_back(*cuts) : Status();
  if (way_back.none_runs()) return {};
  loss_ = Error{Errc::kUnreachable,
                "a pserver was started again, and there is no cut that it can go on from",
                "all of the job goes back to its last snapshot"};
  // The others may have joined while trainer 0 says on port after port that the job starts.
  if (!is_first) return {};
  abandon(*loss_);
  return *loss_;
}

Status ShardChannels::go_back(const std::vector<std::optional<std::uint64_t>>& cuts) {
  const auto cut_of = [&](const ClientLanes& lanes, std::size_t i) {
    return cuts[&lanes == &dense_.lanes() ? i : dense_.lanes().size() + i];
  };
  const auto ask = [&](ClientLanes& lanes, std::size_t i) -> Status {
    const auto cut = cut_of(lanes, i);
    if (!cut) return {};
    wire::GoBack message;
    message.set_cut(*cut);
    return lanes.send(i, FrameType::kGoBack, message, {});
  };
  const auto take = [&](ClientLanes& lanes, std::size_t i) -> Status {
    if (!cut_of(lanes, i)) return {};
    PADDLE_TRY(const Frame frame, lanes.receive(i, FrameType::kPosition));
    wire::Position position;
    return lanes.parse(i, frame, position);
  };
  for (ClientLanes* lanes : {&dense_.lanes(), &sparse_.lanes()}) lanes->set_deadline(kWayBackMax);
  Status done = on_all(ask, take);
  for (ClientLanes* lanes : {&dense_.lanes(), &sparse_.lanes()}) {
    lanes->set_deadline(options_.deadline);
  }
  is_running_ = true;
  return done;
}

// Trainer 0 may wait at a port that runs, and never learn that another one needs it.
Status ShardChannels::give_up_after_loss(Status asked) {
  dense_.lanes().set_patience(Duration::max());
  sparse_.lanes().set_patience(Duration::max());
  if (asked || !loss_) return asked;
  abandon(*loss_);
  return *loss_;
}

Status ShardChannels::ready() {
  CatchUp dense;
  CatchUp sparse;
  std::uint64_t loaded = 0;
  in_rounds_.clear();
  const auto take = [&](ClientLanes& lanes, std::size_t i, const Frame& frame) -> Status {
    wire::Position position;
    PADDLE_TRY_STATUS(lanes.parse(i, frame, position));
    loaded = position.passes_loaded();
    if (position.has_origin()) origin_ = position.origin();
    const bool is_dense = &lanes == &dense_.lanes();
    (is_dense ? dense : sparse)
        .add(position_of(position, options_.lane.trainer_id), position.has_rounds());
    if (position.has_rounds()) in_rounds_.push_back(&lanes.at(i));
    return {};
  };
  if (loss_) {
    dense_.lanes().set_patience(kStartMax);
    sparse_.lanes().set_patience(kStartMax);
  }
  PADDLE_TRY_STATUS(
      give_up_after_loss(ask_all(FrameType::kReady, wire::Ready(), FrameType::kPosition, take)));
  passes_loaded_ = loaded;
  position_ = std::min(dense.start(), sparse.start());
  furthest_ = std::max(dense.furthest(), sparse.furthest());
  dense_.lanes().set_catch_up(std::move(dense));
  sparse_.lanes().set_catch_up(std::move(sparse));
  set_position(position_);
  return {};
}

}  // namespace paddle::client

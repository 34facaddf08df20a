#include "engine/client/shard_channels.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/rng.h"
#include "engine/math/optimizer.h"
#include "engine/table/parameter_set.h"

namespace paddle::client {
namespace {

constexpr std::size_t kReasonBytesMax = 2000;  // limit for a reason, and for a hint

}  // namespace

ShardChannels::ShardChannels(ChannelOptions options, Links dense, Links sparse)
    : options_(std::move(options)),
      dense_(options_.parameters,
             ClientLanes("dense", std::move(dense), options_.lane, 0, options_.deadline),
             options_.transfer_bytes, options_.loans),
      sparse_(options_.parameters,
              ClientLanes("sparse", std::move(sparse), options_.lane,
                          static_cast<std::uint16_t>(dense_.lanes().size()), options_.deadline),
              options_.transfer_bytes, options_.row_loans),
      recovery_(options_.parameters, options_.lane.trainer_id, options_.passes) {
  for (ClientLanes* lanes : {&dense_.lanes(), &sparse_.lanes()}) {
    lanes->set_on_waiting(options_.on_waiting);
    lanes->set_pull_silence(options_.pull_silence_max);
  }
  dense_.lanes().look_after(sparse_.lanes());
  sparse_.lanes().look_after(dense_.lanes());
}

// Joining a job: at its start, while it runs, or after some of its shards lost their parameters.

Result<std::unique_ptr<ShardChannels>> ShardChannels::join(ChannelOptions options, Links dense,
                                                           Links sparse) {
  const wire::ParameterSet& set = options.parameters;
  PADDLE_TRY_STATUS(parameter::validate(set));
  if (dense.size() != set.dense_shards() || sparse.size() != set.sparse_shards() ||
      dense.size() + sparse.size() == 0) {
    return Error{Errc::kUsage,
                 fmt::format("the numbers of links and ports differ: {} dense and {} sparse links "
                             "for {} dense and {} sparse ports",
                             dense.size(), sparse.size(), set.dense_shards(), set.sparse_shards())};
  }
  std::unique_ptr<ShardChannels> channels(
      new ShardChannels(std::move(options), std::move(dense), std::move(sparse)));
  const Recovery& recovery = channels->recovery_;
  do {
    PADDLE_TRY_STATUS(channels->run_state());
  } while (recovery.state() == Recovery::State::kGoBack);
  return channels;
}

// Sends the requests of the machine's state, and gives it the answers.
Status ShardChannels::run_state() {
  const auto ask = [&](ClientLanes& lanes, std::size_t i) -> Status {
    auto request = recovery_.request(shard_of(lanes, i));
    if (!request) return {};
    const auto send = [&](const auto& message) {
      return lanes.send(i, request->type, message, std::move(request->tail));
    };
    return std::visit(send, request->message);
  };
  const auto take = [&](ClientLanes& lanes, std::size_t i) -> Status {
    const std::size_t shard = shard_of(lanes, i);
    if (!recovery_.is_asked(shard)) return {};
    PADDLE_TRY_STATUS(lanes.receive(i, FrameType::kPosition));
    recovery_.on_position(shard, lanes.at(i).answer<wire::Position>());
    return {};
  };
  const auto set_limits = [&](std::optional<Duration> silence, std::optional<Duration> patience) {
    for (ClientLanes* lanes : {&dense_.lanes(), &sparse_.lanes()}) {
      lanes->set_deadline(silence.value_or(options_.deadline));
      lanes->set_patience(patience.value_or(Duration::max()));
    }
  };
  set_limits(recovery_.silence_max(), recovery_.patience_max());
  Status ended = recovery_.end_state(on_all(ask, take));
  set_limits({}, {});
  if (recovery_.state() == Recovery::State::kLost) abandon(ended.error());
  return ended;
}

Status ShardChannels::ready() {
  recovery_.begin_ready();
  PADDLE_TRY_STATUS(run_state());
  in_rounds_.clear();
  PADDLE_TRY_STATUS(on_each([&](const ClientLanes& lanes, std::size_t i) -> Status {
    if (recovery_.in_rounds(shard_of(lanes, i))) in_rounds_.push_back(&lanes.at(i));
    return {};
  }));
  LinkPositions all;
  for (const bool is_sparse : {false, true}) {
    LinkPositions links = recovery_.links(is_sparse);
    all.add(links);
    (is_sparse ? sparse_.lanes() : dense_.lanes()).set_link_positions(std::move(links));
  }
  position_ = all.start();
  furthest_ = all.furthest();
  is_paused_ = position_.pauses > 0;  // an earlier process may have paused to save
  set_position(position_);
  return {};
}

void ShardChannels::set_position(TrainerPosition position) {
  dense_.lanes().set_position(position);
  sparse_.lanes().set_position(position);
}

// Pushes and pulls.

Status ShardChannels::push(const PushTotals& totals, std::span<DenseParameter> dense) {
  PADDLE_TRY(auto push, dense_.prepare(part_of(totals, has_rounds(dense_.lanes())), dense,
                                       totals.node_samples));
  PADDLE_TRY_STATUS(push.send());
  PADDLE_TRY_STATUS(push.receive());
  note_stop(dense_.lanes());
  return {};
}

Status ShardChannels::push(const PushTotals& totals, std::span<const SparseRows> rows) {
  PADDLE_TRY(auto push, sparse_.prepare(part_of(totals, has_rounds(sparse_.lanes())), rows));
  PADDLE_TRY_STATUS(push.send());
  PADDLE_TRY_STATUS(push.receive());
  note_stop(sparse_.lanes());
  return {};
}

Status ShardChannels::push(const PushTotals& totals, std::span<DenseParameter> dense,
                           std::span<const SparseRows> rows) {
  wire::PushPart part = part_of(totals, has_rounds(dense_.lanes()));
  PADDLE_TRY(auto dense_push, dense_.prepare(part, dense));
  const bool stops = part.stop();  // one answer to "stop?" for both kinds
  part = part_of(totals, has_rounds(sparse_.lanes()));
  part.set_stop(stops);
  PADDLE_TRY(auto rows_push, sparse_.prepare(part, rows));
  if (options_.run_pair && dense_.lanes().size() > 0 && sparse_.lanes().size() > 0) {
    std::array<Status, 2> outcomes;
    const auto run = [](auto& push) -> Status {
      PADDLE_TRY_STATUS(push.send());
      return push.receive();
    };
    options_.run_pair([&](std::size_t i) {
      if (i == 0) outcomes[0] = run(dense_push);
      if (i == 1) outcomes[1] = run(rows_push);
    });
    for (Status& outcome : outcomes) PADDLE_TRY_STATUS(std::move(outcome));
  } else {
    PADDLE_TRY_STATUS(dense_push.send());
    PADDLE_TRY_STATUS(rows_push.send());
    PADDLE_TRY_STATUS(dense_push.receive());
    PADDLE_TRY_STATUS(rows_push.receive());
  }
  note_stop(dense_.lanes());
  note_stop(sparse_.lanes());
  return {};
}

// Whether these lanes are in rounds. Only then may a push read their latest answers: otherwise
// another thread may be receiving answers on them.
bool ShardChannels::has_rounds(const ClientLanes& lanes) const {
  return lanes.size() > 0 && std::ranges::count(in_rounds_, &lanes.at(0)) > 0;
}

wire::PushPart ShardChannels::part_of(const PushTotals& totals, bool in_rounds) const {
  wire::PushPart part;
  part.set_samples(totals.samples);
  part.set_cost_sum(totals.cost);
  if (totals.batches > 1) part.set_batches(totals.batches);
  part.set_stop(asks_to_stop_);
  if (in_rounds) note_savepoints(in_rounds_, part);
  return part;
}

void ShardChannels::note_stop(const ClientLanes& lanes) {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes.at(i).stop_asked()) stop_asked_ = true;
  }
}

Status ShardChannels::pull_averages(std::span<DenseParameter> dense, std::span<SparseRows> rows) {
  const wire::Optimizer& optimizer = options_.parameters.optimizer();
  if (!dense.empty()) {
    const bool averages = optim::has_average(optimizer);
    const auto plane = static_cast<std::uint32_t>(optim::state_width(optimizer));
    PADDLE_TRY_STATUS(averages ? dense_.pull_plane(plane, dense) : dense_.pull(dense));
  }
  return sparse_.pull(rows, SparseChannel::Reads::kToTest);
}

// The end of a pass, and pauses in it.

Result<PassTotals> ShardChannels::end_pass(const Tally& tally, bool pauses, const Around& around) {
  PassTotals totals;
  wire::FinishPass message;
  message.set_pass(position_.passes);
  message.set_pause(pauses);
  message.set_pauses(position_.pauses);
  // Only the first shard adds up the tallies of all trainers.
  const auto has_tally = [&](const ClientLanes& lanes, std::size_t i) {
    return &lanes == &primary() && i == 0;
  };
  const auto ask = [&](ClientLanes& lanes, std::size_t i) {
    const bool counts = has_tally(lanes, i);
    message.set_counts(counts ? tally.counts.size() : 0);
    message.set_sums(counts ? tally.sums.size() : 0);
    message.set_histograms(counts ? tally.histograms.size() : 0);
    message.set_grouped(counts ? tally.grouped.size() : 0);
    return lanes.send(i, FrameType::kFinishPass, message, counts ? encode(tally) : Bytes());
  };
  const auto take = [&](ClientLanes& lanes, std::size_t i) -> Status {
    PADDLE_TRY(const Frame frame, lanes.receive(i, FrameType::kPassFinished));
    const auto& finished = lanes.at(i).answer<wire::PassFinished>();
    add(finished, i == 0, &lanes == &dense_.lanes() ? totals.dense : totals.sparse, totals);
    if (!has_tally(lanes, i)) return {};
    totals.paused = is_paused_ = finished.paused();
    totals.samples = finished.samples();
    totals.cost = finished.cost_sum();
    auto sum = decode_tally(frame.tail, finished.counts(), finished.sums(), finished.histograms(),
                            finished.grouped());
    if (!sum) return lanes.malformed(i, "tail");
    totals.tally = *std::move(sum);
    return {};
  };
  PADDLE_TRY_STATUS(on_each(ask));
  const auto await = [&] { return on_each(take); };
  PADDLE_TRY_STATUS(around ? around(await) : await());
  position_ = totals.paused ? TrainerPosition{position_.passes, position_.pauses + 1, batches()}
                            : TrainerPosition{position_.passes + 1, 0, 0};
  set_position(position_);
  return totals;
}

std::uint64_t ShardChannels::batches() const {
  return std::max(dense_.lanes().position().batches, sparse_.lanes().position().batches);
}

void ShardChannels::add(const wire::PassFinished& finished, bool is_first, PushCounts& counts,
                        PassTotals& totals) {
  totals.discarded = std::max(totals.discarded, finished.discarded());
  for (const wire::TableStatus& status : finished.tables()) {
    TableTotals& table = totals.tables[status.parameter()];
    table.rows += status.rows();
    table.bytes += status.bytes();
    table.payload_bytes += status.payload_bytes();
    table.candidates += status.candidates();
    table.expired += status.expired();
    table.evicted += status.evicted();
    table.shrunk += status.shrunk();
  }
  if (!is_first) return;
  counts.pushes = finished.pushes();
  counts.batches = finished.batches();
  counts.lags.assign(finished.lags().begin(), finished.lags().end());
}

// Repeats, for shards that lack a push, and for the totals of an end that this trainer has passed.

Status ShardChannels::repeat_push(TrainerPosition end, const PushTotals& totals,
                                  std::optional<std::span<DenseParameter>> dense,
                                  std::optional<std::span<const SparseRows>> rows) {
  // Pushes are kept only for a kind in rounds; otherwise the trainer computes the push again.
  if (!has_rounds(dense_.lanes())) dense.reset();
  if (!has_rounds(sparse_.lanes())) rows.reset();
  if (!dense && !rows) return {};
  TrainerPosition before = end;
  before.batches -= totals.batches;
  if (dense) dense_.lanes().set_position(before);
  if (rows) sparse_.lanes().set_position(before);
  if (dense && rows) {
    PADDLE_TRY_STATUS(push(totals, *dense, *rows));
  } else {
    PADDLE_TRY_STATUS(dense ? push(totals, *dense) : push(totals, *rows));
  }
  if (dense) dense_.lanes().on_repeat(end);
  if (rows) sparse_.lanes().on_repeat(end);
  LinkPositions all = dense_.lanes().link_positions();
  all.add(sparse_.lanes().link_positions());
  recovery_.on_repeated(all);
  position_ = all.start();
  set_position(position_);
  return {};
}

// Counts back, so that the next end_pass() asks for the end before. The shards have kept its
// totals: those of the last kEndedPasses passes, and of the last pause (PassEnd::answer_repeat).
void ShardChannels::repeat_end(bool pauses) {
  PADDLE_CHECK(position_.batches == 0);
  if (pauses) {
    PADDLE_CHECK(position_.pauses > 0);
    --position_.pauses;
    return;
  }
  PADDLE_CHECK(position_.passes > 0 && position_.pauses == 0);
  --position_.passes;
}

// The end of the session, and how far the job is.

// A port that has ended must not keep this trainer from sending Leave to the others.
Status ShardChannels::leave() {
  Status left;
  for (ClientLanes* lanes : {&dense_.lanes(), &sparse_.lanes()}) {
    for (std::size_t i = 0; i < lanes->size(); ++i) {
      auto done = lanes->exchange(i, FrameType::kLeave, wire::Leave(), {}, FrameType::kDone);
      if (!done && left) left = std::move(done).error();
    }
  }
  return left;
}

void ShardChannels::abandon(const Error& why) {
  wire::Abandon message;
  message.set_reason(why.message.substr(0, kReasonBytesMax));
  message.set_hint(why.hint.substr(0, kReasonBytesMax));
  message.set_is_unreachable(why.code == Errc::kUnreachable);
  message.set_exit_code(static_cast<std::uint32_t>(why.code));
  dense_.lanes().abandon(message);
  sparse_.lanes().abandon(message);
}

JobProgress ShardChannels::progress() const {
  const ClientLanes& first = dense_.lanes().size() > 0 ? dense_.lanes() : sparse_.lanes();
  JobProgress progress;
  progress.samples = first.at(0).samples();
  progress.passes = position_.passes;
  progress.batches = position_.batches;
  progress.pauses = position_.pauses;
  progress.passes_loaded = recovery_.passes_loaded();
  progress.is_running = recovery_.is_running();
  progress.is_over = recovery_.state() == Recovery::State::kOver;
  progress.furthest = furthest_;
  progress.origin = recovery_.origin();
  progress.is_split = recovery_.state() == Recovery::State::kRepeat;
  for (const ClientLanes* lanes : {&dense_.lanes(), &sparse_.lanes()}) {
    for (std::size_t i = 0; i < lanes->size(); ++i) {
      progress.generations = hash_combine(progress.generations, lanes->at(i).server_generation());
    }
  }
  return progress;
}

}  // namespace paddle::client

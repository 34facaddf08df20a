#include "engine/client/shard_channels.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"

namespace paddle::client {

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

ShardChannels::ShardChannels(ShardOptions options, Links dense, Links sparse)
    : options_(std::move(options)),
      dense_(options_.parameters,
             ClientLanes("dense", std::move(dense), options_.lane, 0, options_.deadline),
             options_.transfer_bytes, options_.loans),
      sparse_(options_.parameters,
              ClientLanes("sparse", std::move(sparse), options_.lane,
                          static_cast<std::uint16_t>(dense_.lanes().size()), options_.deadline),
              options_.transfer_bytes) {}

Status ShardChannels::join() {
  const std::string set = options_.parameters.SerializeAsString();
  return on_all(
      [&](ClientLanes& lanes, std::size_t i) {
        Bytes tail;
        append_bytes(tail, std::span<const char>(set));
        wire::Join message;
        message.set_shard(static_cast<std::uint32_t>(i));
        message.set_is_sparse(&lanes == &sparse_.lanes());
        return lanes.send(i, FrameType::kJoin, message, std::move(tail));
      },
      [&](ClientLanes& lanes, std::size_t i) -> Status {
        PADDLE_TRY_STATUS(lanes.receive(i, FrameType::kPosition));
        return {};
      });
}

Status ShardChannels::ready() {
  return ask_all(FrameType::kReady, wire::Ready(), FrameType::kPosition);
}

JobProgress ShardChannels::progress() const {
  const ClientLanes& lanes = dense_.lanes().size() > 0 ? dense_.lanes() : sparse_.lanes();
  const ClientLane& first = lanes.at(0);
  return {first.samples(), first.passes_finished(), first.pass_batches()};
}

Status ShardChannels::pull_averages(std::span<DenseParameter> dense, std::span<SparseRows> rows) {
  const wire::Optimizer& optimizer = options_.parameters.optimizer();
  const bool averages = optim::has_average(optimizer);
  if (!dense.empty()) {
    const auto plane = static_cast<std::uint32_t>(optim::state_width(optimizer));
    PADDLE_TRY_STATUS(averages ? dense_.pull_plane(plane, dense) : dense_.pull(dense));
  }
  return sparse_.pull(rows, averages);
}

wire::PushPart ShardChannels::part_of(const PushTotals& totals) const {
  wire::PushPart part;
  part.set_samples(totals.samples);
  part.set_cost_sum(totals.cost);
  if (totals.batches > 1) part.set_batches(totals.batches);
  part.set_stop(asks_to_stop_);
  return part;
}

void ShardChannels::note_stop(const ClientLanes& lanes) {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes.at(i).stop_asked()) stop_asked_ = true;
  }
}

template <class Push>
Status ShardChannels::run(Push& push, const ClientLanes& lanes) {
  PADDLE_TRY_STATUS(push.send_early());
  PADDLE_TRY_STATUS(push.send_last());
  PADDLE_TRY_STATUS(push.receive());
  note_stop(lanes);
  return {};
}

Status ShardChannels::push(const PushTotals& totals, std::span<DenseParameter> dense) {
  PADDLE_TRY(auto push, dense_.prepare(part_of(totals), dense));
  return run(push, dense_.lanes());
}

Status ShardChannels::push(const PushTotals& totals, std::span<const SparseRows> rows) {
  PADDLE_TRY(auto push, sparse_.prepare(part_of(totals), rows));
  return run(push, sparse_.lanes());
}

Status ShardChannels::push(const PushTotals& totals, std::span<DenseParameter> dense,
                           std::span<const SparseRows> rows) {
  const wire::PushPart part = part_of(totals);  // one answer to "stop?" for both kinds
  PADDLE_TRY(auto dense_push, dense_.prepare(part, dense));
  PADDLE_TRY(auto rows_push, sparse_.prepare(part, rows));
  if (options_.run_pair && dense_.lanes().size() > 0 && sparse_.lanes().size() > 0) {
    std::array<Status, 2> outcomes;
    options_.run_pair([&](std::size_t i) {
      if (i == 0) outcomes[0] = run(dense_push, dense_.lanes());
      if (i == 1) outcomes[1] = run(rows_push, sparse_.lanes());
    });
    PADDLE_TRY_STATUS(std::move(outcomes[0]));
    return std::move(outcomes[1]);
  }
  PADDLE_TRY_STATUS(dense_push.send_early());
  PADDLE_TRY_STATUS(rows_push.send_early());
  PADDLE_TRY_STATUS(dense_push.send_last());
  PADDLE_TRY_STATUS(rows_push.send_last());
  PADDLE_TRY_STATUS(dense_push.receive());
  PADDLE_TRY_STATUS(rows_push.receive());
  note_stop(dense_.lanes());
  note_stop(sparse_.lanes());
  return {};
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

Result<PassTotals> ShardChannels::end_pass(const Tally& tally, bool pauses) {
  PassTotals totals;
  wire::FinishPass message;
  message.set_pass(primary().at(0).passes_finished());
  message.set_pause(pauses);
  // One shard adds the tallies of all trainers: the first.
  const auto has_tally = [&](const ClientLanes& lanes, std::size_t i) {
    return &lanes == &primary() && i == 0;
  };
  const auto ask = [&](ClientLanes& lanes, std::size_t i) {
    const bool counts = has_tally(lanes, i);
    message.set_counts(counts ? tally.counts.size() : 0);
    message.set_sums(counts ? tally.sums.size() : 0);
    return lanes.send(i, FrameType::kFinishPass, message, counts ? encode(tally) : Bytes());
  };
  const auto take = [&](ClientLanes& lanes, std::size_t i) -> Status {
    PADDLE_TRY(const Frame frame, lanes.receive(i, FrameType::kPassFinished));
    wire::PassFinished finished;
    PADDLE_TRY_STATUS(lanes.parse(i, frame, finished));
    add(finished, i == 0, &lanes == &dense_.lanes() ? totals.dense : totals.sparse, totals);
    if (!has_tally(lanes, i)) return {};
    totals.paused = is_paused_ = finished.paused();
    totals.samples = finished.samples();
    totals.cost = finished.cost_sum();
    auto sum = decode_tally(frame.tail, finished.counts(), finished.sums());
    if (!sum) return lanes.malformed(i, "tail");
    totals.tally = *std::move(sum);
    return {};
  };
  PADDLE_TRY_STATUS(on_all(ask, take));
  return totals;
}

Status ShardChannels::leave() {
  return ask_all(FrameType::kLeave, wire::Leave(), FrameType::kDone);
}

}  // namespace paddle::client

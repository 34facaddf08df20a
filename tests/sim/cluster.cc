#include "tests/sim/cluster.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/parameter/partition.h"
#include "engine/strategy/strategy_table.h"

namespace paddle::sim {
namespace {

constexpr std::uint32_t kLedger = 0;
constexpr std::uint32_t kShared = 1;
constexpr std::uint32_t kRows = 2;
constexpr std::uint64_t kSharedSize = 24;
constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr Duration kResendAfter = std::chrono::milliseconds(300);
constexpr Duration kTimeMax = std::chrono::hours(2);  // of virtual time; a hang ends here

void add_parameter(wire::ParameterSet& set, const std::string& name, std::uint64_t rows,
                   std::uint64_t columns) {
  auto* const spec = set.add_parameters();
  spec->set_name(name);
  spec->add_dims(rows);
  spec->add_dims(columns);
  spec->set_sparse(rows == 0);
  spec->set_learning_rate(1);
}

}  // namespace

Cluster::Cluster(ClusterOptions options)
    : options_(std::move(options)), rng_(hash_combine(options_.seed, 0x636c7573746572)) {
  for (const std::uint32_t batches : options_.batches) cells_ += batches * options_.passes;
  set_.mutable_optimizer()->set_method("sgd");
  set_.mutable_optimizer()->set_learning_rate(1);
  add_parameter(set_, "ledger", cells_, 1);
  add_parameter(set_, "shared", kSharedSize, 1);
  add_parameter(set_, "rows", 0, 1);
  if (options_.strategy == wire::STRATEGY_GEO || options_.strategy == wire::STRATEGY_LOCAL_SGD) {
    set_.mutable_optimizer()->set_method("adagrad");  // the shards must not use it
    for (auto& spec : *set_.mutable_parameters()) spec.set_is_delta(true);
  }
  set_.set_dense_strategy(options_.strategy);
  set_.set_sparse_strategy(options_.strategy);
  set_.set_async_lagged_grad_discard_ratio(1e9F);
  if (is_half_async()) set_.set_merge(wire::MERGE_SUM);  // the ledger's ones stay ones
  if (options_.staleness_max) set_.set_staleness_max(*options_.staleness_max);
  set_.set_num_trainers(static_cast<std::uint32_t>(options_.batches.size()));
  set_.set_dense_shards(options_.pservers);
  set_.set_sparse_shards(options_.pservers);
  set_.set_min_block_size(1);
  layout_ = client::dense_layout(set_);
  for (std::uint32_t i = 0; i < 2 * options_.pservers; ++i) {
    shards_.push_back(std::make_unique<pserver::Shard>(
        pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                              .index = i % options_.pservers,
                              .is_sparse = is_sparse(i),
                              .num_gradient_servers = set_.num_trainers(),
                              .job_tag = 1,
                              .server_generation = 1}));
  }
  for (std::uint32_t id = 0; id < set_.num_trainers(); ++id) {
    SimTrainer& trainer = trainers_.emplace_back(
        SimTrainer{.lanes = {},
                   .shared = {},
                   .core = strategy::Communicator({.max_merge = options_.max_merge,
                                                   .send_queue_size = options_.send_queue_size,
                                                   .merge = wire::MERGE_SUM})});
    trainer.shared.resize(kSharedSize);
    for (std::uint32_t lane = 0; lane < shards_.size(); ++lane) {
      trainer.lanes.emplace_back(
          client::ClientLane::Options{.trainer_id = id,
                                      .job_tag = 1,
                                      .lane = static_cast<std::uint16_t>(lane),
                                      .resend_after = kResendAfter});
    }
  }
}

std::uint64_t Cluster::cell(std::uint32_t id, std::uint32_t pass, std::uint32_t batch) const {
  std::uint64_t first = 0;
  for (std::uint32_t i = 0; i < id; ++i) first += options_.batches[i] * options_.passes;
  return first + pass * options_.batches[id] + batch;
}

// A sync round takes the mean over the trainers that still have data: a gradient of minus their
// number adds exactly 1.
float Cluster::ledger_gradient(const SimTrainer& trainer) const {
  if (!is_sync()) return -1;
  const auto active = std::count_if(options_.batches.begin(), options_.batches.end(),
                                    [&](std::uint32_t n) { return n > trainer.batch; });
  return -static_cast<float>(active);
}

void Cluster::transmit(Event event) {
  const int copies = rng_.uniform() < options_.duplicate ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    if (rng_.uniform() < options_.drop) continue;
    Event copy = event;
    copy.at = now_ + std::chrono::milliseconds(1 + rng_.below(options_.delay_max_ms));
    copy.order = order_++;
    queue_.push(std::move(copy));
  }
}

std::vector<client::DenseParameter> Cluster::dense_gradients(std::uint32_t id) const {
  const SimTrainer& trainer = trainers_[id];
  const std::uint64_t mine = cell(id, trainer.pass, trainer.batch);
  client::DenseParameter ledger{kLedger, {}, LargeArray<float>(cells_, 0.0F)};
  ledger.gradient[mine] = ledger_gradient(trainer);
  client::DenseParameter shared{kShared, {}, LargeArray<float>(kSharedSize, 0.0F)};
  Rng noise(hash_combine(id, mine));
  for (std::size_t i = 0; i < kSharedSize; ++i) {
    shared.gradient[i] = 0.3F * trainer.shared[i] + static_cast<float>(noise.normal());
  }
  return {std::move(ledger), std::move(shared)};
}

client::SparseRows Cluster::row_gradients(std::uint32_t id) const {
  const SimTrainer& trainer = trainers_[id];
  return {kRows, {row_id(cell(id, trainer.pass, trainer.batch))}, {}, {ledger_gradient(trainer)}};
}

void Cluster::push(std::uint32_t id, std::uint32_t shard) {
  SimTrainer& trainer = trainers_[id];
  const strategy::Window* const window = trainer.window;
  wire::PushPart part;
  part.set_parts(1);
  part.set_samples(window != nullptr ? window->samples : 1);
  if (window != nullptr) part.set_batches(window->batches);
  Bytes tail;
  Frame frame;
  if (is_sparse(shard)) {
    const client::SparseRows rows = window != nullptr ? window->rows[0] : row_gradients(id);
    std::vector<std::uint64_t> ids;
    std::vector<float> gradients;
    for (std::size_t i = 0; i < rows.ids.size(); ++i) {
      if (parameter::sparse_shard(rows.ids[i], options_.pservers) != shard - options_.pservers)
        continue;
      ids.push_back(rows.ids[i]);
      gradients.push_back(rows.gradients[i]);
    }
    wire::PushRows message;
    *message.mutable_part() = part;
    if (!ids.empty()) {
      message.add_segments()->set_parameter(kRows);
      message.mutable_segments(0)->set_count(ids.size());
      append_bytes(tail, std::span<const std::uint64_t>(ids));
      append_bytes(tail, std::span<const float>(gradients));
    }
    frame = trainer.lanes[shard].request(FrameType::kPushRows, message, std::move(tail), now_);
  } else {
    const auto dense = window != nullptr ? window->dense : dense_gradients(id);
    const client::DenseParameter* const parameters[] = {&dense[0], &dense[1], nullptr};
    const std::uint64_t size = layout_.sizes[shard];
    for (const ByteSpan piece : client::gather(layout_.pieces[shard], parameters, 0, size)) {
      append_bytes(tail, piece);
    }
    wire::PushDense message;
    *message.mutable_part() = part;
    message.set_count(size);
    frame = trainer.lanes[shard].request(FrameType::kPushDense, message, std::move(tail), now_);
  }
  transmit({.to_shard = true, .trainer = id, .shard = shard, .frame = std::move(frame)});
}

// half_async: the batch's gradients go into a window, and training goes on.
void Cluster::compute(std::uint32_t id) {
  SimTrainer& trainer = trainers_[id];
  const client::SparseRows rows = row_gradients(id);
  trainer.core.on_gradient({1, 1, 0}, dense_gradients(id), {&rows, 1});
  ++trainer.batch;
}

// With free lanes: sends the oldest window if the queue is full or the pass over, else by chance.
Cluster::Phase Cluster::after_window(std::uint32_t id) {
  SimTrainer& trainer = trainers_[id];
  const bool is_over = trainer.batch == options_.batches[id];
  if (is_over) trainer.core.flush();
  if (is_over || trainer.core.is_full() || rng_.uniform() < 0.3) {
    trainer.window = trainer.core.send();
    if (trainer.window != nullptr) return Phase::kPush;
  }
  return is_over ? Phase::kFinish : Phase::kPull;
}

void Cluster::request(std::uint32_t id, std::uint32_t shard) {
  SimTrainer& trainer = trainers_[id];
  client::ClientLane& lane = trainer.lanes[shard];
  Bytes tail;
  const auto send = [&](FrameType type, const auto& message) {
    transmit({.to_shard = true,
              .trainer = id,
              .shard = shard,
              .frame = lane.request(type, message, std::move(tail), now_)});
  };
  switch (trainer.phase) {
    case Phase::kJoin: {
      const std::string text = set_.SerializeAsString();
      append_bytes(tail, std::span<const char>(text));
      wire::Join message;
      message.set_shard(shard % options_.pservers);
      message.set_is_sparse(is_sparse(shard));
      return send(FrameType::kJoin, message);
    }
    case Phase::kReady:
      return send(FrameType::kReady, wire::Ready());
    case Phase::kPull: {
      if (!is_sparse(shard)) {
        wire::PullDense message;
        message.set_count(layout_.sizes[shard]);
        return send(FrameType::kPullDense, message);
      }
      wire::PullRows message;
      message.add_segments()->set_parameter(kRows);
      message.mutable_segments(0)->set_count(1);
      const std::uint64_t row = row_id(cell(id, trainer.pass, trainer.batch));
      append_bytes(tail, std::span<const std::uint64_t>(&row, 1));
      return send(FrameType::kPullRows, message);
    }
    case Phase::kPush:
      return push(id, shard);
    case Phase::kFinish: {
      wire::FinishPass message;
      message.set_pass(trainer.pass);
      return send(FrameType::kFinishPass, message);
    }
    case Phase::kLeave:
      return send(FrameType::kLeave, wire::Leave());
    case Phase::kDone:
      return;
  }
}

void Cluster::start_phase(std::uint32_t id) {
  for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) request(id, shard);
}

void Cluster::next_phase(std::uint32_t id) {
  SimTrainer& trainer = trainers_[id];
  const auto batch_or_finish = [&] {
    if (is_half_async()) return after_window(id);
    return trainer.batch < options_.batches[id] ? Phase::kPull : Phase::kFinish;
  };
  switch (trainer.phase) {
    case Phase::kJoin:
      trainer.phase = Phase::kReady;
      break;
    case Phase::kReady:
      trainer.phase = batch_or_finish();
      break;
    case Phase::kPull:
      if (is_half_async()) {
        compute(id);
        trainer.phase = after_window(id);
      } else {
        trainer.phase = Phase::kPush;
      }
      break;
    case Phase::kPush:
      if (is_half_async()) {
        trainer.core.on_answer();
        trainer.window = nullptr;
      } else {
        ++trainer.batch;
      }
      trainer.phase = batch_or_finish();
      break;
    case Phase::kFinish:
      trainer.batch = 0;
      trainer.phase = ++trainer.pass < options_.passes ? batch_or_finish() : Phase::kLeave;
      break;
    case Phase::kLeave:
    case Phase::kDone:
      trainer.phase = Phase::kDone;
      break;
  }
  start_phase(id);
  if (options_.killed == id && trainer.phase == Phase::kPush && trainer.pass == 0 &&
      trainer.batch == options_.killed_at_batch) {
    kill(id);
  }
}

// Frames that it has sent may still arrive, before or after the end of its connection.
void Cluster::kill(std::uint32_t id) {
  trainers_[id].is_dead = true;
  for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
    queue_.push({.at = now_ + std::chrono::milliseconds(1 + rng_.below(options_.delay_max_ms)),
                 .order = order_++,
                 .to_shard = true,
                 .is_disconnect = true,
                 .trainer = id,
                 .shard = shard,
                 .frame = {}});
  }
}

void Cluster::take_answer(std::uint32_t id, std::uint32_t shard, Frame&& answer) {
  SimTrainer& trainer = trainers_[id];
  if (answer.header.type == static_cast<std::uint8_t>(FrameType::kPassFinished) && id == 0 &&
      shard == 0) {
    wire::PassFinished finished;
    if (finished.ParseFromString(answer.head)) {
      outcome_.samples += finished.samples();
      outcome_.pushes += finished.pushes();
      outcome_.batches += finished.batches();
    }
  }
  const bool has_values =
      answer.header.type == static_cast<std::uint8_t>(FrameType::kDenseValues) ||
      answer.header.type == static_cast<std::uint8_t>(FrameType::kPushed);
  if (!is_sparse(shard) && has_values) {
    client::DenseParameter shared{kShared, std::move(trainer.shared), {}};
    client::DenseParameter* const parameters[] = {nullptr, &shared, nullptr};
    const std::span<const float> values(reinterpret_cast<const float*>(answer.tail.data()),
                                        answer.tail.size() / sizeof(float));
    client::scatter(layout_.pieces[shard], values, 0, parameters);
    trainer.shared = std::move(shared.value);
  }
  const bool has_open = std::any_of(trainer.lanes.begin(), trainer.lanes.end(),
                                    [](const auto& lane) { return lane.is_open(); });
  if (!has_open) next_phase(id);
}

void Cluster::transmit_all(std::uint32_t shard, std::vector<net::Outgoing>& out) {
  net::keep_views(out);
  for (net::Outgoing& outgoing : out) {
    transmit({.trainer = static_cast<std::uint32_t>(outgoing.to),
              .shard = shard,
              .frame = std::move(outgoing.frame)});
  }
}

void Cluster::deliver(Event&& event) {
  const FrameHeader& header = event.frame.header;
  std::uint64_t hash = hash_combine(static_cast<std::uint64_t>(event.at.time_since_epoch().count()),
                                    (std::uint64_t{event.trainer} << 32U) | event.shard);
  hash = hash_combine(hash, (header.sequence << 16U) | (std::uint64_t{header.type} << 1U) |
                                (event.to_shard ? 1U : 0U));
  hash = hash_combine(hash, stable_hash(as_text(event.frame.tail)));
  outcome_.events.push_back(hash);
  if (event.is_disconnect) {
    std::vector<net::Outgoing> out;
    shards_[event.shard]->on_disconnect(now_, event.trainer, out);
    transmit_all(event.shard, out);
    return;
  }
  if (event.to_shard) {
    if (header.type == static_cast<std::uint8_t>(FrameType::kPushDense)) {
      ++outcome_.pushes_delivered;
    }
    std::vector<net::Outgoing> out;
    shards_[event.shard]->on_frame(now_, event.trainer, std::move(event.frame), out);
    outcome_.clock_lead = std::max(outcome_.clock_lead, shards_[event.shard]->clock_lead());
    transmit_all(event.shard, out);
    return;
  }
  if (trainers_[event.trainer].is_dead) return;
  auto answer = trainers_[event.trainer].lanes[event.shard].on_frame(std::move(event.frame), now_);
  if (!answer) {
    outcome_.error =
        fmt::format("trainer {}, shard {}: {}", event.trainer, event.shard, answer.error().message);
  } else if (*answer) {
    take_answer(event.trainer, event.shard, **std::move(answer));
  }
}

void Cluster::tick() {
  for (std::uint32_t id = 0; id < trainers_.size(); ++id) {
    for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
      const Frame* const frame = trainers_[id].lanes[shard].on_tick(now_);
      if (frame == nullptr || trainers_[id].is_dead) continue;
      transmit({.to_shard = true, .trainer = id, .shard = shard, .frame = *frame});
    }
  }
  for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
    std::vector<net::Outgoing> out;
    shards_[shard]->on_tick(now_, out);
    transmit_all(shard, out);
  }
}

Outcome Cluster::run() {
  const auto is_done = [](const SimTrainer& trainer) {
    return trainer.is_dead || trainer.phase == Phase::kDone;
  };
  for (std::uint32_t id = 0; id < trainers_.size(); ++id) start_phase(id);
  TimePoint next_tick = now_ + kTick;
  while (outcome_.error.empty() && !std::all_of(trainers_.begin(), trainers_.end(), is_done)) {
    if (queue_.empty() || queue_.top().at >= next_tick) {
      now_ = next_tick;
      next_tick += kTick;
      tick();
      if (now_.time_since_epoch() > kTimeMax) outcome_.error = "hangs";
      continue;
    }
    Event event = queue_.top();
    queue_.pop();
    now_ = event.at;
    deliver(std::move(event));
  }
  if (outcome_.error.empty()) collect();
  return std::move(outcome_);
}

void Cluster::collect() {
  client::DenseParameter ledger{kLedger, LargeArray<float>(cells_, 0.0F), {}};
  client::DenseParameter shared{kShared, LargeArray<float>(kSharedSize, 0.0F), {}};
  client::DenseParameter* const parameters[] = {&ledger, &shared, nullptr};
  outcome_.row_ledger.resize(cells_, 0.0F);
  for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (!shards_[shard]->finished()) outcome_.error = fmt::format("shard {} is not done", shard);
    if (!is_sparse(shard)) {
      client::scatter(layout_.pieces[shard], shards_[shard]->dense()->values(), 0, parameters);
      continue;
    }
    for (std::uint64_t c = 0; c < cells_; ++c) {
      float value = 0;
      const std::uint64_t id = row_id(c);
      shards_[shard]->sparse(kRows)->read({&id, 1}, {&value, 1});
      outcome_.row_ledger[c] += value;
    }
  }
  outcome_.ledger = std::move(ledger.value);
  outcome_.shared = std::move(shared.value);
}

}  // namespace paddle::sim

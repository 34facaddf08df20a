#include "tests/sim/cluster.h"

#include <algorithm>

#include <fmt/format.h>

#include "tests/sim/trace.h"

namespace paddle::sim {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr Duration kTimeMax = std::chrono::hours(2);    // of virtual time; a hang ends here
constexpr Duration kCalmMax = std::chrono::seconds(5);  // without a step, faults being over
constexpr Duration kLastWaitMax = std::chrono::minutes(1);
constexpr std::size_t kEventsPerLaneMax = 64;

bool is_push(const Frame& frame) {
  return frame.header.type == static_cast<std::uint8_t>(FrameType::kPushDense) ||
         frame.header.type == static_cast<std::uint8_t>(FrameType::kPushRows);
}

}  // namespace

Cluster::Cluster(ClusterOptions options)
    : options_(std::move(options)),
      model_(options_),
      network_(options_, static_cast<std::uint32_t>(options_.batches.size())),
      rng_(hash_combine(options_.seed, 0x636c7573746572)),
      shards_(model_.shards()),
      pservers_(options_.pservers),
      processes_(options_.batches.size()),
      invariants_(model_, disk_, !options_.killed) {
  for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
    savepoint_disks_.push_back(
        std::make_unique<ShardDisk>(shard, options_.seed, options_.defers_savepoints, *this));
  }
  for (std::uint32_t id = 0; id < options_.batches.size(); ++id) {
    trainers_.emplace_back(id, options_, model_, disk_);
  }
  for (std::uint32_t i = 0; i < options_.faults.size(); ++i) {
    const Fault& fault = options_.faults[i];
    network_.schedule({.kind = EventKind::kFault, .who = i}, fault.at);
    calm_at_ = std::max(calm_at_, TimePoint(fault.at + fault.lasts));
  }
}

// The job is over; pservers may wait a while for the last trainer's next incarnation.
bool Cluster::is_over() {
  for (std::uint32_t id = 0; id < trainers_.size(); ++id) {
    if (!trainers_[id].is_done() && !processes_[id].is_dead) return false;
  }
  const TimePoint now = network_.now();
  if (!over_at_) over_at_ = now;
  return now - *over_at_ > kLastWaitMax ||
         std::ranges::all_of(shards_, [](const auto& shard) { return shard->finished(); });
}

Outcome Cluster::run() {
  for (std::uint32_t id = 0; id < pservers_.size(); ++id) start_pserver(id);
  for (std::uint32_t id = 0; id < trainers_.size(); ++id) start_trainer(id);
  TimePoint next_tick = network_.now() + kTick;
  while (outcome_.error.empty() && !is_over()) {
    if (network_.has_event_before(next_tick)) {
      Event event = network_.pop();
      network_.set_now(event.at);
      handle(std::move(event));
    } else {
      network_.set_now(next_tick);
      next_tick += kTick;
      tick();
    }
    if (!invariants_.broken().empty()) outcome_.error = invariants_.broken();
  }
  outcome_.time = network_.now().time_since_epoch();
  if (outcome_.error.empty()) collect();
  if (outcome_.error.empty()) outcome_.error = invariants_.broken();
  return std::move(outcome_);
}

void Cluster::tick() {
  const TimePoint now = network_.now();
  for (std::uint32_t id = 0; id < trainers_.size(); ++id) {
    if (processes_[id].is_stalled || trainers_[id].is_down()) continue;
    if (trainers_[id].phase() == Trainer::Phase::kConnect) connect(id);
    std::vector<LaneFrame> out;
    const Status ticked = trainers_[id].on_tick(now, out);
    take_outputs(id, out);
    if (!ticked) on_error(id, 0, ticked.error());
  }
  for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
    const Pserver& pserver = pservers_[pserver_of(shard)];
    if (!pserver.is_up || pserver.is_stalled) continue;
    std::vector<net::Outgoing> out;
    savepoint_disks_[shard]->work();
    shards_[shard]->on_tick(now, out);
    transmit_all(shard, out);
  }
  for (std::uint32_t id = 0; id < pservers_.size(); ++id) end_if_finished(id);
  if (network_.events() > kEventsPerLaneMax * trainers_.size() * shards_.size()) {
    invariants_.fail(fmt::format("I9: {} frames are under way", network_.events()));
  }
  if (now.time_since_epoch() > kTimeMax) outcome_.error = "hangs";
  if (!options_.faults.empty() && now >= calm_at_ && !over_at_) check_liveness();
}

// I8: once faults are over, a step is committed within five seconds, and another, to the end.
void Cluster::check_liveness() {
  const TimePoint now = network_.now();
  network_.calm();
  if (invariants_.progress() != progress_ || progressed_at_ < calm_at_) {
    progress_ = invariants_.progress();
    progressed_at_ = now;
  }
  const Duration waited = now - progressed_at_;
  outcome_.longest_calm_wait = std::max(outcome_.longest_calm_wait, waited);
  if (waited > kCalmMax) invariants_.fail("I8: no step within 5 s of the last fault");
}

void Cluster::note(const Event& event) {
  if (traces()) {
    const bool has_connection = event.kind == EventKind::kFrame || event.kind == EventKind::kClosed;
    trace(event, has_connection ? &network_.at(event.peer) : nullptr);
  }
  const FrameHeader& header = event.frame.header;
  std::uint64_t hash = hash_combine(static_cast<std::uint64_t>(event.at.time_since_epoch().count()),
                                    (event.peer << 20U) | event.who);
  hash = hash_combine(hash, (header.sequence << 16U) | (std::uint64_t{header.type} << 8U) |
                                (static_cast<std::uint64_t>(event.kind) << 1U) |
                                (event.to_shard ? 1U : 0U));
  hash = hash_combine(hash, stable_hash(as_text(event.frame.tail)));
  outcome_.history = hash_combine(outcome_.history, hash);
}

void Cluster::handle(Event&& event) {
  note(event);
  switch (event.kind) {
    case EventKind::kFrame:
    case EventKind::kClosed: {
      const Connection& connection = network_.at(event.peer);
      if (event.to_shard) {
        Pserver& pserver = pservers_[pserver_of(connection.shard)];
        if (pserver.is_stalled) return pserver.backlog.push_back(std::move(event));
      } else {
        TrainerProcess& process = processes_[connection.trainer];
        if (process.is_stalled) return process.backlog.push_back(std::move(event));
      }
      return deliver(std::move(event));
    }
    case EventKind::kStartTrainer:
      if (trainers_[event.who].is_down() && !processes_[event.who].is_dead) {
        start_trainer(event.who);
      }
      return;
    case EventKind::kStartPserver:
      return start_pserver(event.who);
    case EventKind::kFault:
      return begin_fault(options_.faults[event.who]);
    case EventKind::kFaultEnds:
      return end_fault(options_.faults[event.who]);
    case EventKind::kSilence: {
      const Fault& fault = options_.faults[event.who];
      return close_across(fault.trainer, fault.pserver);
    }
  }
}

void Cluster::deliver(Event&& event) {
  if (event.to_shard) {
    deliver_to_shard(std::move(event));
  } else {
    deliver_to_trainer(std::move(event));
  }
}

void Cluster::deliver_to_shard(Event&& event) {
  Connection& connection = network_.at(event.peer);
  const std::uint32_t index = connection.shard;
  const Pserver& pserver = pservers_[pserver_of(index)];
  if (!pserver.is_up || pserver.generation != connection.generation) return;
  if (!connection.is_open_at_shard) return;
  pserver::Shard& shard = *shards_[index];
  std::vector<net::Outgoing> out;
  if (event.kind == EventKind::kClosed) {
    connection.is_open_at_shard = false;
    shard.on_disconnect(network_.now(), event.peer, out);
    transmit_all(index, out);
    return end_if_finished(pserver_of(index));
  }
  if (event.frame.header.type == static_cast<std::uint8_t>(FrameType::kPushDense)) {
    ++outcome_.pushes_delivered;
  }
  if (invariants_.is_fenced(index, connection.trainer, connection.incarnation)) {
    const std::uint64_t before = Invariants::fingerprint(model_, index, shard);
    shard.on_frame(network_.now(), event.peer, std::move(event.frame), out);
    ++outcome_.fenced;
    invariants_.after_fenced(index, shard, before, out);
    return transmit_all(index, out);
  }
  const std::uint64_t sequence = event.frame.header.sequence;
  if (is_push(event.frame) && sequence > connection.pushed) {
    connection.pushed = sequence;
    if (rng_.uniform() < options_.ghosts) deliver_ghost(event.peer, index, event.frame);
  }
  shard.on_frame(network_.now(), event.peer, std::move(event.frame), out);
  outcome_.clock_lead = std::max(outcome_.clock_lead, shard.clock_lead());
  transmit_all(index, out);
  end_if_finished(pserver_of(index));
}

// A copy of the push comes first, of the incarnation before of its trainer or of the pserver, or of
// the round after.
void Cluster::deliver_ghost(net::PeerId peer, std::uint32_t shard, const Frame& frame) {
  Frame ghost = frame;
  switch (rng_.below(model_.in_rounds(shard) ? 3 : 2)) {
    case 0:
      --ghost.header.incarnation;
      break;
    case 1:
      --ghost.header.server_generation;
      break;
    default:
      ++ghost.header.step;
  }
  std::vector<net::Outgoing> out;
  const std::uint64_t before = Invariants::fingerprint(model_, shard, *shards_[shard]);
  shards_[shard]->on_frame(network_.now(), peer, std::move(ghost), out);
  ++outcome_.fenced;
  invariants_.after_fenced(shard, *shards_[shard], before, out);
}

void Cluster::deliver_to_trainer(Event&& event) {
  Connection& connection = network_.at(event.peer);
  const std::uint32_t id = connection.trainer;
  Trainer& trainer = trainers_[id];
  if (trainer.is_down() || trainer.is_done() || trainer.incarnation() != connection.incarnation ||
      !connection.is_open_at_trainer) {
    return;
  }
  if (event.kind == EventKind::kClosed) {
    connection.is_open_at_trainer = false;
    return on_error(id, connection.shard, Error{Errc::kUnreachable, "closed by peer"});
  }
  const std::uint64_t saves = disk_.saves;
  std::vector<LaneFrame> out;
  const std::uint32_t shard = connection.shard;
  const bool has_joined = trainer.phase() != Trainer::Phase::kJoin;
  const Status taken = trainer.on_frame(shard, std::move(event.frame), network_.now(), out);
  if (id == 0 && !has_joined && trainer.finds_no_rollback()) invariants_.on_no_rollback();
  if (!taken) return on_error(id, shard, taken.error());
  if (disk_.saves != saves && !options_.killed) invariants_.on_saved(*disk_.newest);
  if (const auto totals = trainer.take_totals()) {
    if (id == 0 && !totals->paused()) {
      outcome_.samples = totals->job_samples();
      outcome_.pushes += totals->pushes();
      outcome_.batches += totals->batches();
    }
  }
  take_outputs(id, out);
  if (trainer.is_going_back()) break_the_rollback();
}

void Cluster::on_error(std::uint32_t id, std::uint32_t shard, const Error& error) {
  if (!options_.restarts || error.code != Errc::kUnreachable) {
    outcome_.error = fmt::format("trainer {}, shard {}: {}", id, shard, error.message);
    return;
  }
  if (traces()) trace(network_.now(), fmt::format("trainer {} ends: {}", id, error.message));
  end_trainer(id, std::chrono::milliseconds(options_.delay_max_ms));
  restart_trainer(id);
}

// Sends what the trainer has to say, and sees whether it has come to its end.
void Cluster::take_outputs(std::uint32_t id, std::vector<LaneFrame>& out) {
  const Trainer& trainer = trainers_[id];
  for (LaneFrame& frame : out) {
    network_.transmit(*processes_[id].peers[frame.shard], true, std::move(frame.frame));
  }
  if (options_.killed == id && trainer.phase() == Trainer::Phase::kPush && trainer.pass() == 0 &&
      trainer.batch() == options_.killed_at_batch) {
    processes_[id].is_dead = true;
    end_trainer(id, Duration::zero());
  }
  if (trainer.is_done()) {
    for (const auto& peer : processes_[id].peers) {
      if (peer) network_.close(*peer, false);
    }
    if (options_.dies_at_end && !std::exchange(has_died_at_end_, true)) break_the_end();
  }
}

void Cluster::transmit_all(std::uint32_t shard, std::vector<net::Outgoing>& out) {
  net::keep_views(out);
  std::vector<std::uint32_t> trainer_of;
  for (const net::Outgoing& outgoing : out) {
    const Connection& connection = network_.at(outgoing.to);
    trainer_of.push_back(connection.trainer);
    if (outgoing.frame.header.type == static_cast<std::uint8_t>(FrameType::kPosition)) {
      invariants_.on_joined(shard, connection.trainer, connection.incarnation);
      if (connection.trainer == 0) invariants_.on_listed(shard, outgoing);
    }
  }
  invariants_.after_call(shard, *shards_[shard], out, trainer_of);
  invariants_.on_savepoints(shard, savepoint_disks_[shard]->whole());
  for (net::Outgoing& outgoing : out) {
    const net::PeerId to = outgoing.to;
    if (!network_.at(to).is_open_at_shard) continue;
    if (!outgoing.close_after) {
      network_.transmit(to, false, std::move(outgoing.frame));
      continue;
    }
    network_.transmit_last(to, std::move(outgoing.frame));
    std::vector<net::Outgoing> more;
    shards_[shard]->on_disconnect(network_.now(), to, more);
    transmit_all(shard, more);
  }
}

void Cluster::collect() {
  for (std::uint32_t index = 0; index < shards_.size(); ++index) {
    const pserver::Shard& shard = *shards_[index];
    if (has_died_at_end_ && !shard.ready()) continue;  // the job ended without it
    if (!shard.finished()) {
      outcome_.error = fmt::format("shard {} is not done", index);
      return;
    }
    outcome_.ledgers.push_back(invariants_.ledger(index, shard));
    if (!options_.killed) invariants_.at_end(index, shard);
    if (model_.is_sparse(index)) {
      std::vector<float> value(1);
      shard.sparse(model_.rows_parameter())->read(model_.shared_row(index), value);
      outcome_.shared.push_back(value[0]);
      continue;
    }
    const auto values = model_.shared(index, shard.dense()->values());
    outcome_.shared.insert(outcome_.shared.end(), values.begin(), values.end());
  }
  outcome_.savepoints = invariants_.savepoints().whole_savepoints();
  outcome_.common_savepoints = invariants_.savepoints().common_savepoints();
  for (const Trainer& trainer : trainers_) {
    outcome_.loads += trainer.loads();
    outcome_.goes_back += trainer.goes_back();
    outcome_.lone_returns += trainer.lone_returns();
    outcome_.repeated_pushes += trainer.repeated_pushes();
    outcome_.leaves_over += trainer.leaves_over();
  }
}

void Cluster::on_opened(std::uint32_t shard, const std::vector<std::uint64_t>& whole) {
  invariants_.on_savepoints_opened(shard, whole);
}

void Cluster::on_begin(std::uint32_t shard, std::uint64_t savepoint) {
  if (traces()) trace(network_.now(), fmt::format("port {} begins savepoint {}", shard, savepoint));
  invariants_.on_savepoint(shard, savepoint, *shards_[shard]);
}

void Cluster::on_read(std::uint32_t shard, std::uint64_t savepoint, const Status& outcome) {
  if (traces())
    trace(network_.now(), fmt::format("port {} goes back to savepoint {}", shard, savepoint));
  invariants_.on_savepoint_read(shard, savepoint, outcome);
}

}  // namespace paddle::sim

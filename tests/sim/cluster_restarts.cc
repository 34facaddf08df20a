// Lives of the simulated processes, and the faults that end them.
#include <algorithm>

#include <fmt/format.h>

#include "engine/strategy/strategy_table.h"
#include "tests/sim/cluster.h"
#include "tests/sim/trace.h"

namespace paddle::sim {
namespace {

constexpr std::uint64_t kRestartMinMs = 50;
constexpr std::uint64_t kRestartMoreMs = 450;
// Frames of an incarnation that is over may still come for so long, and the end of its connections
// later.
constexpr Duration kLastWords = std::chrono::milliseconds(1500);

}  // namespace

void Cluster::start_pserver(std::uint32_t id) {
  Pserver& pserver = pservers_[id];
  if (pserver.generation > 0) ++outcome_.pserver_restarts;
  ++pserver.generation;
  pserver.is_up = true;
  pserver.is_stalled = false;
  for (const std::uint32_t index : {id, id + options_.pservers}) {
    shards_[index].reset();
    pserver::OpenSavepoints open_savepoints = savepoint_disks_[index]->begin_process();
    shards_[index] = std::make_unique<pserver::Shard>(
        pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                              .index = id,
                              .is_sparse = model_.is_sparse(index),
                              .num_gradient_servers = model_.set().num_trainers(),
                              .job_tag = 1,
                              .server_generation = pserver.generation,
                              .lost_trainer_grace = options_.grace,
                              .needs_all_trainers = options_.restarts,
                              .open_savepoints = std::move(open_savepoints)});
    invariants_.on_restart(index);
  }
}

void Cluster::end_pserver(std::uint32_t id) {
  Pserver& pserver = pservers_[id];
  pserver.is_up = pserver.is_stalled = false;
  pserver.backlog.clear();
  const bool loses_power = options_.loses_power && rng_.below(2) == 0;
  for (const std::uint32_t index : {id, id + options_.pservers}) {
    savepoint_disks_[index]->end_process(loses_power);
  }
  for (net::PeerId peer = 0; peer < network_.connections(); ++peer) {
    const Connection& connection = network_.at(peer);
    if (pserver_of(connection.shard) == id && connection.generation == pserver.generation) {
      network_.close(peer, true);
    }
  }
}

// A pserver of which a port has failed is started again. One whose trainers have all left stays, to
// answer a Leave that comes again.
void Cluster::end_if_finished(std::uint32_t id) {
  Pserver& pserver = pservers_[id];
  const pserver::Shard* const ports[] = {shards_[id].get(), shards_[id + options_.pservers].get()};
  const auto has_failed = [](const pserver::Shard* port) {
    return port->finished() && !port->failure().empty();
  };
  if (!pserver.is_up) return;
  if (options_.restarts && std::ranges::any_of(ports, has_failed)) {
    if (traces()) {
      trace(network_.now(),
            fmt::format("pserver {} ends: {} {}", id, ports[0]->failure(), ports[1]->failure()));
    }
    return kill_pserver(id);
  }
  pserver.is_done = std::ranges::all_of(
      ports, [&](const auto* port) { return port->finished() && port->failure().empty(); });
}

void Cluster::start_trainer(std::uint32_t id) {
  if (trainers_[id].incarnation() > 0) ++outcome_.trainer_restarts;
  processes_[id].is_stalled = false;
  processes_[id].peers.assign(shards_.size(), std::nullopt);
  trainers_[id].start();
  connect(id);
}

void Cluster::connect(std::uint32_t id) {
  auto& peers = processes_[id].peers;
  for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
    const Pserver& pserver = pservers_[pserver_of(shard)];
    if (pserver.is_done) {
      if (!trainers_[id].was_leaving()) {
        invariants_.fail(fmt::format("trainer {} came back to a job that had ended", id));
      }
      return trainers_[id].give_up();
    }
    if (peers[shard] || !pserver.is_up || pserver.is_stalled ||
        network_.is_cut(id, pserver_of(shard), true) ||
        network_.is_cut(id, pserver_of(shard), false)) {
      continue;
    }
    peers[shard] = network_.connect({.trainer = id,
                                     .incarnation = trainers_[id].incarnation(),
                                     .shard = shard,
                                     .generation = pserver.generation});
  }
  if (!std::ranges::all_of(peers, [](const auto& peer) { return peer.has_value(); })) return;
  std::vector<LaneFrame> out;
  trainers_[id].on_connected(network_.now(), out);
  take_outputs(id, out);
}

// `last_words`: what it had sent last may come so late, and its connections seem to live meanwhile.
void Cluster::end_trainer(std::uint32_t id, Duration last_words) {
  TrainerProcess& process = processes_[id];
  process.is_stalled = false;
  process.backlog.clear();
  const std::vector<LaneFrame> last = trainers_[id].end();
  for (const auto& peer : process.peers) {
    if (!peer) continue;
    if (last_words == Duration::zero()) {
      network_.close(*peer, false);
      continue;
    }
    network_.at(*peer).is_open_at_trainer = false;
    network_.close(*peer, false, last_words + std::chrono::milliseconds(1));
  }
  if (last_words == Duration::zero()) return;
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(last_words);
  for (const LaneFrame& frame : last) {
    if (network_.is_cut(id, pserver_of(frame.shard), true)) continue;
    const std::uint64_t after = 1 + rng_.below(static_cast<std::uint64_t>(milliseconds.count()));
    network_.schedule({.to_shard = true, .peer = *process.peers[frame.shard], .frame = frame.frame},
                      std::chrono::milliseconds(after));
  }
}

void Cluster::restart_trainer(std::uint32_t id) {
  network_.schedule({.kind = EventKind::kStartTrainer, .who = id},
                    std::chrono::milliseconds(kRestartMinMs + rng_.below(kRestartMoreMs)));
}

void Cluster::kill_trainer(std::uint32_t id) {
  if (trainers_[id].is_down() || trainers_[id].is_done()) return;
  ++outcome_.trainer_kills;
  if (!trainers_[id].was_leaving() && rng_.uniform() < options_.forgets) trainers_[id].forget();
  end_trainer(id, rng_.below(3) == 0 ? kLastWords : Duration::zero());
  restart_trainer(id);
}

void Cluster::kill_pserver(std::uint32_t id) {
  if (!pservers_[id].is_up) return;
  end_pserver(id);
  network_.schedule({.kind = EventKind::kStartPserver, .who = id},
                    std::chrono::milliseconds(kRestartMinMs + rng_.below(kRestartMoreMs)));
}

// Trainer 0 dies while it makes ports go back, or one of them does, or both or another trainer.
void Cluster::break_the_rollback() {
  if (breaks_ == options_.breaks_max || rng_.uniform() >= options_.breaks) return;
  ++breaks_;
  calm_at_ = std::max(calm_at_, network_.now());
  const auto random = [&](std::size_t below) {
    return static_cast<std::uint32_t>(rng_.below(below));
  };
  const std::uint64_t way = rng_.below(4);
  if (traces()) trace(network_.now(), fmt::format("breaks the way back, {}", way));
  if (way != 0) kill_trainer(way == 3 ? random(trainers_.size()) : 0);
  if (way != 1) kill_pserver(random(pservers_.size()));
}

void Cluster::break_the_end() {
  calm_at_ = std::max(calm_at_, network_.now());
  kill_pserver(static_cast<std::uint32_t>(rng_.below(pservers_.size())));
}

void Cluster::fill_disks(std::uint32_t pserver, bool is_full) {
  for (const std::uint32_t index : {pserver, pserver + options_.pservers}) {
    savepoint_disks_[index]->set_full(is_full);
  }
}

// Pservers that die when trainers are about to leave come back to a job that is over, which nobody
// can tell them if no trainer has left yet: those faults are left out.
void Cluster::begin_fault(const Fault& fault) {
  const bool has_left = std::ranges::any_of(trainers_, [&](const Trainer& t) {
    return t.is_done() || t.was_leaving() || t.pass() >= options_.passes;
  });
  if (traces())
    trace(network_.now(), fmt::format("fault kind {} trainer {} pserver {}",
                                      static_cast<int>(fault.kind), fault.trainer, fault.pserver));
  const auto number = static_cast<std::uint32_t>(&fault - options_.faults.data());
  if (fault.lasts > Duration::zero()) {
    network_.schedule({.kind = EventKind::kFaultEnds, .who = number}, fault.lasts);
  }
  switch (fault.kind) {
    case FaultKind::kKillTrainer:
      return kill_trainer(fault.trainer);
    case FaultKind::kKillPserver:
      if (!has_left) kill_pserver(fault.pserver);
      return;
    case FaultKind::kKillBoth:
      if (has_left) return;
      kill_pserver(fault.pserver);
      return kill_trainer(fault.trainer);
    case FaultKind::kKillAll:
      if (has_left) return;
      for (std::uint32_t id = 0; id < pservers_.size(); ++id) kill_pserver(id);
      for (std::uint32_t id = 0; id < trainers_.size(); ++id) kill_trainer(id);
      return;
    case FaultKind::kCut:
    case FaultKind::kCutToServer:
    case FaultKind::kCutToTrainer:
      network_.cut(fault.trainer, fault.pserver, fault.kind != FaultKind::kCutToTrainer,
                   fault.kind != FaultKind::kCutToServer);
      network_.schedule({.kind = EventKind::kSilence, .who = number}, kSilenceMax);
      return;
    case FaultKind::kStallTrainer:
      processes_[fault.trainer].is_stalled = true;
      return;
    case FaultKind::kStallPserver:
      pservers_[fault.pserver].is_stalled = true;
      return;
    case FaultKind::kFillDisk:
      return fill_disks(fault.pserver, true);
  }
}

void Cluster::end_fault(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kStallTrainer:
      processes_[fault.trainer].is_stalled = false;
      return resume(processes_[fault.trainer].backlog);
    case FaultKind::kStallPserver:
      pservers_[fault.pserver].is_stalled = false;
      return resume(pservers_[fault.pserver].backlog);
    case FaultKind::kFillDisk:
      return fill_disks(fault.pserver, false);
    default:
      return network_.heal(fault.trainer, fault.pserver);
  }
}

void Cluster::resume(std::vector<Event>& backlog) {
  for (Event& event : std::exchange(backlog, {})) {
    network_.schedule(std::move(event), Duration::zero());
  }
}

// Both ends give up the connections between a trainer and a pserver that a cut has silenced.
void Cluster::close_across(std::uint32_t trainer, std::uint32_t pserver) {
  if (!network_.is_cut(trainer, pserver, true) && !network_.is_cut(trainer, pserver, false)) return;
  for (net::PeerId peer = 0; peer < network_.connections(); ++peer) {
    const Connection& connection = network_.at(peer);
    if (connection.trainer != trainer || pserver_of(connection.shard) != pserver) continue;
    const Duration after = network_.random_delay();
    network_.schedule({.kind = EventKind::kClosed, .to_shard = false, .peer = peer}, after);
    network_.schedule({.kind = EventKind::kClosed, .to_shard = true, .peer = peer}, after);
  }
}

}  // namespace paddle::sim

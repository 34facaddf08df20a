// Options and outcome of one simulated job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "proto/parameters.pb.h"

namespace paddle::sim {

enum class FaultKind : std::uint8_t {
  kKillTrainer,  // its supervisor starts it again
  kKillPserver,  // with both of its ports
  kKillBoth,     // a trainer and a pserver
  kKillAll,
  kCut,          // a trainer and a pserver no longer hear each other
  kCutToServer,  // frames are lost one way only
  kCutToTrainer,
  kStallTrainer,  // it reads nothing until it goes on
  kStallPserver,
  kFillDisk,  // of a pserver, until there is room again
};

struct Fault {
  Duration at = {};
  Duration lasts = {};  // cuts and stalls
  FaultKind kind = FaultKind::kKillTrainer;
  std::uint32_t trainer = 0;
  std::uint32_t pserver = 0;
};

struct ClusterOptions {
  std::uint64_t seed = 0;
  wire::Strategy strategy = wire::STRATEGY_SYNC;
  std::optional<wire::Strategy> sparse_strategy = std::nullopt;  // where it is another
  std::vector<std::uint32_t> batches;                            // of each trainer, in each pass
  std::uint32_t passes = 1;
  std::uint32_t pservers = 2;  // each with one dense and one sparse port
  double duplicate = 0.1;      // probability of a second copy
  double drop = 0.05;          // probability that a copy is lost
  std::uint64_t delay_max_ms = 50;
  std::uint32_t push_parts = 1;
  std::uint32_t max_merge = 1;        // half_async
  std::uint32_t send_queue_size = 1;  // half_async
  std::optional<std::uint32_t> staleness_max = std::nullopt;

  // Supervisors start processes again, and a pserver keeps a lost trainer's place for so long.
  bool restarts = false;
  Duration grace = Duration::zero();
  bool node_groups = false;  // no trainer returns alone
  std::vector<Fault> faults = {};
  double forgets = 0;  // probability that what a supervisor keeps for a killed trainer is lost too
  double ghosts = 0;   // probability that a push comes again from an incarnation that is over
  // Savepoints of each port.
  std::uint32_t snapshot_seconds = 0;  // 0: none
  bool defers_savepoints = false;      // they are written some time later
  bool loses_power = false;            // a pserver that ends loses what was not synced
  // While shards go back to a savepoint, processes die, so often for each answer and at most so
  // many.
  double breaks = 0;
  std::uint32_t breaks_max = 0;
  // A pserver dies when the first trainer has left the job, and another has not.
  bool dies_at_end = false;
  // This trainer dies for good once it has sent its push of this batch of the first pass.
  std::optional<std::uint32_t> killed = std::nullopt;
  std::uint32_t killed_at_batch = 0;
};

struct Outcome {
  std::string error;  // "" when every trainer came to its end and every invariant held
  // By shard, dense before sparse: one cell a batch, 1 when its push was applied once.
  std::vector<std::vector<float>> ledgers;
  std::vector<float> shared;  // values that every push changes, in an order-sensitive way
  std::uint64_t samples = 0;  // by trainer 0's pass totals
  std::uint64_t history = 0;  // a hash of every event, in order
  std::uint64_t pushes_delivered = 0;
  std::uint64_t pushes = 0;      // by trainer 0's pass totals of the first dense port
  std::uint64_t batches = 0;     // in them
  std::uint64_t clock_lead = 0;  // of the fastest trainer over the slowest, at most
  // Lives of processes beyond the first.
  std::uint64_t trainer_restarts = 0;
  std::uint64_t pserver_restarts = 0;
  std::uint64_t trainer_kills = 0;
  std::uint64_t lone_returns = 0;       // trainers that came back into a running job
  std::uint64_t repeated_pushes = 0;    // kept by an earlier incarnation
  std::uint64_t leaves_over = 0;        // trainers that came back and left, as the job was over
  std::uint64_t loads = 0;              // of a snapshot
  std::uint64_t fenced = 0;             // frames of earlier incarnations
  std::uint64_t goes_back = 0;          // times that trainer 0 made shards go back to savepoints
  std::uint64_t common_savepoints = 0;  // of all shards in rounds together
  std::uint64_t savepoints = 0;         // whole ones of any shard
  Duration time = {};
  Duration longest_calm_wait = {};  // without a step, once the faults were over
};

}  // namespace paddle::sim

// A whole job in one thread and virtual time: real Shards, real ClientLanes, and a network that
// delays, reorders, duplicates and drops, all from one seed.
#pragma once

#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "base/rng.h"
#include "engine/client/dense_layout.h"
#include "engine/client/lane.h"
#include "engine/pserver/shard.h"
#include "engine/strategy/communicator.h"

namespace paddle::sim {

struct ClusterOptions {
  std::uint64_t seed = 0;
  wire::Strategy strategy = wire::STRATEGY_SYNC;
  std::vector<std::uint32_t> batches;  // of each trainer, in each pass
  std::uint32_t passes = 1;
  std::uint32_t pservers = 2;  // each with one dense and one sparse port
  double duplicate = 0.1;      // probability of a second copy
  double drop = 0.05;          // probability that a copy is lost
  std::uint64_t delay_max_ms = 50;
  std::uint32_t max_merge = 1;        // half_async
  std::uint32_t send_queue_size = 1;  // half_async
  std::optional<std::uint32_t> staleness_max = std::nullopt;
  // This trainer dies once it has sent its push of this batch of the first pass.
  std::optional<std::uint32_t> killed = std::nullopt;
  std::uint32_t killed_at_batch = 0;
};

// The outcome of a run.
struct Outcome {
  std::string error;                  // "" when every trainer came to its end
  LargeArray<float> ledger;           // one cell a batch: 1 when its push was applied once
  LargeArray<float> row_ledger;       // the same for a row of its own in the sparse table
  LargeArray<float> shared;           // values that every push changes, in an order-sensitive way
  std::uint64_t samples = 0;          // by trainer 0's pass totals
  std::vector<std::uint64_t> events;  // a hash of each delivery, in order
  std::uint64_t pushes_delivered = 0;
  std::uint64_t pushes = 0;   // by trainer 0's pass totals of the first dense port
  std::uint64_t batches = 0;  // in them
  std::uint64_t clock_lead =
      0;  // of the fastest trainer over the slowest in applied batches, at most
};

class Cluster {
 public:
  explicit Cluster(ClusterOptions options);
  Outcome run();

 private:
  enum class Phase : std::uint8_t { kJoin, kReady, kPull, kPush, kFinish, kLeave, kDone };
  struct SimTrainer {
    Phase phase = Phase::kJoin;
    std::uint32_t pass = 0;
    std::uint32_t batch = 0;  // in the pass
    bool is_dead = false;
    std::vector<client::ClientLane> lanes;
    LargeArray<float> shared;  // as last seen
    strategy::Communicator core;
    strategy::Window* window = nullptr;  // in flight
  };
  struct Event {
    TimePoint at = {};
    std::uint64_t order = 0;
    bool to_shard = false;
    bool is_disconnect = false;  // the shard hears that the trainer's connection is gone
    std::uint32_t trainer = 0;
    std::uint32_t shard = 0;
    Frame frame;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };

  // Trainers push windows while training goes on; geo pushes moves, applied without a learning
  // rate.
  bool is_half_async() const {
    return options_.strategy == wire::STRATEGY_HALF_ASYNC ||
           options_.strategy == wire::STRATEGY_GEO;
  }
  bool is_sync() const {
    return options_.strategy == wire::STRATEGY_SYNC ||
           options_.strategy == wire::STRATEGY_LOCAL_SGD;
  }
  bool is_sparse(std::uint32_t shard) const { return shard >= options_.pservers; }
  std::uint64_t cell(std::uint32_t trainer, std::uint32_t pass, std::uint32_t batch) const;
  static std::uint64_t row_id(std::uint64_t cell) { return mix64(cell); }
  float ledger_gradient(const SimTrainer& trainer) const;
  // The gradients of the trainer's current batch.
  std::vector<client::DenseParameter> dense_gradients(std::uint32_t id) const;
  client::SparseRows row_gradients(std::uint32_t id) const;
  void compute(std::uint32_t id);
  Phase after_window(std::uint32_t id);
  void start_phase(std::uint32_t id);
  void next_phase(std::uint32_t id);
  void kill(std::uint32_t id);
  void request(std::uint32_t id, std::uint32_t shard);
  void push(std::uint32_t id, std::uint32_t shard);
  void transmit(Event event);
  void transmit_all(std::uint32_t shard, std::vector<net::Outgoing>& out);
  void deliver(Event&& event);
  void take_answer(std::uint32_t id, std::uint32_t shard, Frame&& answer);
  void tick();
  void collect();

  ClusterOptions options_;
  Rng rng_;
  wire::ParameterSet set_;
  client::DenseLayout layout_;
  std::vector<std::unique_ptr<pserver::Shard>> shards_;  // dense, then sparse
  std::vector<SimTrainer> trainers_;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
  std::uint64_t order_ = 0;
  std::uint64_t cells_ = 0;
  TimePoint now_;
  Outcome outcome_;
};

}  // namespace paddle::sim

// One port of a job of many processes, a real Shard, and the real ClientLanes of all trainers to
// it. A frame is handled the moment it is sent.
#pragma once

#include <memory>

#include "base/rng.h"
#include "engine/client/lane.h"
#include "engine/pserver/shard.h"
#include "tests/sim/scale/model.h"

namespace paddle::sim {

class ScaledPort {
 public:
  ScaledPort(const ScaledModel& model, std::uint32_t index, bool is_sparse);
  // In this order, before anything else.
  void start();
  void connect();

  // Sends a request of trainers [begin, end), in a random order, and handles what is answered.
  // `beside` is the next dense port, which a push of dense gradients reads.
  void ask(FrameType type, std::uint32_t begin, std::uint32_t end, Rng rng,
           const ScaledPort& beside);
  void tick(Duration later);
  // The first batch is computed on the values that have come, and then each next one.
  void begin_pass() { seen_ = come_; }
  void end_batch();

  const pserver::Shard& shard() const { return *shard_; }
  // Since the last call.
  StepCost take_cost() { return std::exchange(cost_, {}); }
  // The first thing that is not as it must be, or "".
  const std::string& error() const { return error_; }
  // Every push of every trainer was applied once.
  void check_values();

 private:
  Frame request(std::uint32_t trainer, FrameType type, const ScaledPort& beside);
  Frame dense_push(std::uint32_t trainer, const ScaledPort& beside);
  Frame row_push(std::uint32_t trainer);
  Bytes row_ids(std::uint32_t trainer) const;
  void deliver(std::vector<net::Outgoing>& out);
  void take(std::uint32_t trainer, const Frame& frame);
  void check_rows(std::uint32_t trainer, std::span<const float> values);
  void check_totals(const wire::PassFinished& totals);
  std::uint64_t pushes() const { return std::uint64_t{model_.trainers()} * batch_; }
  void fail(const std::string& what);

  const ScaledModel& model_;
  const std::uint32_t index_;
  const bool is_sparse_;
  TimePoint now_;
  std::uint32_t batch_ = 0;
  std::unique_ptr<pserver::Shard> shard_;
  std::vector<client::ClientLane> lanes_;  // by trainer, who is its connection's number too
  std::vector<DenseValues> seen_;          // by trainer: what its next batch is computed on
  std::vector<DenseValues> come_;          // by trainer: the newest
  // By all pushes so far, and without rounds by those up to each trainer's own.
  DenseValues expected_{};
  std::vector<DenseValues> due_;
  std::vector<RowValues> expected_rows_;
  StepCost cost_;
  std::string error_;
};

}  // namespace paddle::sim

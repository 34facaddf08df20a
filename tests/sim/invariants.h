// The invariants of a simulated job, checked after every event. The first that breaks is kept.
#pragma once

#include "engine/pserver/shard.h"
#include "tests/sim/savepoint_records.h"
#include "tests/sim/snapshot.h"

namespace paddle::sim {

class Invariants {
 public:
  // `all_return`: no trainer is lost for good.
  Invariants(const Model& model, const Disk& disk, bool all_return);

  // "" while all hold.
  const std::string& broken() const { return broken_; }
  void fail(std::string what);

  // A shard's new incarnation has neither a step nor a trainer.
  void on_restart(std::uint32_t shard);
  // Position, to trainer 0.
  void on_listed(std::uint32_t index, const net::Outgoing& outgoing);
  // A shard has joined this incarnation of a trainer: frames of earlier incarnations are fenced.
  void on_joined(std::uint32_t shard, std::uint32_t trainer, std::uint32_t incarnation);
  bool is_fenced(std::uint32_t shard, std::uint32_t trainer, std::uint32_t incarnation) const;
  // Everything that a frame may change in a shard, as one number.
  static std::uint64_t fingerprint(const Model& model, std::uint32_t index,
                                   const pserver::Shard& shard);
  // A fenced frame changes nothing, and is refused if it is answered at all.
  void after_fenced(std::uint32_t index, const pserver::Shard& shard, std::uint64_t before,
                    std::span<const net::Outgoing> out);

  // `trainer_of` a frame's receiver, in the order of `out`.
  void after_call(std::uint32_t index, const pserver::Shard& shard,
                  std::span<const net::Outgoing> out, std::span<const std::uint32_t> trainer_of);
  // Savepoints of the port. Call these after the functions above, and the last one when a new
  // incarnation opens its savepoints.
  void on_savepoint(std::uint32_t index, std::uint64_t savepoint, const pserver::Shard& shard);
  void on_savepoints(std::uint32_t index, std::vector<std::uint64_t> whole);
  void on_savepoints_opened(std::uint32_t index, const std::vector<std::uint64_t>& whole);
  void on_savepoint_read(std::uint32_t index, std::uint64_t savepoint, const Status& outcome);
  // Trainer 0 has found no way back to savepoints.
  void on_no_rollback();
  const SavepointRecords& savepoints() const { return savepoints_; }

  void on_saved(const Snapshot& snapshot);
  // Every batch of every pass was applied once on every port.
  void at_end(std::uint32_t index, const pserver::Shard& shard);

  // Steps and ends of passes so far, over all shards.
  std::uint64_t progress() const { return progress_; }
  std::vector<float> ledger(std::uint32_t index, const pserver::Shard& shard) const;

 private:
  struct Incarnation {
    bool is_ready = false;
    bool went_back = false;        // to a savepoint
    std::uint64_t generation = 0;  // the highest in its answers
    std::uint64_t step = 0;
    std::vector<float> ledger;
    std::vector<std::uint64_t> last_applied;  // by trainer
    std::vector<std::uint32_t> incarnations;  // by trainer, the highest that joined
  };

  std::string name(std::uint32_t index) const;
  std::string name_of_cell(std::uint64_t cell) const;
  SavepointRecords::State state(std::uint32_t index, const pserver::Shard& shard) const;
  void on_gone_back(std::uint32_t index, const pserver::Shard& shard, std::uint64_t generation);
  void check_ready(std::uint32_t index, const pserver::Shard& shard);
  void check_rounds(std::uint32_t index);
  void check_position(std::uint32_t index, const net::Outgoing& outgoing);
  void check_pass_end(std::uint32_t index, const net::Outgoing& outgoing);
  void check_step(std::uint32_t index, const pserver::Shard& shard);
  void check_prefix(std::span<const float> ledger, std::uint64_t passes, const std::string& what);

  const Model& model_;
  const Disk& disk_;
  const bool all_return_;
  std::vector<Incarnation> incarnations_;  // by shard
  SavepointRecords savepoints_;
  std::uint64_t progress_ = 0;
  std::string broken_;
};

}  // namespace paddle::sim

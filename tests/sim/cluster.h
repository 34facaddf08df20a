// A whole job in one thread and virtual time: real Shards, real ClientLanes, supervisors that start
// processes again, and faults, all from one seed.
#pragma once

#include "tests/sim/invariants.h"
#include "tests/sim/network.h"
#include "tests/sim/shard_disk.h"
#include "tests/sim/trainer.h"

namespace paddle::sim {

class Cluster final : public SavepointWatch {
 public:
  explicit Cluster(ClusterOptions options);
  Outcome run();

 private:
  // One pserver: two ports that live and die together.
  struct Pserver {
    std::uint64_t generation = 0;
    bool is_up = false;
    bool is_done = false;  // every trainer has left
    bool is_stalled = false;
    std::vector<Event> backlog;  // while it is stalled
  };
  struct TrainerProcess {
    std::vector<std::optional<net::PeerId>> peers;  // of this incarnation, by shard
    bool is_stalled = false;
    bool is_dead = false;  // for good
    std::vector<Event> backlog;
  };

  std::uint32_t pserver_of(std::uint32_t shard) const { return shard % options_.pservers; }
  bool is_over();

  // Lives of processes.
  void start_pserver(std::uint32_t id);
  void end_pserver(std::uint32_t id);
  void end_if_finished(std::uint32_t id);
  void start_trainer(std::uint32_t id);
  void end_trainer(std::uint32_t id, Duration last_words);
  void restart_trainer(std::uint32_t id);
  void connect(std::uint32_t id);
  void close_across(std::uint32_t trainer, std::uint32_t pserver);

  void begin_fault(const Fault& fault);
  void end_fault(const Fault& fault);
  void kill_pserver(std::uint32_t id);
  void kill_trainer(std::uint32_t id);
  void break_the_rollback();
  void break_the_end();
  void fill_disks(std::uint32_t pserver, bool is_full);
  void resume(std::vector<Event>& backlog);

  void tick();
  void check_liveness();
  void handle(Event&& event);
  void deliver(Event&& event);
  void deliver_to_shard(Event&& event);
  void deliver_to_trainer(Event&& event);
  void deliver_ghost(net::PeerId peer, std::uint32_t shard, const Frame& frame);
  void on_error(std::uint32_t id, std::uint32_t shard, const Error& error);
  void take_outputs(std::uint32_t id, std::vector<LaneFrame>& out);
  void transmit_all(std::uint32_t shard, std::vector<net::Outgoing>& out);
  void note(const Event& event);
  void collect();

  void on_opened(std::uint32_t shard, const std::vector<std::uint64_t>& whole) override;
  void on_begin(std::uint32_t shard, std::uint64_t savepoint) override;
  void on_read(std::uint32_t shard, std::uint64_t savepoint, const Status& outcome) override;

  const ClusterOptions options_;
  const Model model_;
  Disk disk_;
  Network network_;
  Rng rng_;
  std::vector<std::unique_ptr<ShardDisk>> savepoint_disks_;  // by shard
  std::vector<std::unique_ptr<pserver::Shard>> shards_;      // dense, then sparse; null: down
  std::vector<Pserver> pservers_;
  std::vector<Trainer> trainers_;
  std::vector<TrainerProcess> processes_;
  Invariants invariants_;
  TimePoint calm_at_;
  TimePoint progressed_at_;
  std::optional<TimePoint> over_at_;  // every trainer has left
  std::uint64_t progress_ = 0;
  std::uint32_t breaks_ = 0;
  bool has_died_at_end_ = false;  // a pserver
  Outcome outcome_;
};

}  // namespace paddle::sim

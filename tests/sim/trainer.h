// A simulated trainer: real lanes, and a program of pulls, pushes, ends of passes, saves and
// meetings. Passive; its frames go out through the cluster.
#pragma once

#include <deque>
#include <functional>

#include "base/rng.h"
#include "engine/client/recovery.h"
#include "engine/strategy/communicator.h"
#include "tests/sim/replay_log.h"
#include "tests/sim/snapshot.h"

namespace paddle::sim {

struct LaneFrame {
  std::uint32_t shard = 0;
  Frame frame;
};

class Trainer {
 public:
  enum class Phase : std::uint8_t {
    kDown,
    kConnect,
    kJoin,
    kGoBack,
    kLoadBegin,
    kLoad,
    kReady,
    kPull,
    kPushEarly,
    kPush,
    kFinish,
    kBusy,
    kSave,
    kMeet,
    kLeave,
    kDone,
  };

  Trainer(std::uint32_t id, const ClusterOptions& options, const Model& model, Disk& disk);

  std::uint32_t incarnation() const { return incarnation_; }
  Phase phase() const { return phase_; }
  bool is_down() const { return phase_ == Phase::kDown; }
  bool is_done() const { return phase_ == Phase::kDone; }
  std::uint64_t pass() const { return pass_; }
  std::uint64_t batch() const { return batch_; }
  // It makes ports go back, and they may not have heard it all yet.
  bool is_going_back() const {
    return recovery_.goes_back() && (phase_ == Phase::kGoBack || phase_ == Phase::kReady);
  }
  // It has joined ports that run no job, or not all of them, and has found no way back.
  bool finds_no_rollback() const { return finds_no_rollback_; }
  std::uint64_t loads() const { return loads_; }
  std::uint64_t goes_back() const { return goes_back_; }        // makes ports go back to savepoints
  std::uint64_t lone_returns() const { return lone_returns_; }  // into a running job
  std::uint64_t leaves_over() const { return leaves_over_; }    // a job that is over, as it joined
  std::uint64_t repeated_pushes() const { return repeated_pushes_; }  // kept ones
  // Its supervisor has lost what it kept for it.
  void forget() { memory_ = {}; }
  // The job may end without the next incarnation.
  bool was_leaving() const { return memory_.is_leaving; }

  // A new incarnation, once its process runs: it connects to every port.
  void start();
  // Ends the incarnation. Frames of requests that are open are its last words, or Abandon alone.
  std::vector<LaneFrame> end();
  // The job is over without it.
  void give_up() { phase_ = Phase::kDone; }
  // All ports are connected.
  void on_connected(TimePoint now, std::vector<LaneFrame>& out);
  // An error ends the incarnation.
  Status on_frame(std::uint32_t shard, Frame&& frame, TimePoint now, std::vector<LaneFrame>& out);
  Status on_tick(TimePoint now, std::vector<LaneFrame>& out);
  // Totals of the last pass that ended, once; from the first port.
  std::optional<wire::PassFinished> take_totals() { return std::exchange(totals_, std::nullopt); }

 private:
  using Ask = std::function<Frame(client::ClientLane& lane, TimePoint now)>;

  template <class Message>
  void ask(std::uint32_t shard, FrameType type, Message message, Bytes tail = {}) {
    asks_[shard].push_back([type, message = std::move(message), tail = std::move(tail)](
                               client::ClientLane& lane, TimePoint now) mutable {
      return lane.request(type, std::move(message), std::move(tail), now);
    });
  }
  void advance(TimePoint now, std::vector<LaneFrame>& out);
  bool has_work() const;
  // The phase that follows once every request of this one is answered.
  Result<Phase> next_phase();
  Result<Phase> phase_of_join();
  Result<Phase> first_phase();
  Result<Phase> phase_after_push();
  Result<Phase> repeat_replay_log();
  void take_place(client::TrainerPosition place);
  Phase phase_of_position();
  Phase phase_of_pass();
  void begin_phase();
  void begin_push();
  Error abandon(std::string why);
  std::uint64_t generations() const;
  // After the push under way.
  client::TrainerPosition end_of_push() const {
    return {pass_, meetings_, pushed_ + gradients_.batches};
  }
  client::TrainerPosition earliest() const {
    return std::min(link_positions_[0].start(), link_positions_[1].start());
  }
  bool is_split() const;
  bool is_behind() const {
    const client::TrainerPosition here{pass_, meetings_, pushed_};
    return link_positions_[0].is_behind(here) || link_positions_[1].is_behind(here);
  }
  bool lacks_push(std::uint32_t shard) const {
    if (repeats_push_ && !model_.in_rounds(shard)) return false;
    const std::uint32_t lane = shard % model_.dense_shards();
    return !is_behind() || link_positions_[model_.is_sparse(shard)].lacks(lane, end_of_push());
  }

  // Requests of the phases, one shard each.
  void ask_of_recovery(std::uint32_t shard);
  void ask_load_begin(std::uint32_t shard);
  void ask_load(std::uint32_t shard);
  void ask_pull(std::uint32_t shard);
  void ask_push(std::uint32_t shard, const Gradients& gradients, bool is_early);
  void ask_push_dense(std::uint32_t shard, const Gradients& gradients, wire::PushPart part,
                      bool is_early);
  void ask_push_rows(std::uint32_t shard, const Gradients& gradients, const wire::PushPart& part);
  void ask_finish(std::uint32_t shard, bool pauses);
  void ask_save(std::uint32_t shard);
  void ask_export(std::uint32_t shard, std::uint64_t cursor);

  Status take(std::uint32_t shard, const Frame& answer);
  Status take_position(std::uint32_t shard, const Frame& answer);
  Status take_exported(std::uint32_t shard, const Frame& answer);
  void take_values(std::uint32_t shard, const Frame& answer);

  const std::uint32_t id_;
  const ClusterOptions& options_;
  const Model& model_;
  Disk& disk_;

  // State of this incarnation.
  std::uint32_t incarnation_ = 0;
  Phase phase_ = Phase::kDown;
  std::vector<client::ClientLane> lanes_;
  std::vector<std::deque<Ask>> asks_;  // by shard
  client::Recovery recovery_;
  std::vector<std::vector<float>> values_;  // of the dense ports, as last seen
  std::uint64_t pass_ = 0;
  std::uint64_t batch_ = 0;                  // in the pass
  std::uint64_t meetings_ = 0;               // since the end of the last pass
  std::uint64_t start_pass_ = 0;             // the job was loaded there
  bool has_saved_ = false;                   // since the end of the last pass
  std::uint64_t pushed_ = 0;                 // batches of the pass
  client::LinkPositions link_positions_[2];  // of dense and of sparse ports
  client::TrainerPosition furthest_;         // of all, when it joined
  std::vector<const client::ClientLane*> in_rounds_;
  bool finds_no_rollback_ = false;
  std::optional<TimePoint> gives_up_at_;
  bool repeats_push_ = false;  // a kept one is under way
  std::vector<LaneFrame> last_words_;
  Gradients gradients_;  // of the push under way
  strategy::Communicator windows_;
  bool pushes_window_ = false;
  std::shared_ptr<Snapshot> saving_;
  std::optional<wire::PassFinished> totals_;

  // State that outlives an incarnation.
  Rng rng_;
  TrainerMemory memory_;
  std::uint64_t loads_ = 0;
  std::uint64_t goes_back_ = 0;
  std::uint64_t lone_returns_ = 0;
  std::uint64_t leaves_over_ = 0;
  std::uint64_t repeated_pushes_ = 0;
};

}  // namespace paddle::sim

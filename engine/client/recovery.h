// How a trainer comes to train with its pservers: at the start of the job, in a new process, and
// after the loss of a pserver. Passive: positions of shards and results in, requests out.
// ShardChannels sends the requests; tests/sim runs the same machine in virtual time, under faults.
//
//     a closed connection, a missing heartbeat or a higher generation has ended the session:
//     the trainer connects to every port again, with a higher incarnation (run_sessions)
//        |
//        v
//     kJoin       Join to every shard; waits for the Position of each
//        |        trainer 0 decides by the RollbackPlan, the other trainers go to kReady
//        |
//        +-- the job is over ----------------------------------> kOver     Leave to every shard
//        +-- every shard runs --------------------------------------------------------+
//        +-- every shard without values has a savepoint -------> kGoBack              |
//        |                 GoBack to the shards that the plan names; their Position --+
//        +-- no shard runs ------------------------------------> kLoad                |
//        |                 the newest snapshot, or initial values (ShardClient) ------+
//        +-- else ---------------------------------------------> kLost     Abandon    |
//                                                                                     |
//     kReady  <-----------------------------------------------------------------------+
//        |        Ready to every shard; waits for the Position of each, which comes after trainer
//        |        0 has sent Ready, too. A trainer whose plan had no savepoint waits for kStartMax,
//        |        and goes to kLost.
//        |
//        +-- shards in rounds differ by a push ----------------> kRepeat
//        |                 the kept push, to the shards that lack it -------------------------+
//        |                 (none kept: Abandon, the job resumes from its last snapshot)       |
//        v                                                                                    |
//     kTrain  <-------------------------------------------------------------------------------+
//                 from the earliest of the trainer's positions; a push leaves out the shards that
//                 have it (LinkPositions)
//
// A second loss, in any state, is the same as the first one: a request fails, the session ends with
// kUnreachable, and the next session begins at kJoin. A shard that went back has a new generation
// and refuses every frame of the time before (REFUSAL_STALE_GENERATION), so a trainer that joined
// it too early joins again. Nothing but the kept push (trainer/replay_log.h) outlives a session.
// The end of a pass, or the test, that the trainer's earlier process began is for
// trainer/recovery.h.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/client/lane.h"
#include "engine/client/parameter_client.h"
#include "proto/parameters.pb.h"

namespace paddle::client {

// Chooses the savepoints that shards go back to after the processes of some of them ended and their
// parameters were lost.
class RollbackPlan {
 public:
  // Adds the next shard, in shard order, from its answer to Join.
  void add(const wire::Position& position);

  bool all_run() const;
  bool none_runs() const;
  // The savepoint that each shard goes back to, by shard, with nothing for a shard that keeps its
  // parameters. std::nullopt if there is no savepoint for a shard that needs one. If a shard in
  // rounds lost its parameters, all shards in rounds go back to the newest savepoint that each of
  // them has. Any other shard goes back only if its own parameters were lost, to its newest
  // savepoint: trainers leave out pushes that such a shard has applied already.
  std::optional<std::vector<std::optional<std::uint64_t>>> savepoints() const;

 private:
  struct Shard {
    bool runs = false;
    bool in_rounds = false;
    std::vector<std::uint64_t> savepoints;  // ascending
  };
  std::optional<std::uint64_t> common_savepoint() const;
  std::vector<Shard> shards_;
};

// The position of this trainer that the shard reports.
TrainerPosition position_of(const wire::Position& position, std::uint32_t trainer);

// The positions of a trainer on its links to shards. All links receive the same sequence of pushes,
// pauses and ends of passes, but an earlier process of the trainer may have died between two links,
// or a shard may have gone back, so the positions may differ. A trainer continues from its earliest
// link, and leaves out of a push the links that have it already.
class LinkPositions {
 public:
  // `in_rounds`: the shard applies pushes of all trainers together.
  void add(TrainerPosition link, bool in_rounds) { links_.push_back({link, in_rounds}); }
  void add(const LinkPositions& other) {
    links_.insert(links_.end(), other.links_.begin(), other.links_.end());
  }

  TrainerPosition start() const;     // of the earliest link; the greatest one without links
  TrainerPosition furthest() const;  // of the last link; the smallest one without links
  // Whether links in rounds differ: some shards have applied a push that others still wait for, so
  // the trainer must send these the same bits again.
  bool is_split() const;
  bool is_behind(TrainerPosition now) const;  // some link is further than `now`
  bool lacks(std::size_t link, TrainerPosition push) const { return links_[link].position < push; }
  void on_push(TrainerPosition push);  // raises all links to this position at least

 private:
  struct Link {
    TrainerPosition position;
    bool in_rounds = false;
  };
  std::vector<Link> links_;
};

class Recovery {
 public:
  enum class State : std::uint8_t { kJoin, kGoBack, kLoad, kReady, kRepeat, kTrain, kOver, kLost };
  struct Request {
    FrameType type = FrameType::kJoin;
    std::variant<wire::Join, wire::GoBack, wire::Ready> message;
    Bytes tail;
  };

  // `passes`: of the whole job. Shards are numbered from the first dense one to the last sparse
  // one.
  Recovery(const wire::ParameterSet& parameters, std::uint32_t trainer, std::uint64_t passes);

  State state() const { return state_; }
  // The request of this state to a shard. std::nullopt: the state asks nothing of it.
  std::optional<Request> request(std::size_t shard) const;
  bool is_asked(std::size_t shard) const { return state_ != State::kGoBack || rollback_[shard]; }
  // The answer of a shard to that request.
  void on_position(std::size_t shard, const wire::Position& position) {
    positions_[shard] = position;
  }
  // Ends the state with the outcome of its requests: every shard has answered, or one of them has
  // failed. Returns that failure, or, in kLost, why the job cannot go on from here.
  Status end_state(Status asked);
  // From kLoad, once the values are loaded, and from any later state.
  void begin_ready() { state_ = State::kReady; }
  // Ends kRepeat: the links are at these positions now. Stays in kRepeat if they still differ.
  void on_repeated(const LinkPositions& links) {
    state_ = links.is_split() ? State::kRepeat : State::kTrain;
  }

  // How long a shard may be silent in this state, and how long it may wait for other trainers, if
  // that is not as usual.
  std::optional<Duration> silence_max() const;
  std::optional<Duration> patience_max() const;

  // After kJoin.
  const RollbackPlan& plan() const { return plan_; }
  bool goes_back() const { return !rollback_.empty(); }  // this trainer has sent GoBack
  // Whether the job runs, or will run once this trainer is ready: nothing is to be loaded.
  bool is_running() const { return state_ != State::kOver && (plan_.all_run() || goes_back()); }

  // After kReady. `sparse`: the links to sparse shards, else those to dense ones.
  LinkPositions links(bool sparse) const;
  bool in_rounds(std::size_t shard) const { return positions_[shard].has_rounds(); }
  std::uint64_t passes_loaded() const { return positions_.back().passes_loaded(); }
  // The trainer's position in its data, for a job that continued within a pass.
  std::optional<wire::PassOrigin> origin() const;

 private:
  State after_join();
  bool is_over() const;

  std::string parameters_;  // serialized
  std::uint32_t trainer_;
  std::uint64_t passes_;
  std::size_t dense_shards_;
  State state_ = State::kJoin;
  std::vector<wire::Position> positions_;  // each shard's latest one
  RollbackPlan plan_;
  std::vector<std::optional<std::uint64_t>> rollback_;  // savepoint by shard, for GoBack
  bool has_no_way_back_ = false;  // some shards run, and another one has no savepoint
};

// Whether the push of this batch, which an earlier process of the trainer has kept, is sent again
// to the shards that lack it. REQUIRES: `now` is the progress after kReady.
bool repeats_push(const JobProgress& now, std::uint64_t pass, std::uint64_t batch);

// In kTrain: fills the fields about savepoints of `part`, the next push, from the latest answers on
// the links to the shards in rounds. If the first of these shards announced a savepoint, the push
// requests it, so that all shards make it after the same round. If all shards report the same
// newest savepoint, the push names it, so that shards may delete what is older.
void note_savepoints(std::span<const ClientLane* const> in_rounds, wire::PushPart& part);

}  // namespace paddle::client

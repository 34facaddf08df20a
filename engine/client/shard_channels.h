// The connections of one trainer to all shards of a job. A push returns only after it has been
// answered; strategies that push in the background are built on top (paths.h).
#pragma once

#include <atomic>
#include <functional>

#include "engine/client/dense_channel.h"
#include "engine/client/parameter_client.h"
#include "engine/client/recovery.h"
#include "engine/client/sparse_channel.h"

namespace paddle::client {

struct ChannelOptions {
  wire::ParameterSet parameters = {};
  ClientLane::Options lane = {};                 // its number is set for each lane
  Duration deadline = std::chrono::seconds(60);  // without any progress
  std::uint64_t transfer_bytes = 32ULL << 20U;   // largest tail of one frame, both ways
  // Calls work(0) and work(1) at the same time, for the dense part and the rows of a push, and
  // returns when both have returned. Empty: the calling thread does both.
  std::function<void(const std::function<void(std::size_t)>& work)> run_pair = {};
  SparseChannel::Loans row_loans = {};          // for sparse shards in this process
  DenseChannel::Loans loans = {};               // for dense shards in this process
  std::uint64_t passes = UINT64_MAX;            // in the whole job
  Duration pull_silence_max = Duration::max();  // of a port that owes the values of rows
  // Called with what a port waits for, about once a second: "trainers 1, 3 to push step 7".
  std::function<void(const std::string& reason)> on_waiting = {};
};

// Threads. The two kinds of parameters have lanes of their own, so that these may run together:
//
//   one thread     push and pull of dense parameters
//   one thread     push and pull of rows
//   any thread     ask_to_stop(), stop_asked(), interrupt(), break_off()
//
// If both kinds are in rounds, one thread pushes both: such a push reads the last answers on the
// lanes of both kinds. All else, the push of both kinds at once included, has the lanes alone.
class ShardChannels {
 public:
  using Links = std::vector<std::unique_ptr<net::Link>>;

  // Link i of `dense` leads to dense shard i = pserver index * ports_num + port index. `sparse` is
  // in the same order, with ports_num_for_sparse.
  static Result<std::unique_ptr<ShardChannels>> join(ChannelOptions options, Links dense,
                                                     Links sparse);

  // See ParameterClient.
  Status ready();
  const wire::ParameterSet& parameters() const { return options_.parameters; }
  DenseChannel& dense() { return dense_; }
  SparseChannel& sparse() { return sparse_; }
  // The kind whose first lane is used for what concerns the whole job.
  ClientLanes& primary() { return dense_.lanes().size() > 0 ? dense_.lanes() : sparse_.lanes(); }

  // Pushes and pulls; see Threads.
  Status push(const PushTotals& totals, std::span<DenseParameter> dense);
  Status push(const PushTotals& totals, std::span<const SparseRows> rows);
  Status push(const PushTotals& totals, std::span<DenseParameter> dense,
              std::span<const SparseRows> rows);
  Status pull(std::span<DenseParameter> parameters) { return dense_.pull(parameters); }
  Status pull(std::span<SparseRows> rows) {
    return sparse_.pull(rows, SparseChannel::Reads::kToTrain);
  }
  Status pull_averages(std::span<DenseParameter> dense, std::span<SparseRows> rows);
  void ask_to_stop() { asks_to_stop_ = true; }
  bool stop_asked() const { return stop_asked_; }

  // The end of a pass. Once all ports have received that this trainer's pass ends, calls `around`,
  // if there is one, with a function that awaits the answers.
  using Around = std::function<Status(const std::function<Status()>& await)>;
  Result<PassTotals> end_pass(const Tally& tally, bool pauses, const Around& around = {});
  // Whether the last pass that ended was paused.
  bool is_paused() const { return is_paused_; }

  // Repeats. Sends the push that ends at `end` on the lanes that lack it. std::nullopt: nothing is
  // repeated for this kind.
  Status repeat_push(TrainerPosition end, const PushTotals& totals,
                     std::optional<std::span<DenseParameter>> dense,
                     std::optional<std::span<const SparseRows>> rows);
  void repeat_end(bool pauses);
  // Whether some lanes are further than the trainer: pushes leave them out until it catches up.
  bool is_behind() const { return dense_.lanes().is_behind() || sparse_.lanes().is_behind(); }

  // The end of the session, and how far the job is.
  Status leave();
  void interrupt(const Error& why) {
    dense_.lanes().interrupt(why);
    sparse_.lanes().interrupt(why);
  }
  void break_off(const Error& why) {
    dense_.lanes().break_off(why);
    sparse_.lanes().break_off(why);
  }
  void abandon(const Error& why);
  JobProgress progress() const;

  // Sends a message, with this tail, on every lane, then calls use(lanes, lane, answer) for each.
  template <class Message, class Use>
  Status ask_all(FrameType type, const Message& message, FrameType answer, const Use& use,
                 const Bytes& tail = {}) {
    return on_all([&](ClientLanes& lanes,
                      std::size_t i) { return lanes.send(i, type, message, Bytes(tail)); },
                  [&](ClientLanes& lanes, std::size_t i) -> Status {
                    PADDLE_TRY(const Frame frame, lanes.receive(i, answer));
                    return use(lanes, i, frame);
                  });
  }
  template <class Message>
  Status ask_all(FrameType type, const Message& message, FrameType answer) {
    return ask_all(type, message, answer,
                   [](ClientLanes&, std::size_t, const Frame&) { return Status(); });
  }

 private:
  ShardChannels(ChannelOptions options, Links dense, Links sparse);
  Status run_state();
  std::size_t shard_of(const ClientLanes& lanes, std::size_t i) const {  // see Recovery
    return &lanes == &dense_.lanes() ? i : dense_.lanes().size() + i;
  }
  void set_position(TrainerPosition position);
  bool has_rounds(const ClientLanes& lanes) const;
  wire::PushPart part_of(const PushTotals& totals, bool in_rounds) const;
  void note_stop(const ClientLanes& lanes);
  std::uint64_t batches() const;  // batches of this pass that the trainer has pushed
  void add(const wire::PassFinished& finished, bool is_first, PushCounts& counts,
           PassTotals& totals);

  template <class Call>
  Status on_each(const Call& call) {
    for (ClientLanes* lanes : {&dense_.lanes(), &sparse_.lanes()}) {
      for (std::size_t i = 0; i < lanes->size(); ++i) PADDLE_TRY_STATUS(call(*lanes, i));
    }
    return {};
  }
  // Sends all requests before it reads the first answer.
  template <class Send, class Receive>
  Status on_all(const Send& send, const Receive& receive) {
    PADDLE_TRY_STATUS(on_each(send));
    return on_each(receive);
  }

  ChannelOptions options_;
  DenseChannel dense_;
  SparseChannel sparse_;
  Recovery recovery_;
  bool is_paused_ = false;
  TrainerPosition position_;                  // at ready(), or the end of the last pass or pause
  TrainerPosition furthest_;                  // on any lane at ready()
  std::vector<const ClientLane*> in_rounds_;  // lanes to shards in rounds, at ready()
  // Atomic, since two threads may push while a third calls ask_to_stop().
  std::atomic<bool> asks_to_stop_ = false;
  std::atomic<bool> stop_asked_ = false;
};

}  // namespace paddle::client

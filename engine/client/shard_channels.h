// The connections of one trainer to all shards of a job, straight: a push has been answered when it
// returns.
#pragma once

#include <atomic>
#include <functional>

#include "engine/client/cuts.h"
#include "engine/client/dense_channel.h"
#include "engine/client/parameter_client.h"
#include "engine/client/sparse_channel.h"

namespace paddle::client {

struct ShardOptions {
  wire::ParameterSet parameters = {};
  ClientLane::Options lane = {};                 // its number is set for each
  Duration deadline = std::chrono::seconds(60);  // without any progress
  std::uint64_t transfer_bytes = 32ULL << 20U;   // largest tail of one frame, both ways
  // Calls work(0) and work(1) at the same time, for the dense part and the rows of a push, and
  // returns when both have. Empty: the calling thread does both.
  std::function<void(const std::function<void(std::size_t)>& work)> run_pair = {};
  DenseChannel::Loans loans = {};     // of dense shards in this process
  std::uint64_t passes = UINT64_MAX;  // of the job
};

class ShardChannels {
 public:
  using Links = std::vector<std::unique_ptr<net::Link>>;

  // Link i of `dense` is dense shard i = pserver index * ports_num + port index; likewise `sparse`.
  static Result<std::unique_ptr<ShardChannels>> join(ShardOptions options, Links dense,
                                                     Links sparse);

  const wire::ParameterSet& parameters() const { return options_.parameters; }
  DenseChannel& dense() { return dense_; }
  SparseChannel& sparse() { return sparse_; }
  // The kind whose first lane speaks for the job.
  ClientLanes& primary() { return dense_.lanes().size() > 0 ? dense_.lanes() : sparse_.lanes(); }
  JobProgress progress() const;
  // The kinds' lanes are not all where the trainer is: until then a push leaves some out.
  bool is_behind() const { return dense_.lanes().is_behind() || sparse_.lanes().is_behind(); }

  // As ParameterClient has them.
  Status ready();
  void interrupt(const Error& why) {
    dense_.lanes().interrupt(why);
    sparse_.lanes().interrupt(why);
  }
  void abandon(const Error& why);
  Status pull_averages(std::span<DenseParameter> dense, std::span<SparseRows> rows);
  void repeat_end(bool pauses);
  // `around`, if there is one, is called with what awaits the answers, once all ports know that
  // this trainer's pass ends.
  using Around = std::function<Status(const std::function<Status()>& await)>;
  Result<PassTotals> end_pass(const Tally& tally, bool pauses, const Around& around = {});
  void ask_to_stop() { asks_to_stop_ = true; }
  bool stop_asked() const { return stop_asked_; }
  Status leave();

  // One thread may push or pull dense parameters while another pushes or pulls rows; everything
  // else is for one thread at a time.
  Status pull(std::span<DenseParameter> parameters) { return dense_.pull(parameters); }
  Status pull(std::span<SparseRows> rows) {
    return sparse_.pull(rows, SparseChannel::Reads::kToTrain);
  }
  Status push(const PushTotals& totals, std::span<DenseParameter> dense);
  Status push(const PushTotals& totals, std::span<const SparseRows> rows);
  Status push(const PushTotals& totals, std::span<DenseParameter> dense,
              std::span<const SparseRows> rows);

  // The lanes that lack the push after which the trainer is at `end` get it; nothing: not of this
  // kind.
  Status repeat_push(LanePosition end, const PushTotals& totals,
                     std::optional<std::span<DenseParameter>> dense,
                     std::optional<std::span<const SparseRows>> rows);

  // Whether the last pass that ended was paused.
  bool is_paused() const { return is_paused_; }

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
  ShardChannels(ShardOptions options, Links dense, Links sparse);
  Status join();
  Status go_back(const std::vector<std::optional<std::uint64_t>>& cuts);
  Status give_up_after_loss(Status asked);
  void set_position(LanePosition position);
  std::uint64_t batches() const;  // of this pass that the trainer has pushed
  bool has_rounds(const ClientLanes& lanes) const;
  wire::PushPart part_of(const PushTotals& totals, bool in_rounds) const;
  template <class Push>
  Status run(Push& push, const ClientLanes& lanes);
  void note_stop(const ClientLanes& lanes);
  void add(const wire::PassFinished& finished, bool is_first, PushCounts& counts,
           PassTotals& totals);

  template <class Call>
  Status on_each(const Call& call) {
    for (ClientLanes* lanes : {&dense_.lanes(), &sparse_.lanes()}) {
      for (std::size_t i = 0; i < lanes->size(); ++i) PADDLE_TRY_STATUS(call(*lanes, i));
    }
    return {};
  }
  // All requests are out before the first answer is read.
  template <class Send, class Receive>
  Status on_all(const Send& send, const Receive& receive) {
    PADDLE_TRY_STATUS(on_each(send));
    return on_each(receive);
  }

  ShardOptions options_;
  DenseChannel dense_;
  SparseChannel sparse_;
  bool is_paused_ = false;
  bool is_running_ = false;                   // since before this trainer joined
  bool is_over_ = false;                      // likewise; see JobProgress
  std::optional<Error> loss_;                 // some ports were running when it joined, others not
  std::uint64_t passes_loaded_ = 0;           // finished before the shards' processes began
  LanePosition position_;                     // at ready(), or the end of the last pass or pause
  LanePosition furthest_;                     // of the shards, at ready()
  std::optional<wire::PassOrigin> origin_;    // as JobProgress has it
  std::vector<const ClientLane*> in_rounds_;  // lanes, at ready()
  // Two threads may push while a third asks.
  std::atomic<bool> asks_to_stop_ = false;
  std::atomic<bool> stop_asked_ = false;
};

}  // namespace paddle::client

// A trainer's view of the model's parameters, wherever they are stored: it pulls values, pushes
// gradients and ends passes together with the other trainers. connect.h makes one over TCP.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/tally.h"
#include "engine/client/batch_parameters.h"
#include "engine/client/snapshot_client.h"
#include "proto/wire.pb.h"

namespace paddle::client {

// Totals of a sparse table over all its ports, at the end of a pass.
struct TableTotals {
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;          // memory on the pservers
  std::uint64_t payload_bytes = 0;  // values and optimizer state in that memory
  std::uint64_t candidates = 0;     // ids that are not admitted yet
  std::uint64_t expired = 0;        // rows that expired in this pass
  std::uint64_t evicted = 0;
  std::uint64_t shrunk = 0;  // removed for a low score at the end of the pass
};

// Pushes to one port in a pass, over all trainers.
struct PushCounts {
  std::uint64_t pushes = 0;
  std::uint64_t batches = 0;        // more than pushes if batches were merged
  std::vector<std::uint64_t> lags;  // pushes by lag: 0, 1, 2-3, 4-7, ... batches
};

// Totals of a pass over all trainers.
struct PassTotals {
  bool paused = false;  // the pass is not over: some trainer ended it early
  std::uint64_t samples = 0;
  double cost = 0;                              // sum over samples
  std::uint64_t discarded = 0;                  // async pushes dropped for lag
  Tally tally;                                  // sum of the trainers' tallies
  std::map<std::uint32_t, TableTotals> tables;  // by parameter
  // Pushes to the first dense port, and to the first sparse port.
  PushCounts dense;
  PushCounts sparse;
};

// A position of a trainer in the sequence of its pushes, pauses and ends of passes: finished
// passes, pauses of the current pass, and batches of it. Later positions compare greater.
struct TrainerPosition {
  std::uint64_t passes = 0;
  std::uint64_t pauses = 0;
  std::uint64_t batches = 0;

  friend auto operator<=>(const TrainerPosition&, const TrainerPosition&) = default;
};

struct JobProgress {
  std::uint64_t samples = 0;  // sum over all trainers
  std::uint64_t passes = 0;   // finished
  std::uint64_t batches = 0;  // done by this trainer in the next pass
  // The next fields are for a trainer that joins while the job is running.
  bool is_running = false;  // the job was running: nothing is loaded
  // All passes have ended and some trainer has left. A trainer leaves only after everything is
  // tested and saved, so this trainer only has to leave, too.
  bool is_over = false;
  // The part of `passes` that was finished before the pservers were started.
  std::uint64_t passes_loaded = 0;
  std::uint64_t pauses = 0;     // by all trainers, since the last end of a pass
  bool is_within_pass = false;  // in a group: some trainer has done batches of the next pass
  TrainerPosition furthest;     // position of this trainer on the port where it is furthest
  // The trainer's earlier process ended during a push that some ports have applied in a round: the
  // other ports need the same bits, by repeat_push().
  bool is_split = false;
  std::uint64_t generations = 0;  // a hash of the generations of all pservers
  // The trainer's position in its data, for a job that continued within a pass.
  std::optional<wire::PassOrigin> origin = {};
};

enum class PassEnd {
  kFinish,  // this trainer has no more data
  kPause,   // the pass stays open, to be resumed from a snapshot
};

// One thread makes all calls, except for ask_to_stop(), interrupt() and break_off().
class ParameterClient {
 public:
  virtual ~ParameterClient() = default;

  // Waits until trainer 0 is ready too; then the initial values are in place.
  virtual Status ready() = 0;
  // The progress at ready() or at the end of the last pass.
  virtual JobProgress progress() const = 0;

  // Reads the values that training continues from: the shards' values, or the trainer's own if it
  // updates its own copy of the model.
  virtual Status pull_dense(std::span<DenseParameter> parameters) = 0;
  virtual Status pull_rows(std::span<SparseRows> rows) = 0;
  // Pulls the rows of the next batch before this batch is pushed, if the strategy would pull them
  // before this push is applied anyway. Otherwise returns false and pulls nothing. REQUIRES:
  // begin_push() of this batch came before.
  virtual Result<bool> pull_ahead(std::span<SparseRows> /*rows*/) { return false; }
  // Reads the values that tests use and snapshots contain: the averages that the optimizer keeps on
  // the shards (math/optimizer.h), or the shards' values if it keeps none.
  virtual Status pull_averages(std::span<DenseParameter> dense, std::span<SparseRows> rows) = 0;
  // Announces that the gradients of the next push() are being computed on a card, all commands of
  // which have been given. The client may add up a dense gradient as soon as its event
  // CardPlace::written reports it as written, and give the card commands that update the
  // parameters there. `sparse` has the rows that push() will get. Optional.
  virtual Status begin_push(std::uint64_t /*num_samples*/, std::span<SparseRows> /*sparse*/) {
    return {};
  }
  // Pushes one batch's gradients, which are means over its samples, and refreshes the dense values;
  // shards weight trainers by num_samples. With sync, the step's pushes of all active trainers are
  // applied when the next call of the client returns, if not earlier. Until then the client may
  // still read `sparse`, which must not change.
  virtual Status push(std::uint64_t num_samples, double cost_sum, std::span<DenseParameter> dense,
                      std::span<SparseRows> sparse) = 0;

  // For a restarted trainer, after ready(): sends the push of batch `batch` of the pass to the
  // ports that lack it. Parameters whose strategy pushes in the background are not repeated.
  // progress() then returns the position to continue from.
  virtual Status repeat_push(std::uint64_t batch, std::uint64_t num_samples, double cost_sum,
                             std::span<DenseParameter> dense, std::span<SparseRows> sparse) = 0;

  // For a restarted trainer at the beginning of a pass: the next finish_pass() returns the totals
  // of the previous pass again; with kPause, the next pause_pass() returns those of the last pause.
  virtual void repeat_end(PassEnd end) = 0;

  // Returns when every trainer has ended the pass. `tally` contains the counts of the evaluators
  // and has the same shape on all trainers.
  virtual Result<PassTotals> end_pass(const Tally& tally, PassEnd end) = 0;
  Result<PassTotals> finish_pass(const Tally& tally) { return end_pass(tally, PassEnd::kFinish); }
  Result<PassTotals> pause_pass(const Tally& tally) { return end_pass(tally, PassEnd::kPause); }

  // Whether `own` is true on any rank of the group. All ranks must call this at the same point of
  // the job. Without a group, returns `own`.
  virtual Result<bool> is_any(bool own) { return own; }

  // Announces to the other trainers that this trainer is "testing" or "saving" until its next push
  // or end of a pass: they wait for it without a time limit.
  virtual Status announce_busy(std::string_view activity) = 0;

  // Asks the whole job to stop, with the next push. Any thread may call it.
  virtual void ask_to_stop() = 0;
  // Whether an answer to a push carried a trainer's request to stop. With synchronous pushes, all
  // trainers receive it after the same push.
  virtual bool stop_asked() const = 0;
  // Ends the job for this trainer. Processes that have ended because they were not needed any more
  // are no error.
  virtual Status leave() = 0;
  // Makes the waiting call and all later ones fail with this error. Any thread may call it.
  virtual void interrupt(const Error& why) = 0;
  // Like interrupt(), but the pservers still receive an abandon() that follows; the waiting call
  // fails within a second or so. Any thread may call it.
  virtual void break_off(const Error& why) { interrupt(why); }
  // Ends the job for all trainers: this trainer ends with an error, and the others must not wait
  // for it. With kUnreachable the job may continue from its last snapshot.
  virtual void abandon(const Error& why) = 0;

  virtual SnapshotClient& snapshots() = 0;
};

}  // namespace paddle::client

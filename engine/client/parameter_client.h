// A trainer's view of the model's parameters, wherever they live: it pulls values, pushes gradients
// and ends passes together with the other trainers. connect.h makes one over TCP.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/tally.h"
#include "engine/client/batch_parameters.h"
#include "engine/client/catch_up.h"
#include "engine/client/snapshots/snapshot_client.h"

namespace paddle::client {

// A sparse table over all its ports, at the end of a pass.
struct TableTotals {
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;          // of memory on the pservers
  std::uint64_t payload_bytes = 0;  // values and optimizer state in it
  std::uint64_t candidates = 0;     // ids not admitted yet
  std::uint64_t expired = 0;        // in this pass
  std::uint64_t evicted = 0;
  std::uint64_t shrunk = 0;  // removed for a low score at the end of the pass
};

// Pushes to one port in a pass, over all trainers.
struct PushCounts {
  std::uint64_t pushes = 0;
  std::uint64_t batches = 0;        // more than pushes where batches were merged
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
  PushCounts dense;                             // of the first dense port, and the first sparse one
  PushCounts sparse;
};

struct JobProgress {
  std::uint64_t samples = 0;  // of all trainers
  std::uint64_t passes = 0;   // finished
  std::uint64_t batches = 0;  // of the next pass that this trainer has behind it
  // Of a trainer that joined while the job was running:
  bool is_running = false;  // it was: nothing is loaded
  // All passes have ended and a trainer has left, which it does when all is tested and saved. There
  // is nothing to do but to leave too.
  bool is_over = false;
  std::uint64_t passes_loaded = 0;  // of `passes`, finished before the pservers were started
  std::uint64_t pauses = 0;         // of all trainers, since the last pass
  bool is_within_pass = false;      // of a group: some trainer has batches of the next pass
  LanePosition furthest;            // of this trainer, on any port
  // An earlier life was lost in a push that some ports have applied in a round: the others need
  // the same bits, by repeat_push().
  bool is_split = false;
  std::uint64_t generations = 0;  // a hash of those of all pservers
  // Where this trainer was in its data, for a job that went on within a pass.
  std::optional<wire::PassOrigin> origin = {};
};

enum class PassEnd {
  kFinish,  // this trainer has no more data
  kPause,   // the pass stays open, to be resumed from a snapshot
};

// For one thread, but for ask_to_stop().
class ParameterClient {
 public:
  virtual ~ParameterClient() = default;

  // Waits until trainer 0 is ready too: initial values are in place then.
  virtual Status ready() = 0;
  // As of ready() or the end of the last pass.
  virtual JobProgress progress() const = 0;

  // The values that training continues from: the shards', or the trainer's own if it updates a
  // model of its own.
  virtual Status pull_dense(std::span<DenseParameter> parameters) = 0;
  virtual Status pull_rows(std::span<SparseRows> rows) = 0;
  // Pulls rows of the next batch before the push of this one, where they are pulled before it is
  // applied anyway; else false, and nothing was pulled.
  virtual Result<bool> pull_ahead(std::span<SparseRows> /*rows*/) { return false; }
  // The values that tests use and snapshots hold: the averages that the optimizer keeps on the
  // shards (optim/optimizer.h), or the shards' values if it keeps none.
  virtual Status pull_averages(std::span<DenseParameter> dense, std::span<SparseRows> rows) = 0;
  // The gradients that push() is for are being computed on a card, which will tell when they are
  // written (CardPlace::written): dense ones may be added up meanwhile. Optional before a push.
  virtual Status begin_push(std::uint64_t /*num_samples*/) { return {}; }
  // Pushes one batch's gradients, which are means over its samples, and refreshes dense values;
  // shards weight trainers by num_samples. Before the next call returns, the pushes of all active
  // trainers for a sync step are applied; until then the rows may be read, and stay as they are.
  virtual Status push(std::uint64_t num_samples, double cost_sum, std::span<DenseParameter> dense,
                      std::span<SparseRows> sparse) = 0;

  // After ready(), for a trainer that is back: the ports that lack its push of batch `batch` of the
  // pass get it, the others are left out. Parameters whose strategy pushes in the background are
  // not repeated. progress() tells anew where to go on.
  virtual Status repeat_push(std::uint64_t batch, std::uint64_t num_samples, double cost_sum,
                             std::span<DenseParameter> dense, std::span<SparseRows> sparse) = 0;

  // For a trainer that is back at the begin of a pass: the next finish_pass() tells the totals of
  // the pass before again; or, with kPause, the next pause_pass() those of the last pause.
  virtual void repeat_end(PassEnd end) = 0;

  // Returns when every trainer has ended the pass. `tally` counts what the evaluators saw and has
  // one shape on all trainers.
  virtual Result<PassTotals> end_pass(const Tally& tally, PassEnd end) = 0;
  Result<PassTotals> finish_pass(const Tally& tally) { return end_pass(tally, PassEnd::kFinish); }
  Result<PassTotals> pause_pass(const Tally& tally) { return end_pass(tally, PassEnd::kPause); }

  // Whether any trainer says yes. All ranks of a group ask at the same point of the job; a trainer
  // without a group hears itself alone.
  virtual Result<bool> is_any(bool own) { return own; }

  // Tells the others that this trainer is "testing" or "saving" until its next push or end of a
  // pass: they wait for it, however long that takes.
  virtual Status announce_busy(std::string_view activity) = 0;

  // Asks the whole job to stop, with the next push. May be called by any thread.
  virtual void ask_to_stop() = 0;
  // Whether an answer to a push said that some trainer asked. With synchronous pushes, all trainers
  // learn of it after the same one.
  virtual bool stop_asked() const = 0;
  // Ends the job for this trainer. Others that are gone once nobody needs them are no error.
  virtual Status leave() = 0;
  // Fails the call that waits, and all later ones. May be called by any thread.
  virtual void interrupt(const Error& why) = 0;
  // Ends the job for all: this trainer ends with an error, and nobody should wait for it. With
  // kUnreachable the job may go on from its last snapshot.
  virtual void abandon(const Error& why) = 0;

  virtual SnapshotClient& snapshots() = 0;
};

}  // namespace paddle::client

// A trainer's view of the parameters, wherever they live: lanes to dense and sparse shards, in
// process or over TCP.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tally.h"
#include "engine/memory/huge_pages.h"
#include "engine/net/link.h"
#include "proto/parameters.pb.h"

namespace paddle::client {

// Rows of one sparse table that a batch touches. ids are sorted and unique; values and gradients
// are ids.size() x width. notes are ids.size() x param::RowNotes::size(), behind them in a push.
struct SparseRows {
  std::uint32_t parameter = 0;  // index in the ParameterSet
  std::vector<std::uint64_t> ids;
  std::vector<float> values;
  std::vector<float> gradients;
  std::vector<float> notes = {};
};

// One dense parameter, whole; its values are refreshed by pull and push.
struct DenseParameter {
  std::uint32_t parameter = 0;
  LargeArray<float> value;
  LargeArray<float> gradient;
  std::span<const float> lent = {};  // the values instead, when not empty: a shard's own

  std::span<const float> values() const { return lent.empty() ? std::span(value) : lent; }
};

// A sparse table over all its ports, at the end of a pass.
struct TableTotals {
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;          // of memory on the pservers
  std::uint64_t payload_bytes = 0;  // values and optimizer state in it
  std::uint64_t candidates = 0;     // ids that wait to be admitted
  std::uint64_t expired = 0;        // in this pass
  std::uint64_t evicted = 0;
  std::uint64_t shrunk = 0;  // for their score, at the end of it
};

// What one port counted of its pushes in a pass, over all trainers.
struct PushCounts {
  std::uint64_t pushes = 0;
  std::uint64_t batches = 0;        // in them; more than pushes where batches were merged
  std::vector<std::uint64_t> lags;  // pushes by lag: 0, 1, 2-3, 4-7, ... batches
};

struct PassTotals {     // over all trainers
  bool paused = false;  // the pass is not over: a trainer has called pause_pass
  std::uint64_t samples = 0;
  double cost = 0;                              // sum over samples
  std::uint64_t discarded = 0;                  // async pushes dropped for lag
  Tally tally;                                  // sum of the trainers' tallies
  std::map<std::uint32_t, TableTotals> tables;  // by parameter
  PushCounts dense;                             // of the first dense port, and the first sparse one
  PushCounts sparse;
};

// Of the whole job.
struct JobProgress {
  std::uint64_t samples = 0;
  std::uint64_t passes = 0;   // finished
  std::uint64_t batches = 0;  // of the next one, behind this trainer already
};

// What a push stands for.
struct PushTotals {
  std::uint64_t batches = 1;
  std::uint64_t samples = 0;
  double cost = 0;  // sum over samples
};

class ParameterClient {
 public:
  struct Options {
    wire::ParameterSet parameters;
    std::uint32_t trainer_id = 0;
    std::uint32_t incarnation = 0;
    std::uint64_t job_tag = 0;
    Duration deadline = std::chrono::seconds(60);  // without any progress
    std::uint64_t transfer_bytes = 32ULL << 20U;   // largest tail of one frame, both ways
    // Calls work(0) and work(1) at the same time, and returns when both have: a push's dense part
    // and its rows. Empty: the calling thread does all.
    std::function<void(const std::function<void(std::size_t)>& work)> both = {};
    // The values of a dense shard of this process, where they stay: they are lent instead of
    // copied, and change within a push. Empty: shards are elsewhere.
    std::function<std::span<const float>(std::size_t shard)> values_of = {};
  };
  // Link i of `dense` is dense shard i = pserver index * ports_num + port index; likewise for
  // `sparse`.
  static Result<std::unique_ptr<ParameterClient>> join(
      Options options, std::vector<std::unique_ptr<net::Link>> dense,
      std::vector<std::unique_ptr<net::Link>> sparse);
  virtual ~ParameterClient() = default;

  // Trainer 0 alone, between join and ready: replaces initial values and optimizer state from a
  // snapshot directory.
  virtual Status load_snapshot(const std::string& directory) = 0;
  // The same, and the job goes on where the snapshot was taken, be it in the middle of a pass.
  virtual Status resume(const std::string& directory) = 0;
  // Trainer 0 says that initial values are in place; every trainer waits for that.
  virtual Status ready() = 0;

  // When this trainer got ready, or when the last pass ended.
  virtual JobProgress progress() const = 0;

  // What training goes on from: the shards' values, or the trainer's own where it keeps any.
  virtual Status pull_dense(std::span<DenseParameter> parameters) = 0;
  virtual Status pull_rows(std::span<SparseRows> rows) = 0;
  // What tests use and snapshots hold: the averages that the optimizer keeps on the shards
  // (optim/model_average.h), or the values on the shards where it keeps none.
  virtual Status pull_averages(std::span<DenseParameter> dense, std::span<SparseRows> rows) = 0;
  // One batch: pushes gradients (means over the batch's num_samples; the shard averages trainers
  // weighted by num_samples) and refreshes dense values. A sync push returns when every active
  // trainer's push of this step was applied.
  virtual Status push(std::uint64_t num_samples, double cost_sum, std::span<DenseParameter> dense,
                      std::span<SparseRows> sparse) = 0;
  // The same for one kind alone. One thread may push dense parameters while another pushes or
  // pulls rows; everything else is for one thread at a time.
  virtual Status push_dense(const PushTotals& totals, std::span<DenseParameter> dense) = 0;
  virtual Status push_rows(const PushTotals& totals, std::span<SparseRows> rows) = 0;
  // This trainer has no more data in this pass; returns when all trainers said so. `tally` is what
  // its evaluators counted, of one shape on all trainers.
  virtual Result<PassTotals> finish_pass(const Tally& tally) = 0;
  // The same in the middle of a pass, which is not over then.
  virtual Result<PassTotals> pause_pass(const Tally& tally) = 0;
  // From the next push on this trainer asks the job to stop. May be called by any thread.
  virtual void ask_to_stop() = 0;
  // Whether a push was answered since a trainer asked. Where pushes are rounds, every trainer hears
  // of it after the same one.
  virtual bool stop_asked() const = 0;
  // Trainer 0, between finish_pass or pause_pass and the next push: writes the snapshot directory,
  // MANIFEST last. Where averages are kept, they are what it holds as the parameters.
  virtual Status save_snapshot(const std::string& directory) = 0;
  // The same, but of tables only what differs from `base`: the directory beside it of the last
  // snapshot that save_snapshot wrote. Of a set with delta_snapshots.
  virtual Status save_delta(const std::string& directory, const std::string& base) = 0;
  // The job is over for this trainer.
  virtual Status leave() = 0;
};

}  // namespace paddle::client

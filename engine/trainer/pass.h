// A pass over this trainer's data: each batch is read, pulled, computed and pushed, with progress
// lines and held-out tests in between.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "engine/client/batch_parameters.h"
#include "engine/client/parameter_client.h"
#include "engine/data/dataset.h"
#include "engine/trainer/batch_feed.h"
#include "engine/trainer/held_out.h"
#include "engine/trainer/loop_options.h"
#include "engine/trainer/model.h"
#include "engine/trainer/replay_log.h"
#include "engine/trainer/report.h"

namespace paddle::trainer {

constexpr std::uint32_t kNotFiniteInARowMax = 10;

// Finds batches whose gradients are not finite, and leaves them out.
class NotFinite {
 public:
  // limit: gradients below it leave all values finite (parameter::gradient_limit()).
  explicit NotFinite(float limit) : limit_(limit) {}

  // If the batch is not finite, sets its gradients to zero and its score to no samples, so that a
  // push of it changes nothing on any pserver. Returns an error for the kNotFiniteInARowMax-th such
  // batch in a row. `where` names the batch: "pass 0, batch 7".
  Status leave_out(const std::string& where, std::span<const wire::ParameterSpec> specs,
                   std::span<client::DenseParameter> dense, std::span<client::SparseRows> rows,
                   Score& score);

 private:
  float limit_;
  std::uint32_t in_a_row_ = 0;
  std::uint64_t left_out_ = 0;
};

// The current pass, and the only owner of its counts: the parts of the loop that report, save and
// decide read progress().
class Pass {
 public:
  // Counts of the pass that an earlier process of this trainer has kept.
  struct KeptCounts {
    std::uint64_t batches = 0;
    Score score;  // of these batches
  };
  // The place within a pass at which this process begins.
  struct Start {
    std::uint64_t batch = 0;  // batches that are trained already
    // Empty: none are kept, or fewer than `batch`. If they are ahead of `batch`, the batches up to
    // there are trained again and not counted again.
    std::optional<KeptCounts> counts = {};
    std::optional<double> first_cost = {};  // as Report::first_cost(), of an earlier process
    bool lacks_test = false;  // an earlier process ended during the test that follows `batch`
  };

  // All references must outlive the pass.
  Pass(const LoopOptions& options, const data::Dictionary& dictionary, Model& model,
       client::ParameterClient& client, Report& report, HeldOutTest& test);

  // Trains until the end of the data or a stop request.
  Status train(std::uint32_t pass, const Start& start);
  // Goes to the end of a pass that an earlier process has trained. Trains nothing.
  void go_to_end(std::uint32_t pass, const Start& start);

  const PassProgress& progress() const { return progress_; }
  // Whether the pass was stopped before the end of the data.
  bool is_stopped() const { return is_stopped_; }
  // Whether the user, or train.time_max, asks for a stop.
  bool wants_stop() const;
  bool is_time_over() const;
  // The job ends with this pass.
  void make_last() { progress_.passes = progress_.pass + 1; }

 private:
  void begin(std::uint32_t pass, std::uint64_t batch);
  void restore(const Start& start);
  // begun: when the trainer began to read the batch.
  Status train_batch(BatchFeed& feed, TimePoint begun);
  Result<Score> compute(BatchFeed& feed, Duration& waited);
  void count(const Score& score);
  std::optional<double> share_done(std::optional<double> share_given) const;

  const LoopOptions& options_;
  const data::Dictionary& dictionary_;
  Model& model_;
  client::ParameterClient& client_;
  Report& report_;
  HeldOutTest& test_;

  PassProgress progress_;
  bool is_stopped_ = false;
  std::optional<std::uint64_t> batches_before_;  // of the pass before, in all
  NotFinite not_finite_;
};

}  // namespace paddle::trainer

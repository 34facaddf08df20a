// The training loop: passes over the data, each batch pulled, computed and pushed, with tests,
// snapshots and progress lines in between.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/client/batch_parameters.h"
#include "engine/client/parameter_client.h"
#include "engine/config/job_config.h"
#include "engine/data/dataset.h"
#include "engine/snapshot/info.h"
#include "engine/trainer/early_stop.h"
#include "engine/trainer/kept_push.h"
#include "engine/trainer/metrics.h"
#include "engine/trainer/model.h"
#include "proto/parameters.pb.h"
#include "proto/supervision.pb.h"

namespace paddle::trainer {

struct LoopOptions {
  config::TrainConfig train;
  wire::Optimizer optimizer;
  // With skips_not_finite: as of NotFinite.
  float gradient_limit = std::numeric_limits<float>::max();
  config::Uneven uneven = config::Uneven::kJoin;
  bool tests_shards = false;  // tests use averages or shard values, not the trainer's own
  std::uint64_t seed = 1;
  std::uint32_t trainer_id = 0;  // trainer 0 tests and saves for all
  std::uint32_t start_pass = 0;
  std::uint64_t batches_done = 0;  // of start_pass, by earlier runs
  // Some trainer has done a batch of start_pass; of trainer 0, and of all ranks of a group.
  bool begins_within_pass = false;
  // The pass before start_pass ended while the pservers ran, perhaps without this life of the
  // trainer, and all trainers have met so many times since.
  bool repeats_pass_end = false;
  std::uint64_t meetings_done = 0;
  client::LanePosition furthest;            // where some port is already, of this trainer
  KeptPush* kept = nullptr;                 // null: this trainer does not come back alone
  std::function<void()> before_leave = {};  // a job that is over
  std::function<bool()> stop_requested = {};
  std::optional<TimePoint> ends_at = {};  // train.time_max, which trainer 0 observes for all
  std::function<void(const wire::Progress&)> report = {};  // called about once a second
  std::string save_dir;                                    // "": no snapshots
  bool saves_copy = false;         // of trainer 0's snapshots, by another trainer
  bool is_brief = false;           // a line for each pass, for a person who waits for the end
  std::string went_back = {};      // as in wire::Progress
  snapshot::DataOrder order = {};  // of train_data, for snapshots within a pass
  std::function<std::uint64_t()> data_hash = {};  // of its content; empty: not known
  data::DatasetOptions train_data;
  data::DatasetOptions test_data;  // without files: no tests
};

constexpr std::size_t kFailureBytesMax = 500;  // a report must fit a pipe's atomic write

// "<save_dir>/pass-00007"
std::string pass_directory(const std::string& save_dir, std::uint32_t pass);
// "<save_dir>/pass-00007-000120", after so many batches of trainer 0 (v0.10's pass-%05d-%03d)
std::string stop_directory(const std::string& save_dir, std::uint32_t pass, std::uint64_t batch);

class BatchFeed;

constexpr std::uint32_t kNotFiniteInARowMax = 10;

// Batches whose gradients are not finite, and how they are left out.
class NotFinite {
 public:
  // limit: a gradient below it leaves all values finite (parameter::gradient_limit()).
  explicit NotFinite(float limit) : limit_(limit) {}

  // Leaves out a batch that is not finite: its gradients are zero then and its score has no
  // samples, so that a push of it changes nothing on any pserver. An error of the
  // kNotFiniteInARowMax-th in a row. `where` names the batch: "pass 0, batch 7".
  Status leave_out(const std::string& where, std::span<const wire::ParameterSpec> specs,
                   std::span<client::DenseParameter> dense, std::span<client::SparseRows> rows,
                   Score& score);

 private:
  float limit_;
  std::uint32_t in_a_row_ = 0;
  std::uint64_t left_out_ = 0;
};

class Loop {
 public:
  // All must outlive the loop. The client must be ready().
  Loop(LoopOptions options, const data::Dictionary& dictionary, Model& model,
       client::ParameterClient& client, MetricsFile& metrics)
      : options_(std::move(options)),
        dictionary_(dictionary),
        model_(model),
        client_(client),
        metrics_(metrics),
        early_stop_(options_.train, figures_of(model.read(Score()))) {}

  // Runs passes start_pass to passes - 1, or until a test ends the job. After a stop request, or
  // when its time is over: kResumable with a snapshot, or kInterrupted without a save_dir.
  Status run();
  // The last push of an earlier life reached some ports only, and can never reach the others.
  bool has_lost_push() const { return has_lost_push_; }

 private:
  // Takes up what an earlier life has left: its last push, or the end of its last pass.
  Status come_back();
  Status repeat_push();
  Status repeat_pass_end(std::uint32_t pass);
  // Counts what earlier lives have trained of the pass, perhaps further than this one begins.
  void restore(std::uint32_t pass);
  bool is_saved(std::uint32_t pass) const;
  bool was_saved(std::uint32_t pass) const;  // before this life
  // Until the end of the data or a stop request.
  Status run_pass(std::uint32_t pass);
  // begun: when it began to read the batch.
  Status train_batch(std::uint32_t pass, BatchFeed& feed, TimePoint begun);
  Status meet_others();  // returns when every trainer has come here
  // Before a test or a snapshot: neither the others nor the supervisor take it for a hang.
  Status begin_long_work(std::uint32_t pass, wire::Activity activity);
  Status end_pass(std::uint32_t pass);
  // The counters of the pass, and behind them, for each trainer, its records of the pass and the
  // hash of its data: the sum of all trainers' has them all.
  Tally tally_to_send(std::uint32_t pass) const;
  void take_places(Tally& tally);
  void tell_pass(std::uint32_t pass, const client::PassTotals& totals, const Reading& all,
                 double rate);
  Status save_with_others(std::uint32_t pass);
  Status save_or_copy(std::uint32_t pass);
  Status begin_next(std::uint32_t pass);  // after `pass`
  Status stop(std::uint32_t pass);
  static constexpr std::uint64_t kEndOfPass = UINT64_MAX;
  Status test(std::uint32_t pass, std::uint64_t batch = kEndOfPass);
  void tell_test(std::uint32_t pass, std::uint64_t batch, const Reading& reading);
  bool is_time_over() const;
  bool wants_stop() const;
  bool keeps_snapshots() const;  // its own, or copies
  // Each returns when all have met after `pass`, and all have heard the same.
  Status decide(std::uint32_t pass);
  Status hear_decision(std::uint32_t pass, const Decision& own);
  Status hear_again(std::uint32_t pass);  // of a trainer that is back
  Status decide_at_start();
  Status end_early(std::uint32_t pass);
  void recall_tests();
  void note_best();
  // Share of the pass's batches that are trained, 0 to 1; nothing while that is not known.
  std::optional<double> pass_done() const;
  // Reports at most once a second, and at once when the activity changes and after the first batch.
  void report(std::uint32_t pass, wire::Activity activity);
  // Warns once, or ends the job, when the cost of the latest batches shows that training diverges.
  Status check_divergence(double cost);
  Status log_progress(std::uint32_t pass);
  Status save(std::uint32_t pass);
  // save(), but a failure that costs no more than this snapshot is only told, unless it is the last
  // one of the job.
  Status save_pass(std::uint32_t pass);
  bool can_train_on(const Error& failure) const;
  Status keep_newest(std::uint32_t pass);
  void remove_former_best(std::uint32_t pass);
  // Full copies of trainer 0's snapshots, under the same names. One that cannot be written costs
  // the job nothing.
  bool saves_copies() const;
  Status copy_pass(std::uint32_t pass);
  Status copy_stop(std::uint32_t pass);
  Status copy_to(std::uint32_t pass, const std::string& directory);

  LoopOptions options_;
  const data::Dictionary& dictionary_;
  Model& model_;
  client::ParameterClient& client_;
  MetricsFile& metrics_;

  // Of the current pass.
  std::uint64_t batch_ = 0;
  std::uint64_t batches_counted_ = 0;  // in since_start_
  bool is_stopped_ = false;            // before the end of the data
  std::uint64_t bad_records_ = 0;      // skipped by this trainer
  Score since_start_;
  Score since_log_;
  TimePoint begun_at_;   // start of the pass, moved by the time of its tests
  TimePoint logged_at_;  // likewise
  Duration busy_{};      // reading and computing, not waiting for others
  Duration busy_at_log_{};
  std::optional<double> share_trained_;           // of the records of this pass, where known
  std::optional<std::uint64_t> batches_of_pass_;  // counted in the one before

  wire::Activity activity_ = wire::ACTIVITY_TRAINING;
  TimePoint reported_at_;
  RateMeter rate_;
  UsualRate usual_rate_;
  std::uint64_t batch_reported_ = 0;  // of this pass
  bool has_reported_batch_ = false;   // one of this run
  double reported_cost_ = 0;          // the last one of a sample
  std::uint64_t samples_ = 0;         // of this run
  double first_cost_ = 0;             // mean of the first batch
  bool has_first_cost_ = false;
  bool is_diverging_ = false;
  NotFinite not_finite_{options_.gradient_limit};

  snapshot::PassPlace place_;  // of all trainers, once a pass has ended or was paused
  bool has_met_at_end_ = false;
  bool has_lost_push_ = false;

  EarlyStop early_stop_;
  std::optional<std::vector<nn::Value>> tested_;  // by the last test, if nothing was decided since
  TimePoint said_at_ = SteadyClock().now();       // the last line, where those are brief
  std::string undefined_note_;                    // of the last test
  std::string best_;                              // "pass-00003"; "": none
  std::string best_kept_;                         // likewise, when snapshots were last removed

  std::optional<std::uint32_t> full_pass_;  // the last of which this run saved a full snapshot
  std::string base_;                        // the last full snapshot of this run
  std::uint32_t deltas_ = 0;                // since then
  std::string save_failure_;                // as in wire::Progress
};

}  // namespace paddle::trainer

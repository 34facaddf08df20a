// The training loop: passes over the data. Each batch is pulled, computed and pushed, with tests,
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
  // With train.skips_not_finite: the limit of NotFinite.
  float gradient_limit = std::numeric_limits<float>::max();
  config::Uneven uneven = config::Uneven::kJoin;
  bool tests_shards = false;  // tests use averages or the shards' values, not the trainer's own
  std::uint64_t seed = 1;
  std::uint32_t trainer_id = 0;  // trainer 0 tests and saves for all
  std::uint32_t start_pass = 0;
  std::uint64_t batches_done = 0;  // of start_pass, trained by earlier runs
  // Some trainer has trained a batch of start_pass. Set on trainer 0, and on all ranks of a group.
  bool begins_within_pass = false;
  // The pass before start_pass ended while the pservers ran, perhaps while this trainer's process
  // was down. meetings_done counts the barriers of all trainers since that end.
  bool repeats_pass_end = false;
  std::uint64_t meetings_done = 0;
  client::LanePosition furthest;            // this trainer's furthest position on any port
  KeptPush* kept = nullptr;                 // null: this trainer is not restarted alone
  std::function<void()> before_leave = {};  // called when the job is over
  std::function<bool()> stop_requested = {};
  std::optional<TimePoint> ends_at = {};  // train.time_max; only trainer 0 checks it
  std::function<void(const wire::Progress&)> report = {};  // called about once a second
  std::string save_dir;                                    // "": no snapshots
  bool saves_copy = false;                                 // saves copies of trainer 0's snapshots
  bool is_brief = false;           // one line for each pass, for a user who waits for the end
  std::string went_back = {};      // as in wire::Progress
  snapshot::DataOrder order = {};  // of train_data, for snapshots within a pass
  std::function<std::uint64_t()> data_hash = {};  // hash of train_data's content; empty: unknown
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

class Loop {
 public:
  // All references must outlive the loop. REQUIRES: client.ready() has succeeded.
  Loop(LoopOptions options, const data::Dictionary& dictionary, Model& model,
       client::ParameterClient& client, MetricsFile& metrics)
      : options_(std::move(options)),
        dictionary_(dictionary),
        model_(model),
        client_(client),
        metrics_(metrics),
        early_stop_(options_.train, figures_of(model.read(Score()))) {}

  // Runs passes start_pass to passes - 1, or until a test ends the job. After a stop request, or
  // when train.time_max is over: kResumable with a snapshot, or kInterrupted without a save_dir.
  Status run();
  // The last push of an earlier process of this trainer reached only some ports, and cannot reach
  // the others.
  bool has_lost_push() const { return has_lost_push_; }

 private:
  Status check_test_data();
  // Finishes what an earlier process of this trainer began: its last push, or the end of its last
  // pass.
  Status come_back();
  Status repeat_push();
  Status repeat_pass_end(std::uint32_t pass);
  // Restores the counts that earlier processes kept of the pass. They may be ahead of the batch at
  // which this process begins.
  void restore(std::uint32_t pass);
  bool is_saved(std::uint32_t pass) const;
  bool was_saved(std::uint32_t pass) const;  // before this process began
  // Trains until the end of the data or a stop request.
  Status run_pass(std::uint32_t pass);
  // begun: when the trainer began to read the batch.
  Status train_batch(std::uint32_t pass, BatchFeed& feed, TimePoint begun);
  Status meet_others();  // returns when every trainer has called it
  // Announces a test or a snapshot, so that neither the other trainers nor the supervisor take it
  // for a hang.
  Status begin_long_work(std::uint32_t pass, wire::Activity activity);
  Status end_pass(std::uint32_t pass);
  // The counters of the pass, followed by two counts per trainer: its records of the pass, and the
  // hash of its data. Each trainer fills in its own counts, so that the sum over trainers contains
  // all of them.
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
  bool keeps_snapshots() const;  // own snapshots, or copies
  // Each returns when all trainers have passed the barrier after `pass`; all have the same decision
  // then.
  Status decide(std::uint32_t pass);
  Status hear_decision(std::uint32_t pass, const Decision& own);
  Status hear_again(std::uint32_t pass);  // for a restarted trainer
  Status decide_at_start();
  Status end_early(std::uint32_t pass);
  void recall_tests();
  void note_best();
  // Trained share of the pass's batches, 0 to 1; empty while it is unknown.
  std::optional<double> pass_done() const;
  // Reports at most once a second, and at once when the activity changes and after the first batch.
  void report(std::uint32_t pass, wire::Activity activity);
  // Warns once, or ends the job, when the cost of the latest batches shows that training diverges.
  Status check_divergence(double cost);
  Status log_progress(std::uint32_t pass);
  Status save(std::uint32_t pass);
  // Calls save(). A failure that costs no more than this snapshot is only logged, unless the
  // snapshot is the last one of the job.
  Status save_pass(std::uint32_t pass);
  bool can_train_on(const Error& failure) const;
  Status keep_newest(std::uint32_t pass);
  void remove_former_best(std::uint32_t pass);
  // Full copies of trainer 0's snapshots, under the same names. If this node cannot write one, the
  // job goes on.
  bool saves_copies() const;
  Status copy_pass(std::uint32_t pass);
  Status copy_stop(std::uint32_t pass);
  Status copy_to(std::uint32_t pass, const std::string& directory);

  LoopOptions options_;
  const data::Dictionary& dictionary_;
  Model& model_;
  client::ParameterClient& client_;
  MetricsFile& metrics_;

  // State of the current pass.
  std::uint64_t batch_ = 0;
  std::uint64_t batches_counted_ = 0;  // in since_start_
  bool is_stopped_ = false;            // before the end of the data
  std::uint64_t bad_records_ = 0;      // skipped by this trainer
  Score since_start_;
  Score since_log_;
  TimePoint begun_at_;   // start of the pass, moved by the time of its tests
  TimePoint logged_at_;  // time of the last progress line, moved by the time of tests
  Duration busy_{};      // reading and computing, not waiting for others
  Duration busy_at_log_{};
  std::optional<double> share_trained_;           // of the records of this pass; empty: unknown
  std::optional<std::uint64_t> batches_of_pass_;  // counted in the pass before

  wire::Activity activity_ = wire::ACTIVITY_TRAINING;
  TimePoint reported_at_;
  RateMeter rate_;
  UsualRate usual_rate_;
  std::uint64_t batch_reported_ = 0;  // of this pass
  bool has_reported_batch_ = false;   // some batch of this run
  double reported_cost_ = 0;          // the last cost over at least one sample
  std::uint64_t samples_ = 0;         // of this run
  double first_cost_ = 0;             // mean of the first batch
  bool has_first_cost_ = false;
  bool is_diverging_ = false;
  NotFinite not_finite_{options_.gradient_limit};

  snapshot::PassPlace place_;  // of all trainers; set when a pass has ended or paused
  bool has_met_at_end_ = false;
  bool has_lost_push_ = false;

  EarlyStop early_stop_;
  // Figures of the last test that no decision has used.
  std::optional<std::vector<nn::Value>> tested_;
  TimePoint said_at_ = SteadyClock().now();  // time of the last line, if is_brief
  std::string undefined_note_;               // of the last test
  std::string best_;                         // "pass-00003"; "": none
  std::string best_kept_;                    // best_ when snapshots were last removed

  std::optional<std::uint32_t> full_pass_;  // the last pass that this run saved in full
  std::string base_;                        // the last full snapshot of this run
  std::uint32_t deltas_ = 0;                // saved since base_
  std::string save_failure_;                // as in wire::Progress
};

}  // namespace paddle::trainer

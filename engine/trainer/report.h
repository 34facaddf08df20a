// Report of a trainer on its training. Each line is one Record, and the log, the metrics file and
// the supervisor's progress are views of it:
//
//   Pass, HeldOutTest, EndOfPass --> Record --+--> log_text(), brief_text()   the log
//                                             +--> metrics_fields()           metrics.jsonl
//                                             +--> to_progress()              the supervisor
//
// A restarted trainer repeats batches and ends of passes. ReplayLog knows which lines an earlier
// process has written, so that each is written once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "engine/client/parameter_client.h"
#include "engine/trainer/loop_options.h"
#include "engine/trainer/metrics.h"
#include "engine/trainer/model.h"
#include "proto/supervision.pb.h"

namespace paddle::trainer {

constexpr std::size_t kFailureBytesMax = 500;  // a notice must fit a pipe's atomic write

// The position of a trainer in the job, and its counts of the current pass. Pass keeps it.
struct PassProgress {
  std::uint32_t pass = 0;
  std::uint32_t passes = 0;  // of the job
  std::uint64_t batch = 0;   // trained in this pass
  // INVARIANT: batches_counted >= batch. They differ while a restarted trainer repeats batches that
  // its earlier process has counted.
  std::uint64_t batches_counted = 0;
  Score score;                            // of the counted batches
  std::uint64_t bad_records = 0;          // skipped by this trainer
  std::optional<double> share_done = {};  // of the pass, 0 to 1; empty: unknown
};

// The figures of one line.
struct Record {
  enum class Kind : std::uint8_t {
    kTrain,  // a log point within a pass
    kPause,  // the last line of a run that stops within a pass
    kPass,   // the end of a pass
    kTest,   // a held-out test
    kSave,   // a snapshot
    kStop,   // the job ends before its last pass
  };
  Kind kind = Kind::kTrain;
  std::uint32_t pass = 0;
  std::uint32_t passes = 0;
  std::uint64_t batch = 0;
  std::optional<double> share_done;
  Reading reading;        // since the start of the pass; kTest: of the held-out records
  Reading current;        // kTrain: since the line before
  double first_cost = 0;  // mean of the first batch
  double per_second = 0;  // examples
  double per_busy_second = 0;
  Reading all;  // kPass: of all trainers
  // kPass: pushes and tables, over all trainers. The record does not outlive them.
  const client::PassTotals* totals = nullptr;
  std::uint64_t bad_records = 0;  // kPass: skipped by this trainer
  bool is_within_pass = false;    // kTest
  std::string path;               // kSave
  std::string why;                // kStop
};

// The line of the log, in v0.10's format; "" for kSave.
std::string log_text(const Record& record);
// The short line of a job that a user follows: "pass 3 of 10 (pass-00002), batch 40: cost 0.5 ...".
std::string brief_text(const Record& record);
// The fields in metrics.jsonl after the reading, in their order there.
JsonObject metrics_fields(const Record& record);
wire::Progress to_progress(const Record& record);

// Shortest training time that gives a rate: a report right after a test would divide one batch or
// none by the time of the test.
constexpr auto kRateWindow = std::chrono::seconds(1);

// The rate of training for reports, which are made once a second and at each change of activity.
class RateMeter {
 public:
  // examples: trained on in all. trained: whether the time since the last call was spent on
  // training, and not on a test or a save. Returns the examples per second of the last kRateWindow
  // of training or more; 0 before the first window has ended.
  double add(TimePoint now, std::uint64_t examples, bool trained);

 private:
  std::optional<TimePoint> last_;
  Duration window_{};
  std::uint64_t examples_ = 0;  // at the start of the window
  double rate_ = 0;
};

// The rate while a trainer computes and does not wait: the median over the last reports, which a
// single disturbed report does not change.
class UsualRate {
 public:
  void add(std::uint64_t examples, Duration busy) {
    examples_ += examples;
    busy_ += busy;
  }
  // Ends the period of a report, unless nothing was added. Returns examples per second; 0 before
  // the third report.
  double take();

 private:
  static constexpr std::size_t kReportsMin = 3;

  std::uint64_t examples_ = 0;
  Duration busy_{};
  std::array<double, 5> last_{};  // a ring
  std::size_t reports_ = 0;
};

class Report {
 public:
  // All references must outlive the report.
  Report(const LoopOptions& options, const Model& model, client::ParameterClient& client,
         MetricsFile& metrics)
      : options_(options), model_(model), client_(client), metrics_(metrics) {}

  // Starts the clocks and counts of a pass.
  void begin_pass(const PassProgress& at);
  // busy: the time that this trainer read and computed, without its waits for others.
  void add_batch(const Score& score, Duration busy);

  // Mean cost of the first batch with a sample; 0 before it. The costs of later lines are compared
  // with it. A restarted trainer has the first cost of its earlier process.
  double first_cost() const { return first_cost_.value_or(0); }
  void restore_first_cost(double cost) {
    if (!first_cost_) first_cost_ = cost;
  }

  // Publishes progress at most once a second, and at once when the activity changes and after the
  // first batch.
  void publish(const PassProgress& at, wire::Activity activity);
  // Announces a test or a snapshot, so that neither the other trainers nor the supervisor take it
  // for a hang.
  Status begin_long_work(const PassProgress& at, wire::Activity activity);
  // Publishes the best pass so far, of a test that has just ended, at once.
  void publish_best(const PassProgress& at, std::uint32_t pass, const nn::Value& figure);
  // As in wire::Progress; "": the latest snapshot was saved.
  void set_save_failure(std::string failure) { save_failure_ = std::move(failure); }

  // A log point within a pass. kFailed: training diverges, and the job stops then.
  Status write_train(const PassProgress& at);
  // The last line of a run that stops within the pass. why: the metrics' reason; "": on request.
  void write_pause(const PassProgress& at, std::string_view why);
  // This trainer's examples per second in the pass, up to now.
  double rate_of_pass(const PassProgress& at) const;
  // The end of a pass. rate: from rate_of_pass(), before the trainer waited for the others. Errors:
  // as write_train().
  Status write_pass(const PassProgress& at, const client::PassTotals& totals, double rate);
  // took: the time of the test, which is left out of the rates of training.
  void write_test(const PassProgress& at, bool is_within_pass, const Reading& reading,
                  Duration took);
  void write_save(const PassProgress& at, const std::string& path);
  // The job ends with this pass. Publishes at.passes, too.
  void write_stop(const PassProgress& at, const std::string& why);

 private:
  Record record_of(Record::Kind kind, const PassProgress& at) const;
  void log(const Record& record);
  void log_brief(const Record& record);
  void write_metrics(const Record& record);
  // Warns once, or ends the job, when a cost shows that training diverges.
  Status check_divergence(double cost);

  const LoopOptions& options_;
  const Model& model_;
  client::ParameterClient& client_;
  MetricsFile& metrics_;

  // Since the start of the pass, and since its last line. Tests move both times on.
  TimePoint pass_begun_at_;
  Duration busy_{};
  TimePoint line_at_;
  Duration busy_at_line_{};
  Score since_line_;

  // Published progress.
  wire::Activity activity_ = wire::ACTIVITY_TRAINING;
  TimePoint published_at_;
  std::uint64_t batch_published_ = 0;  // of this pass
  bool has_published_batch_ = false;   // some batch of this run
  double published_cost_ = 0;          // the last cost over at least one sample
  std::uint64_t samples_ = 0;          // of this run
  RateMeter rate_;
  UsualRate usual_rate_;
  std::string save_failure_;
  std::optional<wire::Best> best_;
  bool has_new_best_ = false;  // not published yet

  std::optional<double> first_cost_;
  bool is_diverging_ = false;
  TimePoint brief_at_ = SteadyClock().now();  // time of the last line, if is_brief
  std::string undefined_note_;                // of the last test
};

}  // namespace paddle::trainer

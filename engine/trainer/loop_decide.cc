// Tests, and what those at the ends of passes decide: trainer 0 tells it when all meet after the
// pass, and every trainer does as it heard, trainer 0 too. A job with train.best or train.stop_when
// meets once after each pass: trainer 0 comes when it has saved and tested.
#include <fmt/format.h>

#include "base/log.h"
#include "engine/snapshot/file_system.h"
#include "engine/snapshot/retention.h"
#include "engine/trainer/held_out.h"
#include "engine/trainer/loop.h"

namespace paddle::trainer {

Status Loop::test(std::uint32_t pass, std::uint64_t batch) {
  if (options_.trainer_id != 0 || options_.test_data.share.files.empty()) return {};
  const TimePoint begun = std::chrono::steady_clock::now();
  PADDLE_TRY_STATUS(begin_long_work(pass, wire::ACTIVITY_TESTING));
  if (options_.tests_shards) PADDLE_TRY_STATUS(client_.pull_averages(model_.dense(), {}));
  const auto stream = data::open_pass(options_.test_data, dictionary_, 0);
  PADDLE_TRY(const Score score, score_held_out(
                                    *stream, model_,
                                    [this](std::span<client::SparseRows> rows) {
                                      return client_.pull_averages({}, rows);
                                    },
                                    [&] { report(pass, wire::ACTIVITY_TESTING); }));
  if (options_.tests_shards) PADDLE_TRY_STATUS(client_.pull_dense(model_.dense()));
  const Reading reading = model_.read(score);
  tested_ = figures_of(reading);
  const TimePoint now = std::chrono::steady_clock::now();
  logged_at_ += now - begun;
  begun_at_ += now - begun;
  if (!KeptPush::is_new(options_.kept, KeptPush::Line::kTest, {pass, batch})) return {};
  tell_test(pass, batch, reading);
  if (const std::string why = undefined_note(reading); why != undefined_note_) {
    if (!why.empty()) log_warning("{}", why);
    undefined_note_ = why;
  }
  JsonObject more;
  more.add("examples_per_second", examples_per_second(score.samples, now - begun));
  metrics_.write("test", pass, batch_, reading, more);
  return {};
}

void Loop::tell_test(std::uint32_t pass, std::uint64_t batch, const Reading& reading) {
  if (!options_.is_brief) return log_info("{}", test_line(reading));
  std::string what =
      fmt::format("pass {} of {} ({})", pass + 1, options_.train.passes, snapshot::pass_name(pass));
  if (batch != kEndOfPass) what += fmt::format(", batch {}", batch);
  log_plain(brief_line(options_.train.passes > 0 ? what : "before training", "held-out ", reading));
  said_at_ = std::chrono::steady_clock::now();
}

bool Loop::is_time_over() const {
  return options_.trainer_id == 0 && options_.ends_at &&
         std::chrono::steady_clock::now() >= *options_.ends_at;
}

bool Loop::wants_stop() const {
  return (options_.stop_requested && options_.stop_requested()) || is_time_over();
}

bool Loop::keeps_snapshots() const {
  return saves_copies() || (options_.trainer_id == 0 && !options_.save_dir.empty());
}

// Tests of passes that are trained again do not count.
void Loop::recall_tests() {
  if (!keeps_snapshots()) return;
  auto tests = read_tests(options_.save_dir);
  if (!tests) return log_warning("{}; tests count from here on", tests.error().message);
  for (PassTest& test : *tests) {
    if (test.pass < options_.start_pass) early_stop_.add(std::move(test));
  }
  note_best();
}

void Loop::note_best() {
  const auto is_saved = [this](std::uint32_t pass) {
    return snapshot::kernel_file_system().exists(pass_directory(options_.save_dir, pass));
  };
  const auto best = early_stop_.best(is_saved);
  best_ = best ? snapshot::pass_name(*best) : "";
  const Status written = write_best(options_.save_dir, best_);
  if (!written) log_warning("{}; the file may name another pass", written.error().message);
}

Status Loop::decide(std::uint32_t pass) {
  Decision own;
  if (options_.trainer_id == 0) {
    if (tested_) early_stop_.add({pass, *std::exchange(tested_, std::nullopt)});
    own.reason = early_stop_.judge();
    if (early_stop_.has_test(pass)) own.figures = early_stop_.tests().back().figures;
  }
  return hear_decision(pass, own);
}

// Pservers tell every life of a trainer what they told the first.
Status Loop::hear_decision(std::uint32_t pass, const Decision& own) {
  const std::vector<nn::Value> figures = figures_of(model_.read(Score()));
  PADDLE_TRY(const client::PassTotals all, client_.pause_pass(encode(own, figures)));
  const auto heard = decode_decision(all.tally, figures);
  if (!heard) {
    return Error{Errc::kFailed, "trainers met after a pass without a decision", "this is a bug"};
  }
  if (!heard->figures.empty()) early_stop_.add({pass, heard->figures});
  if (heard->reason != EndReason::kNone && pass + 1 < options_.train.passes) {
    const std::string why = early_stop_.explain(heard->reason);
    log_info("training ends with pass {} ({}): {}", pass + 1, snapshot::pass_name(pass), why);
    metrics_.write("stop", pass, batch_, model_.read(since_start_), JsonObject().add("why", why));
    options_.train.passes = pass + 1;
    reported_at_ -= std::chrono::seconds(1);  // which makes a report due: of fewer passes
    report(pass, activity_);
  }
  if (!keeps_snapshots()) return {};
  const Status written = write_tests(options_.save_dir, early_stop_.tests());
  if (!written) log_warning("{}; a job that goes on may not know them", written.error().message);
  note_best();
  return {};
}

// The last snapshot of a job is a full one.
Status Loop::end_early(std::uint32_t pass) {
  const bool is_over = pass + 1 == options_.train.passes;
  if (!is_over || !is_saved(pass) || !keeps_snapshots()) return {};
  if (full_pass_ != pass) {
    PADDLE_TRY_STATUS(options_.trainer_id == 0 ? save_pass(pass) : copy_pass(pass));
    note_best();
  }
  remove_former_best(pass);
  return {};
}

// The test after the last save may have found a better pass than the one kept until then.
void Loop::remove_former_best(std::uint32_t pass) {
  if (options_.train.snapshots_kept == 0 || best_ == best_kept_) return;
  if (const Status kept = keep_newest(pass); !kept)
    log_warning("{}; a snapshot more than train.snapshots_kept stays", kept.error().message);
}

// A job that went on after a pass, by a snapshot, decides again: it may have ended with that pass.
Status Loop::decide_at_start() {
  if (options_.start_pass == 0 || options_.start_pass >= options_.train.passes) return {};
  const std::uint32_t pass = options_.start_pass - 1;
  const bool is_within = options_.batches_done > 0 || options_.begins_within_pass;
  if (options_.meetings_done > 0) return is_within ? Status() : hear_again(pass);
  if (!is_within && !early_stop_.has_test(pass)) PADDLE_TRY_STATUS(test(pass));
  return decide(pass);
}

Status Loop::hear_again(std::uint32_t pass) {
  has_met_at_end_ = options_.meetings_done > 1;
  if (has_met_at_end_) {
    options_.train.passes = pass + 1;
    return {};
  }
  client_.repeat_end(client::PassEnd::kPause);
  return hear_decision(pass, {});
}

}  // namespace paddle::trainer

#include "engine/trainer/end_of_pass.h"

#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"

namespace paddle::trainer {

EndOfPass::EndOfPass(const LoopOptions& options, Model& model, client::ParameterClient& client,
                     Pass& pass, Report& report, HeldOutTest& test)
    : options_(options),
      model_(model),
      client_(client),
      pass_(pass),
      report_(report),
      test_(test),
      snapshots_(options, client, report),
      early_stop_(options.train, figures_of(model.read(Score()))) {}

Status EndOfPass::run() {
  const PassProgress& at = pass_.progress();
  const double rate = report_.rate_of_pass(at);
  if (pass_.wants_stop()) client_.ask_to_stop();
  const Tally own = tally_to_send();
  PADDLE_TRY(client::PassTotals totals,
             pass_.is_stopped() ? client_.pause_pass(own) : client_.finish_pass(own));
  const snapshot::PassPlace place = split_off_places(totals.tally);
  if (totals.paused) return stop(place);
  if (totals.samples == 0 && at.batch == 0 && !had_records_before()) return no_record();
  PADDLE_TRY_STATUS(report_.write_pass(at, totals, rate));
  if (is_saved()) PADDLE_TRY_STATUS(save());
  if (!options_.train.has_decisions()) {
    // INVARIANT: nothing is pushed during a save. A job that resumes from the snapshot would push
    // the batches of the next pass again.
    if (is_saved()) PADDLE_TRY_STATUS(barrier());
    return prepare_next_pass();
  }
  PADDLE_TRY_STATUS(prepare_next_pass());
  PADDLE_TRY_STATUS(decide());
  return complete_last_snapshot();
}

// Between two passes, a pause without a batch ends when every trainer has asked for it: it is a
// barrier.
Status EndOfPass::barrier() {
  if (const auto all = client_.pause_pass(model_.empty_tally()); !all) return all.error();
  return {};
}

// Totals of all trainers.

// The counters of the pass, followed by two counts per trainer: its records of the pass, and the
// hash of its data. Each trainer fills in its own counts, so that the sum over trainers contains
// all of them.
Tally EndOfPass::tally_to_send() const {
  const PassProgress& at = pass_.progress();
  Tally tally = at.score.tally;
  tally.add(model_.empty_tally());  // a pass without a batch has no shape yet
  const std::size_t trainers = options_.train_data.num_trainers;
  const std::size_t own = tally.counts.size();
  if (own + tally.sums.size() + 2 * trainers > kTallyEntriesMax) return tally;
  tally.counts.resize(own + 2 * trainers);
  const std::size_t place = own + options_.trainer_id;
  tally.counts[place] = data::records_before(options_.train_data, at.pass, at.batch);
  if (options_.data_hash) tally.counts[place + trainers] = options_.data_hash();
  return tally;
}

// The places of all trainers in the pass, from the end of the sum of their tallies.
snapshot::PassPlace EndOfPass::split_off_places(Tally& tally) const {
  const auto trainers = static_cast<std::ptrdiff_t>(options_.train_data.num_trainers);
  const std::size_t own = model_.empty_tally().counts.size();
  snapshot::PassPlace place{.order = options_.order, .records = {}, .data = {}};
  if (tally.counts.size() != own + 2ULL * options_.train_data.num_trainers) return place;
  const auto records = tally.counts.begin() + static_cast<std::ptrdiff_t>(own);
  place.records.assign(records, records + trainers);
  place.data.assign(records + trainers, tally.counts.end());
  tally.counts.resize(own);
  return place;
}

// Whether an earlier run had records of the pass. Only trainer 0 knows whether a snapshot begins
// within a pass.
bool EndOfPass::had_records_before() const {
  if (options_.trainer_id != 0) return client_.progress().samples > 0;
  return options_.begins_within_pass && pass_.progress().pass == options_.start_pass;
}

Error EndOfPass::no_record() const {
  return {Errc::kData,
          fmt::format("{} had no record for any trainer; trainer {} read {}",
                      pass_words(pass_.progress().pass), options_.trainer_id,
                      files_text(options_.train_data.share.files)),
          "check whether the files of [data] train are empty, or all of their "
          "records were left out"};
}

// Save, and test.

// A shard that has passed the barrier after a save is at a position beyond the end of the pass: the
// pass was saved before this process began.
Status EndOfPass::save() {
  const PassProgress& at = pass_.progress();
  const bool was_saved = options_.furthest > client::TrainerPosition{at.pass + 1ULL, 0, 0};
  return was_saved ? Status() : snapshots_.save(at);
}

// The values of a trainer that ran out of data are old: it did not take part in the last rounds.
Status EndOfPass::prepare_next_pass() {
  PADDLE_TRY_STATUS(client_.pull_dense(model_.dense()));
  return test_.run_at_end(pass_.progress());
}

// A stop within the pass.

Status EndOfPass::stop(const snapshot::PassPlace& place) {
  const PassProgress& at = pass_.progress();
  const bool is_late = pass_.is_time_over();
  report_.write_pause(at, is_late ? "train.time_max is over" : "");
  const std::string why =
      fmt::format("{} in {}, after batch {} of trainer {}",
                  is_late ? "stopped because train.time_max is over" : "stopped on request",
                  pass_words(at.pass), at.batch, options_.trainer_id);
  if (options_.save_dir.empty()) {
    PADDLE_TRY_STATUS(client_.leave());
    return Error{Errc::kInterrupted, fmt::format("{}; nothing was saved", why),
                 "set --save_dir to be able to resume"};
  }
  PADDLE_TRY_STATUS(snapshots_.save_stop(at, place));
  PADDLE_TRY_STATUS(client_.leave());
  return Error{Errc::kResumable, why, "continue with --resume and the same --save_dir"};
}

// The decision whether the job ends with this pass.

Status EndOfPass::decide() {
  Decision own;
  if (options_.trainer_id == 0) {
    const std::uint32_t pass = pass_.progress().pass;
    if (auto figures = test_.take_figures()) early_stop_.add({pass, *std::move(figures)});
    own.reason = early_stop_.judge();
    if (early_stop_.has_test(pass)) own.figures = early_stop_.tests().back().figures;
  }
  return obey_decision(own);
}

// INVARIANT: a restarted trainer receives the same decision as its first process did.
Status EndOfPass::obey_decision(const Decision& own) {
  const std::vector<nn::Value> figures = figures_of(model_.read(Score()));
  PADDLE_TRY(const client::PassTotals all, client_.pause_pass(encode(own, figures)));
  const auto decision = decode_decision(all.tally, figures);
  if (!decision) {
    return Error{Errc::kFailed, "the barrier after a pass returned no decision", "this is a bug"};
  }
  const PassProgress& at = pass_.progress();
  if (!decision->figures.empty()) {
    early_stop_.add({at.pass, decision->figures});
    const auto best = early_stop_.best_value();
    if (options_.trainer_id == 0 && best && best->pass == at.pass)
      report_.publish_best(at, best->pass, best->figures.front());
  }
  if (decision->reason != EndReason::kNone && at.pass + 1 < at.passes) {
    pass_.make_last();
    report_.write_stop(at, early_stop_.explain(decision->reason));
  }
  if (!snapshots_.saves_here()) return {};
  const Status written = write_tests(options_.save_dir, early_stop_.tests());
  if (!written) log_warning("{}; a resumed job may not know these tests", written.error().message);
  update_best();
  return {};
}

// INVARIANT: the last snapshot of a job is a full one, also if the job ends early.
Status EndOfPass::complete_last_snapshot() {
  const PassProgress& at = pass_.progress();
  const bool is_over = at.pass + 1 == at.passes;
  if (!is_over || !is_saved() || !snapshots_.saves_here()) return {};
  if (!snapshots_.has_in_full(at.pass)) {
    PADDLE_TRY_STATUS(snapshots_.save(at));
    update_best();
  }
  snapshots_.remove_former_best(at);
  return {};
}

void EndOfPass::read_earlier_tests() {
  if (!snapshots_.saves_here()) return;
  auto tests = read_tests(options_.save_dir);
  if (!tests) return log_warning("{}; only tests from now on count", tests.error().message);
  for (PassTest& test : *tests) {
    if (test.pass < options_.start_pass) early_stop_.add(std::move(test));
  }
  update_best();
}

void EndOfPass::update_best() {
  snapshots_.set_best(
      early_stop_.best([this](std::uint32_t pass) { return snapshots_.has(pass); }));
}

}  // namespace paddle::trainer

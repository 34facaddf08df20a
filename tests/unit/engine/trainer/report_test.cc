// The views of one record: the log, the line for a user, the metrics file and the progress.
#include "engine/trainer/report.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace paddle::trainer {
namespace {

Record record_of(Record::Kind kind) {
  Record record;
  record.kind = kind;
  record.pass = 1;
  record.passes = 3;
  record.batch = 40;
  record.share_done = 0.5;
  record.reading = {160, 0.25, {{"auc", 0.75}}};
  record.current = {40, 0.125, {{"auc", 0.875}}};
  record.first_cost = 8;
  record.per_second = 100;
  record.per_busy_second = 200;
  return record;
}

std::string metrics_text(const Record& record) {
  return metrics_fields(record).text();
}

TEST(Record, OfABatchIsTheSameInAllViews) {
  const Record record = record_of(Record::Kind::kTrain);
  EXPECT_EQ(log_text(record),
            "Pass=1 Batch=40 samples=160 AvgCost=0.25 CurrentCost=0.125 Eval: auc=0.75 "
            "CurrentEval: auc=0.875");
  EXPECT_EQ(brief_text(record),
            "pass 2 of 3 (pass-00001), batch 40: cost 0.25, auc 0.75 (160 samples)");
  EXPECT_EQ(metrics_text(record),
            R"({"current_cost":0.125,"first_cost":8,"examples_per_second":100,)"
            R"("examples_per_busy_second":200,"pass_done":0.5,"passes":3})");
  const wire::Progress progress = to_progress(record);
  EXPECT_EQ(progress.pass(), 1U);
  EXPECT_EQ(progress.passes(), 3U);
  EXPECT_EQ(progress.batch(), 40U);
  EXPECT_EQ(progress.pass_done(), 0.5F);
  EXPECT_EQ(progress.cost(), 0.25);
  EXPECT_EQ(progress.examples_per_second(), 100);
  EXPECT_EQ(progress.examples_per_busy_second(), 200);
}

TEST(Record, AShareThatIsUnknownIsLeftOut) {
  Record record = record_of(Record::Kind::kTrain);
  record.share_done.reset();
  EXPECT_EQ(metrics_text(record).find("pass_done"), std::string::npos);
  EXPECT_TRUE(std::isnan(to_progress(record).pass_done()));
}

TEST(Record, OfAPauseHasNoCurrentFigures) {
  const Record record = record_of(Record::Kind::kPause);
  EXPECT_EQ(log_text(record), "Pass=1 Batch=40 samples=160 AvgCost=0.25 Eval: auc=0.75");
  EXPECT_EQ(brief_text(record),
            "pass 2 of 3 (pass-00001), batch 40: cost 0.25, auc 0.75 (160 samples)");
  EXPECT_EQ(metrics_text(record), R"({"first_cost":8,"passes":3,"pass_done":0.5})");
}

TEST(Record, OfAPassHasTheTotalsOfAllTrainers) {
  Record record = record_of(Record::Kind::kPass);
  client::PassTotals totals;
  totals.discarded = 2;
  totals.dense = {.pushes = 12, .batches = 48, .lags = {3, 9}};
  record.totals = &totals;
  record.all = {320, 0.5, {{"auc", 0.625}}};
  record.bad_records = 7;
  EXPECT_EQ(log_text(record), "Pass=1 Batch=40 samples=160 AvgCost=0.25 Eval: auc=0.75");
  EXPECT_EQ(brief_text(record), "pass 2 of 3 (pass-00001): cost 0.5, auc 0.625 (320 samples)");
  EXPECT_EQ(metrics_text(record),
            R"({"total_samples":320,"total_cost":0.5,"total_auc":0.625,"first_cost":8,"passes":3,)"
            R"("dense_pushes":12,"dense_merged":36,"dense_lags":[3,9],)"
            R"("sparse_pushes":0,"sparse_merged":0,"sparse_lags":[],)"
            R"("discarded":2,"bad_records":7,"examples_per_second":100,)"
            R"("examples_per_busy_second":200})");
}

TEST(Record, OfATestNamesItsPlaceForUsers) {
  Record record = record_of(Record::Kind::kTest);
  EXPECT_EQ(log_text(record), " Test samples=160 cost=0.25 Eval: auc=0.75");
  EXPECT_EQ(brief_text(record),
            "pass 2 of 3 (pass-00001): held-out cost 0.25, auc 0.75 (160 samples)");
  EXPECT_EQ(metrics_text(record), R"({"examples_per_second":100})");
  record.is_within_pass = true;
  EXPECT_EQ(brief_text(record),
            "pass 2 of 3 (pass-00001), batch 40: held-out cost 0.25, auc 0.75 (160 samples)");
  record.passes = 0;
  EXPECT_EQ(brief_text(record), "before training: held-out cost 0.25, auc 0.75 (160 samples)");
}

TEST(Record, OfASaveAndOfAStop) {
  Record record = record_of(Record::Kind::kSave);
  record.path = "save/pass-00001";
  EXPECT_EQ(log_text(record), "");
  EXPECT_EQ(metrics_text(record), R"({"path":"save/pass-00001"})");
  record.kind = Record::Kind::kStop;
  record.why = "auc was worse";
  EXPECT_EQ(log_text(record), "training ends with pass 2 (pass-00001): auc was worse");
  EXPECT_EQ(brief_text(record), log_text(record));
  EXPECT_EQ(metrics_text(record), R"({"why":"auc was worse"})");
}

}  // namespace
}  // namespace paddle::trainer

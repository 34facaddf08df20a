#include "engine/trainer/replay_log.h"

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace paddle::trainer {
namespace {

class ReplayLogTest : public testing::Test {
 protected:
  ReplayLogTest() : memory_(::memfd_create("kept", 0)), dense_(2) {
    dense_[0].gradient.resize(1000, 0.0F);
    dense_[1].gradient.resize(3, 0.0F);
  }
  std::unique_ptr<ReplayLog> incarnation(std::uint64_t generations = 1, bool keeps_dense = true) {
    auto kept = ReplayLog::open({.memory = UniqueFd(::dup(memory_.get())),
                                 .job = 5,
                                 .generations = generations,
                                 .empty_tally = {{0, 0}, {0}, {ScoreHistogram()}},
                                 .keeps_dense = keeps_dense,
                                 .keeps_rows = true},
                                dense_);
    EXPECT_TRUE(kept);
    return *std::move(kept);
  }
  static PassCounts counts(std::uint64_t n) {
    return {{n, static_cast<double>(n) / 2, {{n, n + 1}, {0.5}, {scores(n)}}}, 0.25};
  }
  // A histogram of so many scores.
  static ScoreHistogram scores(std::uint64_t n) {
    std::vector<std::uint64_t> examples;
    for (std::uint64_t i = 0; i < n; ++i) examples.push_back(i << 33U | (i % 2));
    ScoreHistogram made;
    made.add(examples);
    return made;
  }
  void train(ReplayLog& kept, BatchNumber number) {
    kept.forget_push();
    for (client::DenseParameter& one : dense_) {
      std::ranges::fill(one.gradients(), static_cast<float>(number.batch));
    }
    const client::SparseRows rows{2, {4, 9}, {}, {1, 2, 3, static_cast<float>(number.batch)}, {8}};
    const PassCounts counts = this->counts(number.batch);
    kept.keep(number, {16, 3.5, {}}, &counts, {&rows, 1});
  }

  UniqueFd memory_;
  std::vector<client::DenseParameter> dense_;
};

TEST_F(ReplayLogTest, TheNextProcessHasThePushAndTheCounts) {
  {
    const auto kept = incarnation();
    train(*kept, {1, 6});
    train(*kept, {1, 7});
  }
  for (client::DenseParameter& one : dense_) one.placed_gradient = {};
  const auto kept = incarnation();
  ASSERT_EQ(kept->push(), (BatchNumber{1, 7}));
  EXPECT_EQ(kept->samples(), 16U);
  EXPECT_EQ(kept->cost(), 3.5);
  EXPECT_EQ(dense_[0].gradients().size(), 1000U);
  EXPECT_EQ(dense_[0].gradients()[999], 7.0F);
  EXPECT_EQ(dense_[1].gradients()[2], 7.0F);
  const auto rows = kept->rows();
  ASSERT_TRUE(rows && rows->size() == 1);
  EXPECT_EQ((*rows)[0].parameter, 2U);
  EXPECT_EQ((*rows)[0].ids, (std::vector<std::uint64_t>{4, 9}));
  EXPECT_EQ((*rows)[0].gradients, (std::vector<float>{1, 2, 3, 7}));
  EXPECT_EQ((*rows)[0].notes, std::vector<float>{8});
  const auto found = kept->last_counts(1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->first, 7U);
  EXPECT_EQ(found->second.score.samples, 7U);
  EXPECT_EQ(found->second.score.tally.counts, (std::vector<std::uint64_t>{7, 8}));
  EXPECT_EQ(found->second.score.tally.sums, std::vector<double>{0.5});
  EXPECT_EQ(found->second.score.tally.histograms, std::vector{scores(7)});
  EXPECT_EQ(found->second.first_cost, 0.25);
  EXPECT_FALSE(kept->last_counts(0));
}

TEST_F(ReplayLogTest, TheLastCountsOfThePassBeforeStayThroughoutThePass) {
  const auto kept = incarnation();
  for (const std::uint64_t batch : {5, 6, 7}) train(*kept, {1, batch});
  for (const std::uint64_t batch : {1, 2, 3, 4, 5}) {
    train(*kept, {2, batch});
    ASSERT_TRUE(kept->last_counts(1) && kept->last_counts(2)) << batch;
    EXPECT_EQ(kept->last_counts(1)->first, 7U);
    EXPECT_EQ(kept->last_counts(2)->first, batch);
  }
  train(*kept, {3, 1});
  EXPECT_EQ(kept->last_counts(2)->first, 5U);
}

TEST_F(ReplayLogTest, ABatchThatWasCountedBeforeChangesNoCounts) {
  {
    const auto kept = incarnation();
    train(*kept, {1, 6});
    kept->keep({1, 2}, {16, 3.5, {}}, nullptr, {});
  }
  const auto kept = incarnation();
  EXPECT_EQ(kept->push(), (BatchNumber{1, 2}));
  EXPECT_EQ(kept->last_counts(1)->first, 6U);
}

TEST_F(ReplayLogTest, APushIsForgottenWhenTheNextBatchIsComputed) {
  {
    const auto kept = incarnation();
    train(*kept, {0, 1});
    kept->forget_push();
  }
  const auto kept = incarnation();
  EXPECT_EQ(kept->push(), std::nullopt);
  EXPECT_TRUE(kept->last_counts(0)) << "it was applied, and counts";
}

TEST_F(ReplayLogTest, NothingIsLeftForAnotherJobOrAfterARewind) {
  train(*incarnation(), {0, 1});
  EXPECT_EQ(incarnation(2)->push(), std::nullopt);
  train(*incarnation(), {0, 1});
  ASSERT_EQ(::ftruncate(memory_.get(), 10), 0);
  EXPECT_EQ(incarnation()->push(), std::nullopt);
}

TEST_F(ReplayLogTest, TheIndexOfThePassIsTheSameMemoryInEveryLife) {
  {
    const auto kept = incarnation();
    kept->pass_index()[77] = std::byte{5};
    train(*kept, {0, 1});
  }
  EXPECT_EQ(incarnation()->pass_index()[77], std::byte{5});
}

TEST_F(ReplayLogTest, WithoutRoundsOnlyCountsAreKept) {
  auto kept = ReplayLog::open(
      {.memory = UniqueFd(::dup(memory_.get())), .empty_tally = {{0, 0}, {0}, {ScoreHistogram()}}},
      dense_);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(dense_[0].placed_gradient.empty());
  train(**kept, {0, 1});
  EXPECT_EQ((*kept)->push(), std::nullopt);
  EXPECT_TRUE((*kept)->last_counts(0));
}

TEST_F(ReplayLogTest, AProcessThatWasLeavingIsKnownByItsMemory) {
  EXPECT_FALSE(ReplayLog::was_leaving(memory_));
  EXPECT_FALSE(ReplayLog::was_leaving(UniqueFd()));
  incarnation()->begin_leave();
  EXPECT_TRUE(ReplayLog::was_leaving(memory_));
  incarnation(2);
  EXPECT_FALSE(ReplayLog::was_leaving(memory_)) << "the job went on, from its snapshot";
  ReplayLog::note_leaving(memory_, true);
  EXPECT_TRUE(ReplayLog::was_leaving(memory_));
  ReplayLog::note_leaving(memory_, false);
  EXPECT_FALSE(ReplayLog::was_leaving(memory_));
  ReplayLog::note_leaving(UniqueFd(), true);
}

TEST_F(ReplayLogTest, TheNextProcessKnowsWhichPassesWereWritten) {
  EXPECT_FALSE(incarnation()->is_pass_written(0));
  incarnation()->mark_pass_written(3);
  const auto kept = incarnation();
  EXPECT_TRUE(kept->is_pass_written(3));
  EXPECT_FALSE(kept->is_pass_written(4));
  EXPECT_TRUE(incarnation(2)->is_pass_written(3)) << "a job that goes back tells no pass twice";
}

TEST_F(ReplayLogTest, TheNextProcessKnowsTheLastBarrier) {
  EXPECT_EQ(incarnation()->last_barrier().what, BarrierMark::What::kNone);
  incarnation()->mark_barrier({BarrierMark::What::kSave, {2, 7}, 3});
  const BarrierMark last = incarnation()->last_barrier();
  EXPECT_EQ(last.what, BarrierMark::What::kSave);
  EXPECT_EQ(last.at, (BatchNumber{2, 7}));
  EXPECT_EQ(last.pauses, 3U);
}

TEST_F(ReplayLogTest, RowsThatCannotBeReadAreAnError) {
  train(*incarnation(), {0, 1});
  ASSERT_EQ(::ftruncate(memory_.get(), 4 * 4096 + (2 << 20)), 0);
  EXPECT_FALSE(incarnation()->rows());
}

TEST_F(ReplayLogTest, AllIncarnationsHaveOneBegin) {
  const TimePoint begun{std::chrono::seconds(1000)};
  const TimePoint later = begun + std::chrono::seconds(7);
  EXPECT_EQ(ReplayLog::first_begin(memory_, begun), begun);
  EXPECT_EQ(ReplayLog::first_begin(memory_, later), begun);
  train(*incarnation(), {0, 1});
  ReplayLog::note_leaving(memory_, false);
  EXPECT_EQ(ReplayLog::first_begin(memory_, later), begun);
  EXPECT_TRUE(incarnation()->last_counts(5) == std::nullopt);
  EXPECT_EQ(ReplayLog::first_begin(UniqueFd(), later), later);
}

}  // namespace
}  // namespace paddle::trainer

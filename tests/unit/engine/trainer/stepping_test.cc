#include "engine/trainer/stepping.h"

#include <gtest/gtest.h>

namespace paddle::trainer {
namespace {

// Tells in each call whether a step was under way.
class AskingClient final : public client::ParameterClient {
 public:
  explicit AskingClient(const Stepping& stepping) : stepping_(stepping) {}

  Status ready() override { return note(); }
  client::JobProgress progress() const override { return {}; }
  Status pull_dense(std::span<client::DenseParameter>) override { return note(); }
  Status pull_rows(std::span<client::SparseRows>) override { return note(); }
  Status pull_averages(std::span<client::DenseParameter>, std::span<client::SparseRows>) override {
    return note();
  }
  Status push(std::uint64_t, double, std::span<client::DenseParameter>,
              std::span<client::SparseRows>) override {
    return note();
  }
  Status repeat_push(std::uint64_t, std::uint64_t, double, std::span<client::DenseParameter>,
                     std::span<client::SparseRows>) override {
    return note();
  }
  void repeat_end(client::PassEnd) override {}
  Result<client::PassTotals> end_pass(const Tally&, client::PassEnd) override {
    (void)note();
    return client::PassTotals();
  }
  Result<bool> is_any(bool own) override {
    (void)note();
    return own;
  }
  Status announce_busy(std::string_view /*activity*/) override { return note(); }
  void ask_to_stop() override {}
  bool stop_asked() const override { return true; }
  Status leave() override { return note(); }
  void interrupt(const Error&) override {}
  void abandon(const Error&) override {}
  client::SnapshotClient& snapshots() override { std::abort(); }

  std::vector<bool> was_stepping;

 private:
  Status note() {
    was_stepping.push_back(stepping_.pulse().is_stepping());
    return {};
  }
  const Stepping& stepping_;
};

TEST(Stepping, AStepIsTheTimeBetweenTwoCalls) {
  Stepping stepping;
  AskingClient asking(stepping);
  const auto client = note_steps(asking, stepping);
  EXPECT_FALSE(stepping.pulse().is_stepping()) << "it loads a snapshot, or waits for the others";
  std::uint64_t steps = 0;
  const auto expect_step = [&] {
    EXPECT_TRUE(stepping.pulse().is_stepping());
    EXPECT_GT(stepping.pulse().steps(), steps);
    steps = stepping.pulse().steps();
  };
  EXPECT_TRUE(client->pull_dense({}));
  expect_step();
  EXPECT_TRUE(client->pull_rows({}));
  expect_step();
  EXPECT_TRUE(client->push(1, 1, {}, {}));
  expect_step();
  EXPECT_TRUE(client->pull_averages({}, {}));
  expect_step();
  EXPECT_TRUE(client->finish_pass({}));
  expect_step();
  EXPECT_TRUE(client->announce_busy("testing"));
  expect_step();
  EXPECT_TRUE(client->leave());
  EXPECT_FALSE(stepping.pulse().is_stepping()) << "no other call follows";
  EXPECT_EQ(asking.was_stepping, std::vector<bool>(7, false)) << "in a call it waits";
}

// Its loop has ended, and it joins the job again.
TEST(Stepping, ATrainerThatLostItsPserverWaits) {
  Stepping stepping;
  AskingClient asking(stepping);
  {
    const auto client = note_steps(asking, stepping);
    EXPECT_TRUE(client->push(1, 1, {}, {}));
    EXPECT_TRUE(stepping.pulse().is_stepping());
  }
  EXPECT_FALSE(stepping.pulse().is_stepping());
}

TEST(Stepping, TestsAndSnapshotsAreNoSteps) {
  Stepping stepping;
  stepping.begin_step();
  EXPECT_TRUE(stepping.pulse().is_stepping());
  for (const auto activity : {wire::ACTIVITY_TESTING, wire::ACTIVITY_SAVING}) {
    stepping.set_activity(activity);
    EXPECT_FALSE(stepping.pulse().is_stepping());
  }
  stepping.set_activity(wire::ACTIVITY_TRAINING);
  EXPECT_TRUE(stepping.pulse().is_stepping());
}

}  // namespace
}  // namespace paddle::trainer

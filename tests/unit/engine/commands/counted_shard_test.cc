#include "engine/commands/counted_shard.h"

#include <csignal>
#include <ctime>

#include <gtest/gtest.h>

#include "engine/strategy/strategy_table.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::commands {
namespace {

// SIGTERM that a shard sends to this process.
class CountedShardTest : public testing::Test {
 protected:
  CountedShardTest() {
    ::sigemptyset(&signals_);
    ::sigaddset(&signals_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~CountedShardTest() override {
    has_signal();
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  bool has_signal() {
    const timespec at_once{};
    return ::sigtimedwait(&signals_, nullptr, &at_once) == SIGTERM;
  }
  std::unique_ptr<CountedShard> make_shard(std::uint32_t index, Duration grace = {}) {
    return std::make_unique<CountedShard>(
        pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                              .index = index,
                              .num_gradient_servers = set_.num_trainers(),
                              .job_tag = 11,
                              .lost_trainer_grace = grace},
        index, Duration::zero(), unfinished_, metrics_);
  }
  void join(CountedShard& shard, std::uint32_t index) {
    wire::Join message;
    message.set_request(1);
    message.set_shard(index);
    Frame frame;
    frame.header.type = static_cast<std::uint8_t>(FrameType::kJoin);
    frame.header.job_tag = 11;
    frame.header.sender = {Role::kTrainer, 0};
    frame.head = message.SerializeAsString();
    const std::string text = set_.SerializeAsString();
    append_bytes(frame.tail, std::span<const char>(text));
    std::vector<net::Outgoing> out;
    shard.on_frame(TimePoint(), 1, std::move(frame), out);
  }
  void leave(CountedShard& shard) {
    std::vector<net::Outgoing> out;
    shard.on_disconnect(TimePoint(), 1, out);
  }

  wire::ParameterSet set_ = test::small_set("sgd", 2, 2);
  std::atomic<std::uint32_t> unfinished_ = 2;
  trainer::MetricsFile metrics_ = *trainer::MetricsFile::open("");
  sigset_t signals_;
  sigset_t before_;
};

// Trainers that died before they joined the second port would be refused by the first for ever.
TEST_F(CountedShardTest, AFailureOfOnePortEndsTheProcessThoughNobodyCameToTheOther) {
  const auto first = make_shard(0);
  const auto second = make_shard(1);
  join(*first, 0);
  EXPECT_FALSE(has_signal());
  leave(*first);
  EXPECT_NE(first->failure(), "");
  EXPECT_EQ(unfinished_, 0U);
  EXPECT_TRUE(has_signal());
  join(*second, 1);
  leave(*second);
  EXPECT_EQ(unfinished_, 0U);
  EXPECT_FALSE(has_signal());
}

// The others of a job whose strategy keeps what is lost would be ended by it.
TEST_F(CountedShardTest, TrainersAreTakenBackWhereJobAndStrategyAllowIt) {
  for (const bool returns : {false, true}) {
    for (const Duration grace : {Duration::zero(), Duration(std::chrono::seconds(9))}) {
      set_.set_trainers_return(returns);
      const auto shard = make_shard(0, grace);
      EXPECT_FALSE(shard->takes_back_trainers()) << "nobody has told the strategy";
      join(*shard, 0);
      std::vector<net::Outgoing> out;
      shard->on_tick(TimePoint(), out);
      EXPECT_EQ(shard->takes_back_trainers(), returns && grace > Duration::zero());
    }
  }
}

}  // namespace
}  // namespace paddle::commands

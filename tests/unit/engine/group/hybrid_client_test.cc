// Trainers with dense parameters in their group and a table on a shard.
#include "engine/group/hybrid_client.h"

#include <barrier>
#include <future>
#include <thread>

#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

constexpr std::uint64_t kRow = 99;
constexpr int kSteps = 12;
constexpr Duration kLate = std::chrono::milliseconds(3);
constexpr Duration kPatience = std::chrono::seconds(20);

struct Traffic {
  int pushes = 0;
  int pulls = 0;
  std::atomic<bool> is_push_unanswered = false;
  // Called before the answer to a push is received, in whose place an error of it comes.
  std::function<Status()> before_answer = [] {
    std::this_thread::sleep_for(kLate);
    return Status();
  };
  std::promise<Error> interrupted;
};

// A shard's link whose answers to pushes are late.
class LateLink final : public net::Link {
 public:
  LateLink(std::unique_ptr<net::Link> link, Traffic& traffic)
      : link_(std::move(link)), traffic_(traffic) {}

  Status send(Frame frame, std::span<const ByteSpan> pieces, TimePoint deadline) override {
    EXPECT_FALSE(traffic_.is_push_unanswered) << "a request while a push is under way";
    const auto type = static_cast<FrameType>(frame.header.type);
    if (type == FrameType::kPullRows) ++traffic_.pulls;
    if (type == FrameType::kPushRows) {
      ++traffic_.pushes;
      traffic_.is_push_unanswered = true;
    }
    return link_->send(std::move(frame), pieces, deadline);
  }
  Result<Frame> receive(TimePoint deadline, const net::TailPlace& place) override {
    if (traffic_.is_push_unanswered) PADDLE_TRY_STATUS(traffic_.before_answer());
    auto answer = link_->receive(deadline, place);
    if (answer && static_cast<FrameType>(answer->header.type) == FrameType::kPushed)
      traffic_.is_push_unanswered = false;
    return answer;
  }
  std::string peer() const override { return link_->peer(); }
  void interrupt(const Error& why) override { traffic_.interrupted.set_value(why); }

 private:
  std::unique_ptr<net::Link> link_;
  Traffic& traffic_;
};

// Each rank has a shard of its own. The rank's client, ready; `dense` has its parameters.
std::unique_ptr<HybridClient> make_client(const wire::ParameterSet& set,
                                          collective::GroupOptions options, Traffic& traffic) {
  auto group = collective::Group::join(std::move(options), collective::soon());
  EXPECT_TRUE(group) << group.error().message;
  auto dense_part = GroupClient::create(set, *std::move(group), {}, {});
  EXPECT_TRUE(dense_part) << dense_part.error().message;
  auto of_shard = set;
  of_shard.set_num_trainers(1);
  client::ShardChannels::Links links;
  links.push_back(std::make_unique<LateLink>(client::local_shard(0, true), traffic));
  auto shards = client::ShardChannels::join({.parameters = of_shard}, {}, std::move(links));
  EXPECT_TRUE(shards) << shards.error().message;
  auto client = std::make_unique<HybridClient>(
      *std::move(dense_part), std::make_unique<client::ShardClient>(*std::move(shards)));
  EXPECT_TRUE(client->ready());
  return client;
}

wire::ParameterSet hybrid_set(wire::Strategy sparse) {
  auto set = test::small_set("momentum", 2, 0, 1);
  set.set_dense_strategy(wire::STRATEGY_COLLECTIVE);
  set.set_sparse_strategy(sparse);
  set.set_trainers_return(false);
  return set;
}

std::vector<DenseParameter> dense_of(HybridClient& client) {
  std::vector<DenseParameter> dense = client::dense_parameters();
  EXPECT_TRUE(client.pull_dense(dense));
  for (DenseParameter& one : dense) one.gradient.assign(one.values().size(), 0.25F);
  return dense;
}

struct Tables {
  const char* name;
  wire::Strategy strategy;
  std::optional<std::uint32_t> staleness_max;
};
void PrintTo(const Tables& tables, std::ostream* out) {
  *out << tables.name;
}

class HybridRows : public testing::TestWithParam<Tables> {};

// The row is in every batch, and is that of a job of one.
TEST_P(HybridRows, Trap48ABatchSeesTheRowsThatTheOneBeforeItMade) {
  auto set = hybrid_set(GetParam().strategy);
  if (GetParam().staleness_max) set.set_staleness_max(*GetParam().staleness_max);
  collective::as_ranks(collective::options_of(2), [&](collective::GroupOptions options) {
    Traffic traffic;
    const auto client = make_client(set, std::move(options), traffic);
    std::vector<DenseParameter> dense = dense_of(*client);
    std::vector<client::SparseRows> rows{{test::kTable, {kRow}, {}, {}}};
    auto of_shard = set;
    of_shard.set_num_trainers(1);
    client::Direct alone(of_shard);
    for (int step = 1; step <= kSteps; ++step) {
      ASSERT_TRUE(client->pull_rows(rows));
      EXPECT_EQ(std::vector<float>(rows[0].values.begin(), rows[0].values.end()), alone.row)
          << "batch " << step;
      rows[0].gradients.assign(3, 0.1F * static_cast<float>(step));
      ASSERT_TRUE(client->push(client::kSamples, 1, dense, rows));
      const std::uint64_t samples = static_cast<std::uint64_t>(step) * client::kSamples;
      alone.rule(test::kTable)
          .apply(optim::learning_rate(of_shard.optimizer(), {samples, 0}),
                 static_cast<std::uint64_t>(step), alone.row, rows[0].gradients, alone.row_state);
    }
    ASSERT_TRUE(client->finish_pass({}));
    EXPECT_EQ(traffic.pushes, kSteps);
    EXPECT_EQ(traffic.pulls, kSteps);
    EXPECT_TRUE(client->leave());
  });
}

INSTANTIATE_TEST_SUITE_P(Tables, HybridRows,
                         testing::Values(Tables{"sync", wire::STRATEGY_SYNC, {}},
                                         Tables{"async", wire::STRATEGY_ASYNC, {}},
                                         Tables{"bounded_async", wire::STRATEGY_ASYNC, 1}),
                         [](const auto& tables) { return tables.param.name; });

// A batch is prepared while a pserver adds up the rows of the one before.
TEST(HybridClient, APushReturnsBeforeTheAnswerOfTheTable) {
  const auto set = hybrid_set(wire::STRATEGY_SYNC);
  collective::as_ranks(collective::options_of(2), [&](collective::GroupOptions options) {
    Traffic traffic;
    std::promise<void> returned;
    traffic.before_answer = [&]() -> Status {
      if (returned.get_future().wait_for(kPatience) == std::future_status::ready) return {};
      return Error{Errc::kFailed, "the push waits for its answer"};
    };
    const auto client = make_client(set, std::move(options), traffic);
    std::vector<DenseParameter> dense = dense_of(*client);
    std::vector<client::SparseRows> rows{{test::kTable, {kRow}, {}, {}}};
    ASSERT_TRUE(client->pull_rows(rows));
    rows[0].gradients.assign(3, 0.5F);
    const Status pushed = client->push(client::kSamples, 1, dense, rows);
    ASSERT_TRUE(pushed) << pushed.error().message;
    returned.set_value();
    ASSERT_TRUE(client->finish_pass({}));
    EXPECT_TRUE(client->leave());
  });
}

TEST(HybridClient, TheNextCallTellsThatTheTableFailed) {
  const auto set = hybrid_set(wire::STRATEGY_SYNC);
  std::barrier both(2);  // the end of one is what the other one would hear first
  collective::as_ranks(collective::options_of(2), [&](collective::GroupOptions options) {
    Traffic traffic;
    std::promise<void> returned;
    traffic.before_answer = [&]() -> Status {
      returned.get_future().wait_for(kPatience);
      return Error{Errc::kData, "no such table"};
    };
    const auto client = make_client(set, std::move(options), traffic);
    std::vector<DenseParameter> dense = dense_of(*client);
    std::vector<client::SparseRows> rows{{test::kTable, {kRow}, {}, {}}};
    ASSERT_TRUE(client->pull_rows(rows));
    rows[0].gradients.assign(3, 0.5F);
    ASSERT_TRUE(client->push(client::kSamples, 1, dense, rows));
    returned.set_value();
    const Status pulled = client->pull_rows(rows);
    both.arrive_and_wait();
    ASSERT_FALSE(pulled);
    EXPECT_EQ(pulled.error().message, "pserver sparse port 0 (local): no such table");
  });
}

TEST(HybridClient, ItsEndInterruptsAPushUnderWay) {
  const auto set = hybrid_set(wire::STRATEGY_SYNC);
  collective::as_ranks(collective::options_of(2), [&](collective::GroupOptions options) {
    Traffic traffic;
    traffic.before_answer = [&]() -> Status {
      auto interrupted = traffic.interrupted.get_future();
      EXPECT_EQ(interrupted.wait_for(kPatience), std::future_status::ready);
      return Error{Errc::kUnreachable, "interrupted"};
    };
    auto client = make_client(set, std::move(options), traffic);
    std::vector<DenseParameter> dense = dense_of(*client);
    std::vector<client::SparseRows> rows{{test::kTable, {kRow}, {}, {}}};
    ASSERT_TRUE(client->pull_rows(rows));
    rows[0].gradients.assign(3, 0.5F);
    ASSERT_TRUE(client->push(client::kSamples, 1, dense, rows));
    client = nullptr;
  });
}

}  // namespace
}  // namespace paddle::strategy

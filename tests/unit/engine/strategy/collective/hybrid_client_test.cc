// Trainers with dense parameters in their group and a table on a shard.
#include "engine/strategy/collective/hybrid_client.h"

#include <thread>

#include "tests/unit/engine/strategy/collective/group_client_fixture.h"

namespace paddle::strategy {
namespace {

constexpr std::uint64_t kRow = 99;
constexpr int kSteps = 12;
constexpr Duration kLate = std::chrono::milliseconds(3);

struct Traffic {
  int pushes = 0;
  int pulls = 0;
  bool is_push_unanswered = false;
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
    if (traffic_.is_push_unanswered) std::this_thread::sleep_for(kLate);
    auto answer = link_->receive(deadline, place);
    if (answer && static_cast<FrameType>(answer->header.type) == FrameType::kPushed)
      traffic_.is_push_unanswered = false;
    return answer;
  }
  std::string peer() const override { return link_->peer(); }

 private:
  std::unique_ptr<net::Link> link_;
  Traffic& traffic_;
};

struct Tables {
  wire::Strategy strategy;
  std::optional<std::uint32_t> staleness_max;
};

class HybridRows : public testing::TestWithParam<Tables> {};

// The row is in every batch; each rank has a shard of its own, so the row is that of a job of one.
TEST_P(HybridRows, Trap48ABatchSeesTheRowsThatTheOneBeforeItMade) {
  auto set = test::small_set("momentum", 2, 0, 1);
  set.set_dense_strategy(wire::STRATEGY_COLLECTIVE);
  set.set_sparse_strategy(GetParam().strategy);
  set.set_trainers_return(false);
  if (GetParam().staleness_max) set.set_staleness_max(*GetParam().staleness_max);
  auto of_shard = set;
  of_shard.set_num_trainers(1);
  collective::as_ranks(collective::options_of(2), [&](collective::GroupOptions options) {
    auto group = collective::Group::join(std::move(options), collective::soon());
    ASSERT_TRUE(group) << group.error().message;
    auto dense_part = GroupClient::create(set, *std::move(group), {}, {});
    ASSERT_TRUE(dense_part) << dense_part.error().message;
    Traffic traffic;
    client::ShardChannels::Links links;
    links.push_back(std::make_unique<LateLink>(client::local_shard(0, true), traffic));
    auto shards = client::ShardChannels::join({.parameters = of_shard}, {}, std::move(links));
    ASSERT_TRUE(shards) << shards.error().message;
    HybridClient client(*std::move(dense_part),
                        std::make_unique<client::ShardClient>(*std::move(shards)));
    ASSERT_TRUE(client.ready());
    std::vector<DenseParameter> dense = client::dense_parameters();
    ASSERT_TRUE(client.pull_dense(dense));
    for (DenseParameter& one : dense) one.gradient.assign(one.values().size(), 0.25F);
    std::vector<client::SparseRows> rows{{test::kTable, {kRow}, {}, {}}};
    client::Direct alone(of_shard);
    for (int step = 1; step <= kSteps; ++step) {
      ASSERT_TRUE(client.pull_rows(rows));
      EXPECT_EQ(std::vector<float>(rows[0].values.begin(), rows[0].values.end()), alone.row)
          << "batch " << step;
      rows[0].gradients.assign(3, 0.1F * static_cast<float>(step));
      ASSERT_TRUE(client.push(client::kSamples, 1, dense, rows));
      EXPECT_FALSE(traffic.is_push_unanswered);
      const std::uint64_t samples = static_cast<std::uint64_t>(step) * client::kSamples;
      alone.rule(test::kTable)
          .apply(optim::learning_rate(of_shard.optimizer(), {samples, 0}),
                 static_cast<std::uint64_t>(step), alone.row, rows[0].gradients, alone.row_state);
    }
    EXPECT_EQ(traffic.pushes, kSteps);
    EXPECT_EQ(traffic.pulls, kSteps);
    ASSERT_TRUE(client.finish_pass({}));
    EXPECT_TRUE(client.leave());
  });
}

INSTANTIATE_TEST_SUITE_P(Tables, HybridRows,
                         testing::Values(Tables{wire::STRATEGY_SYNC, {}},
                                         Tables{wire::STRATEGY_ASYNC, {}},
                                         Tables{wire::STRATEGY_ASYNC, 1}));

}  // namespace
}  // namespace paddle::strategy

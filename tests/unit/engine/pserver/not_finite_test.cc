// Pushes of finite gradients, each below the limit, that would make parameters not finite.
#include <cmath>

#include "engine/math/optimizer.h"
#include "tests/unit/engine/pserver/one_shard.h"

namespace paddle::pserver {
namespace {

constexpr int kPushes = 400;

struct Attack {
  const char* name;
  float learning_rate = 0.1F;
  float gradient = 9e17F;
  float l2 = 0;
  std::uint32_t trainers = 1;
  wire::Merge merge = wire::MERGE_MEAN;
  wire::Strategy strategy = wire::STRATEGY_SYNC;
};

const Attack kAttacks[] = {
    {.name = "large gradients"},
    {.name = "a large rate", .learning_rate = 1e30F, .gradient = 9e6F},
    {.name = "the largest steps", .learning_rate = 1e37F, .gradient = 0.9F},
    {.name = "a large rate, async",
     .learning_rate = 1e30F,
     .gradient = 9e6F,
     .strategy = wire::STRATEGY_ASYNC},
    {.name = "a large l2", .learning_rate = 10, .gradient = 1, .l2 = 1e10F},
    {.name = "a sum of trainers", .trainers = 64, .merge = wire::MERGE_SUM},
    {.name = "a mean of trainers", .learning_rate = 1e30F, .gradient = 9e6F, .trainers = 3},
};

wire::ParameterSet set_of(const optim::Method& method, const Attack& attack) {
  auto set = test::small_set(std::string(method.name), attack.trainers);
  set.mutable_optimizer()->set_learning_rate(attack.learning_rate);
  if (method.has(optim::kMomentum)) set.mutable_optimizer()->set_momentum(0.999F);
  set.set_merge(attack.merge);
  set.set_dense_strategy(attack.strategy);
  set.set_sparse_strategy(attack.strategy);
  for (auto& spec : *set.mutable_parameters()) spec.set_l2(attack.l2);
  return set;
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

bool is_finite(Shard& shard, bool is_sparse) {
  if (is_sparse) {
    std::vector<table::RowIndex::Entry> entries;
    shard.sparse(test::kTable)->scan(0, 10, entries);
    return std::ranges::all_of(entries, [&](const auto& entry) {
      const auto row = shard.sparse(test::kTable)->row(entry);
      return all_finite(row.value) && all_finite(row.state);
    });
  }
  return all_finite(shard.dense()->values());
}

// Pushes until it is refused. Returns the refusal, or nothing when all the values stayed finite.
std::optional<wire::Refused> attack(const wire::ParameterSet& set, bool is_sparse, float gradient) {
  OneShard one(set, is_sparse);
  one.start();
  for (int i = 1; i <= kPushes; ++i) {
    const auto sequence = static_cast<std::uint64_t>(i);
    std::vector<net::Outgoing> out;
    for (std::uint32_t trainer = 0; trainer < set.num_trainers(); ++trainer) {
      out = is_sparse ? one.push_row(trainer, sequence, 8, gradient)
                      : one.push(trainer, sequence, gradient);
    }
    one.step = sequence;
    if (!out.empty() &&
        out.front().frame.header.type == static_cast<std::uint8_t>(FrameType::kRefused)) {
      EXPECT_EQ(out.size(), set.num_trainers()) << "all who wait are told";
      const auto refused = parse<wire::Refused>(out.front());
      // Nothing more is taken, and nothing of it can be saved.
      EXPECT_TRUE(is(is_sparse ? one.push_row(0, sequence, 8, 0) : one.push(0, sequence, 0),
                     FrameType::kRefused));
      EXPECT_TRUE(is(one.send(0, FrameType::kExportRows, wire::ExportRows()), FrameType::kRefused));
      return refused;
    }
    EXPECT_TRUE(is(out, FrameType::kPushed, set.num_trainers())) << i;
    EXPECT_TRUE(is_finite(one.shard, is_sparse)) << "accepted push " << i;
    if (testing::Test::HasFailure()) break;
  }
  return {};
}

TEST(NotFinite, NoOptimizerTakesPushesThatLeaveAValueOrItsStateNotFinite) {
  for (const optim::Method& method : optim::methods()) {
    int refusals = 0;
    for (const Attack& one : kAttacks) {
      for (const bool is_sparse : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{}, {}, {}", method.name, one.name, is_sparse ? "sparse" : "dense"));
        const auto refused = attack(set_of(method, one), is_sparse, one.gradient);
        ASSERT_FALSE(testing::Test::HasFailure());
        if (!refused) continue;
        ++refusals;
        EXPECT_EQ(refused->code(), wire::REFUSAL_NOT_FINITE) << refused->message();
        EXPECT_NE(refused->message().find(is_sparse ? "'words'" : "'fc."), std::string::npos)
            << refused->message();
        EXPECT_NE(refused->message().find("trainer"), std::string::npos) << refused->message();
        EXPECT_NE(refused->hint().find("learning_rate"), std::string::npos) << refused->hint();
      }
    }
    EXPECT_GT(refusals, 0) << method.name << " is not attacked at all";
  }
}

}  // namespace
}  // namespace paddle::pserver

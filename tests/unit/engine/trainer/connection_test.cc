#include "engine/trainer/connection.h"

#include <gtest/gtest.h>

namespace paddle::trainer {
namespace {

wire::ParameterSpec one_matrix() {
  wire::ParameterSpec spec;
  spec.set_name("w");
  spec.add_dims(30);
  spec.add_dims(40);
  spec.set_learning_rate(1);
  return spec;
}

bool lends(wire::Strategy strategy, std::uint32_t ports) {
  config::JobConfig job;
  job.optimizer.set_method("sgd");
  job.optimizer.set_learning_rate(0.1F);
  job.dense_strategy = strategy;
  job.min_block_size = 100;
  TrainOptions options;
  options.ports_num = ports;
  options.local = true;
  ThreadTeam team(1);
  const auto client = join_shards(job, parameter_set(job, {one_matrix()}, options), options, team);
  EXPECT_TRUE(client) << client.error().message;
  EXPECT_TRUE((*client)->ready());
  std::vector<client::DenseParameter> dense{{0, {}, {}}};
  EXPECT_TRUE((*client)->pull_dense(dense));
  EXPECT_EQ(dense[0].values().size(), 1200U);
  return !dense[0].lent.empty();
}

// Values that change while a batch is computed must be the trainer's own.
TEST(JoinShards, LendsWherePushesAreAnsweredBeforeTheNextBatch) {
  EXPECT_TRUE(lends(wire::STRATEGY_SYNC, 1));
  EXPECT_TRUE(lends(wire::STRATEGY_ASYNC, 1));
  EXPECT_FALSE(lends(wire::STRATEGY_HALF_ASYNC, 1));
  EXPECT_FALSE(lends(wire::STRATEGY_GEO, 1));
  EXPECT_TRUE(lends(wire::STRATEGY_LOCAL_SGD, 1));  // trains by sync, since it is alone
  EXPECT_FALSE(lends(wire::STRATEGY_SYNC, 2));      // the matrix is divided
}

}  // namespace
}  // namespace paddle::trainer

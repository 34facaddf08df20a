// Keys of [strategy] that name how parameters are updated and place them on pservers.
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/engine/config/job_config_fixture.h"

namespace paddle::config {
namespace {

TEST_F(JobConfigTest, ReadsPlacements) {
  const std::string head = "dense = \"async\"\n";
  auto job = read_job(edited(head, head + "merge = 'sum'\nslice_var_up = false\n"
                                          "placement = 'size_balanced'\n"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->merge, wire::MERGE_SUM);
  EXPECT_EQ(job->min_block_size, 8192U);
  EXPECT_TRUE(job->partitioning.whole());
  EXPECT_EQ(job->partitioning.placement(), wire::PLACEMENT_SIZE_BALANCED);
  job = read_job(edited(head, head + "placement = 'hash_name'\nmin_block_size = 5\n"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->partitioning.placement(), wire::PLACEMENT_HASH_NAME);
  EXPECT_FALSE(job->partitioning.whole());
  EXPECT_EQ(job->min_block_size, 5U);
  job = read_job(edited(head, head + "placement = 'explicit'\n[[strategy.place]]\n"
                                     "parameter = '_output.w0'\nport = 3\n"));
  ASSERT_TRUE(job) << job.error().message;
  ASSERT_EQ(job->partitioning.placed_size(), 1);
  EXPECT_EQ(job->partitioning.placed(0).port(), 3U);
  EXPECT_NE(mistake(head, head + "[[strategy.place]]\nparameter = 'x'\nport = 0\n")
                .find("needs placement = 'explicit'"),
            std::string::npos);
  EXPECT_NE(mistake(head, "placement = 'explicit'\n").find("needs [[strategy.place]]"),
            std::string::npos);
}

TEST_F(JobConfigTest, ReadsAsynchronousStrategies) {
  const std::string head = "dense = \"async\"\n";
  auto job = read_job(edited(head,
                             "dense = 'half_async'\nmax_merge_var_num = 4\n"
                             "send_queue_size = 2\nstaleness_max = 0\n"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->dense_strategy, wire::STRATEGY_HALF_ASYNC);
  EXPECT_EQ(job->sparse_strategy, wire::STRATEGY_SYNC);
  EXPECT_EQ(job->max_merge, 4U);  // is Fluid's name of
  EXPECT_EQ(job->send_queue_size, 2U);
  EXPECT_EQ(job->staleness_max, 0U);
  const auto has = [&](const std::string& to, const char* expected) {
    EXPECT_NE(mistake(head, to).find(expected), std::string::npos) << to << mistake(head, to);
  };
  has(head + "max_merge = 2\n", "'max_merge' is for half_async");
  has("dense = 'half_async'\nmax_merge = 2\nmax_merge_var_num = 2\n", "is Fluid's name of");
  has("dense = 'sync'\nstaleness_max = 1\n", "is for async and half_async");
  has(head + "staleness_max = 1\nasync_lagged_grad_discard_ratio = 2\n", "cannot be combined");
}

TEST_F(JobConfigTest, ReadsLocalStrategies) {
  const std::string head = "dense = \"async\"\n";
  auto job = read_job(edited(head, "dense = 'geo'\nsparse = 'async'\ngeo_step = 7\n"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_TRUE(job->is_local());
  EXPECT_EQ(job->update_frequency, 7U);
  const auto has = [&](const std::string& to, const char* expected) {
    EXPECT_NE(mistake(head, to).find(expected), std::string::npos) << to << mistake(head, to);
  };
  has(head + "update_frequency = 7\n", "is for geo and local_sgd");
  has("dense = 'geo'\nsparse = 'half_async'\n", "half_async cannot be combined with geo");
  has("dense = 'local_sgd'\n",
      "job.toml:30:9: 'local_sgd' has no place for the sparse table of layer 'e0'");
  const auto by_override = read_job(edited(head, head), {"strategy.dense=local_sgd"});
  ASSERT_FALSE(by_override);
  const Error& error = by_override.error();
  EXPECT_NE(error.message.find("--set strategy.dense=local_sgd: 'local_sgd' has no place"),
            std::string::npos)
      << error.message;
  EXPECT_NE(error.hint.find("write dense = \"geo\" and sparse = \"geo\""), std::string::npos)
      << error.hint;
}

TEST_F(JobConfigTest, ReadsCollectiveByAllOfItsNames) {
  const std::string head = "dense = \"async\"\n";
  for (const std::string name : {"collective", "nccl2", "allreduce"}) {
    const auto job = read_job(edited(head, "dense = '" + name + "'\n"));
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_TRUE(job->is_collective()) << name;
    EXPECT_FALSE(job->is_local());
    EXPECT_NE(mistake(head, head + "sparse = '" + name + "'\n").find("'sparse'"), std::string::npos)
        << mistake(head, head + "sparse = '" + name + "'\n");
  }
  EXPECT_NE(mistake(head, "dense = 'collective'\nstaleness_max = 1\n").find("is for async"),
            std::string::npos);
  EXPECT_NE(mistake(head, "dense = 'collective'\nmax_merge = 2\n").find("is for half_async"),
            std::string::npos);
}

}  // namespace
}  // namespace paddle::config

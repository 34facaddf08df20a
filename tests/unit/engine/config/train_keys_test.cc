// Keys of [train] but for those by which a job ends before its last pass.
#include <gtest/gtest.h>

#include "tests/unit/engine/config/job_config_fixture.h"

namespace paddle::config {
namespace {

TEST_F(JobConfigTest, ReadsHowProductsAreComputed) {
  using kernels::Compute;
  EXPECT_EQ(read_job(folder_.write("job.toml", kJob))->train.compute, Compute::kFloat32);
  for (const auto& [name, compute] : {std::pair{"float32", Compute::kFloat32},
                                      {"bf16", Compute::kBfloat16},
                                      {"bf16x3", Compute::kBfloat16x3}}) {
    const auto job =
        read_job(edited("passes = 2", std::string("passes = 2\ncompute = \"") + name + "\""));
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_EQ(job->train.compute, compute);
  }
  EXPECT_NE(mistake("passes = 2", "passes = 2\ncompute = \"fp16\"").find("'bf16'"),
            std::string::npos);
}

TEST_F(JobConfigTest, ReadsEveryKeyOfTraining) {
  const auto job = read_job(edited("passes = 2\n", R"(passes = 2
batch_size = 3
trainer_count = 4
log_period = 5
test_period = 6
saving_period = 7
full_snapshot_period = 8
snapshots_kept = 9
snapshot_copies = 2
shuffle_records = 10
)"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->train.batch_size, 3U);
  EXPECT_EQ(job->train.trainer_count, 4U);
  EXPECT_EQ(job->train.log_period, 5U);
  EXPECT_EQ(job->train.test_period, 6U);
  EXPECT_EQ(job->train.saving_period, 7U);
  EXPECT_EQ(job->train.full_snapshot_period, 8U);
  EXPECT_EQ(job->train.snapshots_kept, 9U);
  EXPECT_EQ(job->train.snapshot_copies, 2U);
  EXPECT_EQ(job->train.shuffle_records, 10U);
  EXPECT_EQ(read_job(edited("passes = 2", "passes = 0"))->train.passes, 0U);
  EXPECT_FALSE(read_job(folder_.write("job.toml", kJob))->train.stop_on_divergence);
  EXPECT_FALSE(read_job(folder_.write("job.toml", kJob))->train.skips_not_finite);
  EXPECT_TRUE(read_job(edited("passes = 2", "passes = 2\non_not_finite = \"skip\""))
                  ->train.skips_not_finite);
  EXPECT_TRUE(read_job(edited("passes = 2", "passes = 2\non_divergence = \"stop\""))
                  ->train.stop_on_divergence);
  EXPECT_NE(mistake("passes = 2", "passes = 2\nsnapshot_copies = 3"), "");
  EXPECT_NE(mistake("passes = 2", "passes = 2\non_divergence = \"end\"").find("'stop'"),
            std::string::npos);
  for (const char* wrong : {"passes = 2\nbatch_size = 0", "passes = 2\nlog_period = 0",
                            "passes = 2\nfull_snapshot_period = 0"}) {
    EXPECT_NE(mistake("passes = 2", wrong).find("but must be from 1"), std::string::npos) << wrong;
  }
}

}  // namespace
}  // namespace paddle::config

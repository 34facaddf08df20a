#include "engine/config/platform_rank.h"

#include <map>

#include <gtest/gtest.h>

namespace paddle::config {
namespace {

Result<PlatformRank> rank(std::string_view platform,
                          const std::map<std::string, const char*>& variables) {
  return platform_rank(platform, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second;
  });
}

TEST(PlatformRank, EachPlatformHasItsVariables) {
  const auto index = rank("kubernetes", {{"JOB_COMPLETION_INDEX", "7"}});
  ASSERT_TRUE(index);
  EXPECT_EQ(index->rank, 7U);
  EXPECT_FALSE(index->size);
  const auto task = rank("slurm", {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "5"}});
  ASSERT_TRUE(task);
  EXPECT_EQ(task->rank, 2U);
  EXPECT_EQ(task->size, 5U);
  const auto process =
      rank("openmpi", {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  ASSERT_TRUE(process);
  EXPECT_EQ(process->size, 1U);
}

TEST(PlatformRank, WhatIsMissingOrWrongIsNamed) {
  EXPECT_EQ(rank("slurm", {}).error().message, "--rank_from=slurm, but SLURM_PROCID is not set");
  EXPECT_EQ(rank("slurm", {{"SLURM_PROCID", "0"}}).error().message,
            "--rank_from=slurm, but SLURM_STEP_NUM_TASKS is not set");
  EXPECT_EQ(rank("kubernetes", {{"JOB_COMPLETION_INDEX", "-1"}}).error().message,
            "JOB_COMPLETION_INDEX=-1 is not a rank or size");
  EXPECT_FALSE(rank("kubernetes", {{"JOB_COMPLETION_INDEX", ""}}));
  EXPECT_FALSE(rank("kubernetes", {{"JOB_COMPLETION_INDEX", "4000000000"}}));
  EXPECT_FALSE(rank("openmpi", {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "3"}}));
  EXPECT_EQ(rank("nomad", {}).error().code, Errc::kUsage);
}

TEST(PlatformRank, TheFirstRanksAreThePservers) {
  EXPECT_EQ(*id_in_role({1, 5}, true, 2), 1U);
  EXPECT_EQ(*id_in_role({2, 5}, false, 2), 0U);
  EXPECT_EQ(*id_in_role({4, 5}, false, 2), 2U);
  EXPECT_EQ(id_in_role({2, 5}, true, 2).error().message,
            "rank 2 is a trainer, because --pservers names 2");
  EXPECT_FALSE(id_in_role({1, 5}, false, 2));
  EXPECT_EQ(*trainers_of({0, 5}, 2, 9), 3U);
  EXPECT_EQ(*trainers_of({0, {}}, 2, 9), 9U);
  EXPECT_FALSE(trainers_of({0, 2}, 2, 9));
}

}  // namespace
}  // namespace paddle::config

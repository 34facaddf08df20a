// [provider] kind = "slurm": its keys. tests/e2e/slurm_provider_test.cc has the rest, with a Slurm.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/cluster/cluster_file.h"

namespace paddle::cli {
namespace {

Result<ClusterSpec> slurm_cluster(const std::string& keys) {
  return parse_cluster("name = \"lab\"\n[provider]\nkind = \"slurm\"\n" + keys, "/etc/lab.toml");
}

TEST(SlurmKeys, DescribeTheRequest) {
  const auto cluster = slurm_cluster(
      "nodes = 2\npartition = \"gpu\"\ntime = \"1-12:30\"\ncpus = 4\nmemory = \"8G\"\ngpus = 1\n"
      "account = \"ml\"\nextra = [\"--qos=high\"]\ntimeout = 60\n");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->provider->describe(), "2 nodes of Slurm, partition gpu");
}

TEST(SlurmKeys, EveryTimeThatSlurmTakesIsATime) {
  for (const char* const time : {"90", "90:30", "2:00:00", "1-12", "1-12:30", "1-12:30:00"}) {
    const auto cluster = slurm_cluster(fmt::format("nodes = 1\ntime = \"{}\"\n", time));
    EXPECT_TRUE(cluster) << time << ": " << cluster.error().message;
  }
  for (const char* const time : {"2h", "0", "1:2:3:4", "-5", "1-2:3:4:5", ":", "99999999"}) {
    const auto cluster = slurm_cluster(fmt::format("nodes = 1\ntime = \"{}\"\n", time));
    ASSERT_FALSE(cluster) << time;
    EXPECT_NE(cluster.error().message.find("is not a time of Slurm"), std::string::npos) << time;
    EXPECT_NE(cluster.error().hint.find("2:00:00"), std::string::npos);
  }
}

TEST(SlurmKeys, MistakesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "missing `nodes`"},
      {"nodes = 1\npartitoin = \"gpu\"\n", "did you mean 'partition'?"},
      {"nodes = 1\nextra = [\"high\"]\n", "'high' is no option of sbatch"},
      {"nodes = 1\ngpus = 65\n", "gpus"},
      {"nodes = 1\n[[node]]\nhost = \"a\"\n", "names no [[node]]"},
  };
  for (const auto& [keys, message] : cases) {
    const auto cluster = slurm_cluster(keys);
    ASSERT_FALSE(cluster) << keys;
    EXPECT_NE(cluster.error().message.find(message), std::string::npos) << cluster.error().message;
  }
}

TEST(TimeLimit, WarnsOfAJobThatNeedsLonger) {
  constexpr std::int64_t kHourMs = 3'600'000;
  EXPECT_EQ(time_limit_text(2 * kHourMs), "the nodes are taken back in 2h00m");
  EXPECT_EQ(time_limit_text(2 * kHourMs, kHourMs), "the nodes are taken back in 2h00m");
  EXPECT_EQ(
      time_limit_text(kHourMs, 2 * kHourMs),
      "warning: the nodes are taken back in 1h00m, and the job needs about 2h00m: it is saved "
      "before, and goes on in new ones with paddlectl up and train --resume");
}

}  // namespace
}  // namespace paddle::cli

#include "cli/cluster/gpus.h"

#include <gtest/gtest.h>

#include "tests/support/fake_agent_client.h"

namespace paddle::cli {
namespace {

wire::agent::Facts four_gpus() {
  wire::agent::Facts facts;
  facts.set_address("10.0.0.9");
  remote::set_gpus(facts, {{"T4", "GPU-a0"}, {"T4", "GPU-a1"}, {"T4", "GPU-b2"}, {"T4", ""}});
  return facts;
}

class ChooseGpus : public testing::Test {
 protected:
  ChooseGpus() { node.spec.name = "a"; }
  Result<NodeGpus> choose(const std::string& choice) const {
    return choose_gpus(node, facts, environment, *parse_gpus(choice));
  }
  std::string refused(const std::string& choice) const {
    const auto chosen = choose(choice);
    EXPECT_FALSE(chosen);
    if (chosen) return "";
    EXPECT_EQ(chosen.error().code, Errc::kUsage);
    EXPECT_FALSE(chosen.error().hint.empty());
    return chosen.error().message;
  }

  ClusterNode node;
  wire::agent::Facts facts = four_gpus();
  std::map<std::string, std::string> environment;
};

using Places = std::vector<std::size_t>;

TEST(ParseGpus, TakesAllANumberOrAList) {
  EXPECT_TRUE(parse_gpus("all")->all);
  EXPECT_EQ(parse_gpus("4")->count, 4U);
  using Names = std::vector<std::string>;
  EXPECT_EQ(parse_gpus("0,2")->names, (Names{"0", "2"}));
  EXPECT_EQ(parse_gpus("2,")->names, Names{"2"}) << "the GPU of that number alone";
  EXPECT_EQ(parse_gpus("GPU-1f")->names, Names{"GPU-1f"});
  EXPECT_EQ(parse_gpus("0, GPU-1f")->names, (Names{"0", "GPU-1f"}));
  for (const char* bad : {"", "0", "-1", "x", ",", "0,x", "99999999999", "1.5", "none"}) {
    const auto refused = parse_gpus(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, Errc::kUsage);
  }
}

TEST_F(ChooseGpus, EveryTrainerSeesThemAllAndHasAPlaceAmongThem) {
  const auto all = choose("all");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->visible, "0,1,2,3");
  EXPECT_EQ(all->places, (Places{0, 1, 2, 3}));
  EXPECT_EQ(all->keys,
            (std::vector<std::string>{"GPU-a0", "GPU-a1", "GPU-b2", "number 3 at 10.0.0.9"}));
  EXPECT_EQ(choose("2")->visible, "0,1");
  const auto some = choose("3,1");
  EXPECT_EQ(some->visible, "3,1");
  EXPECT_EQ(some->places, (Places{0, 1})) << "LOCAL_RANK is the place too";
}

TEST_F(ChooseGpus, TheClusterFileSaysWhichThereAreByNumberOrUuid) {
  node.gpus = {"2", "GPU-a1"};
  EXPECT_EQ(choose("all")->visible, "2,GPU-a1");
  EXPECT_EQ(choose("1,")->visible, "GPU-a1") << "the same by another name";
  EXPECT_EQ(choose("GPU-b")->visible, "2") << "the beginning of a UUID";
  EXPECT_EQ(refused("0,"), "GPU 0 of node a is not available to this job, which can use 2, GPU-a1");
  EXPECT_EQ(refused("3"), "--gpus 3 needs 3 GPUs on each node, but node a has 2");
}

TEST_F(ChooseGpus, TheUsersOwnVariableWinsAndKeepsItsList) {
  node.gpus = {"0"};
  node.environment["CUDA_VISIBLE_DEVICES"] = "1,3";
  EXPECT_EQ(choose("all")->visible, "1,3");
  environment["CUDA_VISIBLE_DEVICES"] = "3,2,0";
  const auto chosen = choose("0,3");
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_EQ(chosen->visible, "3,2,0");
  EXPECT_EQ(chosen->places, (Places{2, 0}));
  environment["CUDA_VISIBLE_DEVICES"] = "";
  EXPECT_EQ(refused("all"), "CUDA_VISIBLE_DEVICES selects no GPU of node a");
  environment.clear();
  node.environment.clear();
  node.gpus.clear();
  facts.set_visible_gpus("2,3");
  EXPECT_EQ(choose("1")->visible, "2") << "that of the login environment comes last";
}

// One rank a GPU, by whatever name.
TEST_F(ChooseGpus, Trap29AGpuTwiceOrOneThatIsNotThereIsRefused) {
  EXPECT_EQ(refused("4,"), "node a has no GPU 4: it shows 0 to 3");
  EXPECT_EQ(refused("GPU-ff"), "node a has no GPU GPU-ff: it shows 0 to 3");
  EXPECT_EQ(refused("0,1,0"), "--gpus names GPU 0 twice");
  EXPECT_EQ(refused("1,GPU-a1"), "--gpus names GPU GPU-a1 twice");
  node.gpus = {"1", "GPU-a1"};
  EXPECT_EQ(refused("all"), "node a: GPU GPU-a1 is named twice, but it can have only one trainer");
  node.gpus = {"7"};
  EXPECT_EQ(refused("all"), "node a has no GPU 7: it shows 0 to 3");
  node.gpus.clear();
  facts.clear_gpus();
  EXPECT_EQ(refused("all"), "no GPU was found on node a");
}

TEST(GpusCell, CountsEachKind) {
  wire::agent::Facts facts;
  EXPECT_EQ(gpus_cell(facts).text, "none");
  remote::set_gpus(facts, {{"T4", ""}, {"H100", ""}, {"T4", ""}});
  EXPECT_EQ(gpus_cell(facts).text, "1x H100, 2x T4");
  EXPECT_EQ(gpus_cell(facts).json.text(), R"(["T4", "H100", "T4"])");
}

TEST_F(ChooseGpus, Trap44ANodeIsRefusedWhoseLibcIsTooOldForPaddleGpu) {
  for (const char* good : {"2.35", "2.36", "2.41.1"}) {
    facts.set_glibc(good);
    EXPECT_TRUE(choose("all")->libc_status) << good;
  }
  for (const auto& [glibc, says] :
       {std::pair("2.34", "node a: its glibc is 2.34, but paddle-gpu needs 2.35 or later"),
        {"2.4", "node a: its glibc is 2.4, but paddle-gpu needs 2.35 or later"},
        {"", "node a: it has no glibc, but paddle-gpu needs 2.35 or later"}}) {
    facts.set_glibc(glibc);
    const auto chosen = choose("all");
    ASSERT_TRUE(chosen) << "a program of the user's own may do without";
    ASSERT_FALSE(chosen->libc_status);
    EXPECT_EQ(chosen->libc_status.error().code, Errc::kResource);
    EXPECT_EQ(chosen->libc_status.error().message, says);
    EXPECT_NE(chosen->libc_status.error().hint.find("on its CPUs"), std::string::npos);
  }
}

}  // namespace
}  // namespace paddle::cli

// The template torch_ddp: a program for torchrun, which nobody edited, on every node. Without torch
// a stand-in meets the others as torch's env:// does.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

// Each digit lights six pixels of its own.
std::string glowing_digits(int count) {
  Rng rng(1);
  std::string text;
  for (int i = 0; i < count; ++i) {
    const int digit = i % 10;
    for (int pixel = 0; pixel < 64; ++pixel)
      text += fmt::format("{},", (pixel / 6 == digit ? 10 : 0) + rng.below(7));
    text += fmt::format("{}\n", digit);
  }
  return text;
}

// Rank 0 listens where all meet, hears every other rank, and writes down who came.
constexpr const char* kStandIn = R"py(
import os, socket, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
own = "rank %d of %d, local %s of %s" % (
    rank, size, os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"])
if rank == 0:
    met, calls = [own], []
    with socket.create_server(place) as server:
        while len(met) < size:
            calls.append(server.accept()[0])
            met.append(calls[-1].makefile().readline().strip())
    for call in calls:
        call.sendall(b"all\n")
    output = sys.argv[sys.argv.index("--output") + 1]
    os.makedirs(output, exist_ok=True)
    open(output + "/met.txt", "w").write("\n".join(sorted(met)) + "\n")
else:
    for attempt in range(300):
        try:
            call = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    call.sendall((own + "\n").encode())
    assert call.makefile().readline() == "all\n"
)py";

class TorchDdp : public testing::Test {
 protected:
  void SetUp() override {
    cluster.copy_template("torch_ddp");
    fs::copy_file(fs::path(TEMPLATES_FOLDER) / "torch_ddp/train.py",
                  cluster.folder() / "torch_ddp/train.py");
    const Outcome prepared = cluster.prepare("torch_ddp", {}, glowing_digits(400));
    ASSERT_EQ(prepared.code, 0) << prepared.output;
    ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  }
  void TearDown() override {
    EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
    EXPECT_TRUE(cluster.nothing_left());
  }
  Outcome train() {
    return cluster.run(
        {"train", "--trainers", "4", "--pservers", "0", "--name", "job", "torch_ddp"});
  }
  std::string result(const std::string& path) const {
    return TemporaryFolder::read(cluster.folder() / ("output/job/" + path));
  }

  LocalCluster cluster{2};
};

TEST_F(TorchDdp, TrainsOverGlooAndItsResultsComeHome) {
  Process torch({"/usr/bin/python3", "-c", "import torch.distributed"},
                cluster.folder() / "torch.txt");
  if (torch.wait() != 0) GTEST_SKIP() << "there is no python3-torch";
  const Outcome trained = train();
  ASSERT_EQ(trained.code, 0) << trained.output;
  const std::vector<double> costs = held_out_costs(trained.output);
  ASSERT_EQ(costs.size(), 20U) << trained.output;
  EXPECT_LT(costs.back(), 0.1 * costs.front()) << trained.output;
  EXPECT_TRUE(result("node_1/train-1.log").starts_with("rank 3 of 4 on cpu\n"));
  EXPECT_FALSE(result("checkpoint.pt").empty());
  EXPECT_TRUE(cluster.run({"status"}).says("done"));
}

TEST_F(TorchDdp, RanksMeetWhereTheirVariablesSay) {
  if (!fs::exists("/usr/bin/python3")) GTEST_SKIP() << "there is no python3";
  cluster.folder().write("torch_ddp/train.py", kStandIn);
  const Outcome trained = train();
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_EQ(result("met.txt"),
            "rank 0 of 4, local 0 of 2\nrank 1 of 4, local 0 of 2\n"
            "rank 2 of 4, local 1 of 2\nrank 3 of 4, local 1 of 2\n");
}

}  // namespace
}  // namespace paddle::test

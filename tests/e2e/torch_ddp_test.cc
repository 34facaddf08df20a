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

// Ranks that meet after each of four epochs, as DistributedDataParallel does: one that is lost ends
// the others. Rank 0 saves the epoch and says where all continue. The ranks in the file `victims`
// kill themselves in the third epoch of their first life.
constexpr const char* kEpochs = R"py(
import os, signal, socket, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
output = sys.argv[sys.argv.index("--output") + 1]
os.makedirs(output, exist_ok=True)
checkpoint = output + "/checkpoint.pt"
if rank == 0:
    with socket.create_server(place) as server:
        others = [server.accept()[0].makefile("rw") for _ in range(1, size)]
else:
    for attempt in range(600):
        try:
            others = [socket.create_connection(place).makefile("rw")]
            break
        except OSError:
            time.sleep(0.1)

def send(text):
    for other in others:
        other.write(text + "\n")
        other.flush()

def receive():
    lines = [other.readline() for other in others]
    if "" in lines:
        sys.exit("another rank is lost")
    return lines[0].strip()

if rank == 0:
    begin = int(open(checkpoint).read()) if os.path.exists(checkpoint) else 0
    send(str(begin))
else:
    begin = int(receive())
with open(output + "/begins-%d" % rank, "a") as begins:
    begins.write("%d\n" % begin)
is_first_life = os.environ.get("PADDLE_INIT_RESUME") != "true"
dies = is_first_life and str(rank) in open("victims").read().split()
for epoch in range(begin, 4):
    if dies and epoch == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank > 0:
        send("done")
        receive()
    else:
        receive()
        with open(checkpoint + ".new", "w") as file:
            file.write(str(epoch + 1))
        os.replace(checkpoint + ".new", checkpoint)
        send("saved")
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

// Each rank has a save folder on its own node, but only that of rank 0 has the checkpoint.
TEST_F(TorchDdp, AllRanksContinueWhereRank0Saved) {
  if (!fs::exists("/usr/bin/python3")) GTEST_SKIP() << "there is no python3";
  cluster.folder().write("torch_ddp/train.py", kEpochs);
  // Rank 0, another rank, and both ranks of a node.
  for (const char* const victims : {"0", "3", "1 3"}) {
    cluster.folder().write("torch_ddp/victims", victims);
    const std::string name = fmt::format("lost{}", victims[0]) + (victims[1] == 0 ? "" : "all");
    const Outcome trained = cluster.run({"train", "--trainers", "4", "--pservers", "0",
                                         "--restarts", "9", "--name", name, "torch_ddp"});
    ASSERT_EQ(trained.code, 0) << victims << "\n" << trained.output;
    for (int rank = 0; rank < 4; ++rank) {
      const std::string begins = fmt::format("output/{}/begins-{}", name, rank);
      EXPECT_EQ(TemporaryFolder::read(cluster.folder() / begins), "0\n2\n") << victims << begins;
    }
  }
}

}  // namespace
}  // namespace paddle::test

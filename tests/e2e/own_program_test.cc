// Jobs whose trainers are programs of the user's own.
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

class OwnProgram : public testing::Test {
 protected:
  void SetUp() override {
    cluster.folder().write("own/job.toml", "[trainer]\ncommand = [\"sh\", \"train.sh\"]\n");
    // Runs until it is stopped, and is done when it goes on.
    cluster.folder().write("own/train.sh",
                           "echo $RANK >$PADDLE_INIT_SAVE_DIR/rank-$RANK || exit 9\n"
                           "mkdir -p $PADDLE_INIT_SAVE_DIR/pass-00000\n"
                           "echo m > $PADDLE_INIT_SAVE_DIR/pass-00000/MANIFEST\n"
                           "echo listens on $PADDLE_CURRENT_ENDPOINT\n"
                           "[ $PADDLE_INIT_RESUME = true ] && exit 0\n"
                           "trap 'exit 75' TERM\n"
                           "sleep 1000 & wait\n");
    ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  }
  Outcome train(std::vector<std::string> more) {
    more.insert(more.begin(), "train");
    more.emplace_back("own");
    return cluster.run(more);
  }

  LocalCluster cluster{2};
};

TEST_F(OwnProgram, AJobWithoutPserversRunsStopsAndGoesOn) {
  const Outcome started = train({"--name", "job", "--detach"});
  ASSERT_EQ(started.code, 0) << started.output;
  EXPECT_TRUE(started.says("job job: 2 trainers on 2 nodes")) << started.output;
  EXPECT_FALSE(started.says("pserver")) << started.output;
  const Outcome status = cluster.run({"status"});
  EXPECT_EQ(status.code, 0);
  EXPECT_TRUE(status.says("trainer-1")) << status.output;
  EXPECT_TRUE(cluster.run({"jobs"}).says("2 x 0"));
  const Outcome stopped = cluster.run({"stop"});
  EXPECT_EQ(stopped.code, 0) << stopped.output;
  const Outcome resumed = train({"--resume"});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(resumed.says("job job: 2 trainers on 2 nodes")) << resumed.output;
  EXPECT_TRUE(cluster.run({"jobs"}).says("done"));
  for (const char* const rank : {"rank-0", "rank-1"})
    EXPECT_TRUE(std::filesystem::exists(cluster.folder() / (std::string("output/job/") + rank)))
        << "the folder is on all nodes";
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_TRUE(cluster.nothing_left());
}

TEST_F(OwnProgram, HasThePythonModuleOfThisReleaseAndItsOwnPythonpathBehindIt) {
  cluster.folder().write("own/train.sh",
                         "echo paths $PYTHONPATH\n"
                         "cp -r ${PYTHONPATH%%:*}/paddlectl $PADDLE_INIT_SAVE_DIR/module\n");
  const Outcome trained = train({"--trainers", "1", "--env", "PYTHONPATH=/mine", "--name", "job"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  const std::string log = cluster.run({"logs", "job"}).output;
  EXPECT_NE(log.find("/jobs/job/python:/mine"), std::string::npos) << log;
  namespace fs = std::filesystem;
  std::size_t files = 0;
  for (const auto& file :
       fs::directory_iterator(fs::path(TEMPLATES_FOLDER) / "../python/paddlectl")) {
    if (!file.is_regular_file()) continue;
    ++files;
    const std::string name = "output/job/module/" + file.path().filename().string();
    EXPECT_EQ(TemporaryFolder::read(cluster.folder() / name), TemporaryFolder::read(file.path()))
        << name;
  }
  EXPECT_GT(files, 3U);
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_TRUE(cluster.nothing_left());
}

TEST_F(OwnProgram, ResultsThatAreNoPlainFilesComeHomeOrAreNamed) {
  cluster.folder().write("own/train.sh",
                         "[ $RANK = 0 ] || exit 0\n"
                         "cd $PADDLE_INIT_SAVE_DIR || exit 9\n"
                         "mkdir ckpt logs && echo w >ckpt/w.pt && ln -s ckpt/w.pt last.ckpt\n"
                         "ln -s /etc/passwd away && echo '#!/bin/sh' >run && chmod 755 run\n"
                         "echo x >\"$(printf 'a\\nb')\"\n");
  const Outcome trained = train({"--name", "job"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  namespace fs = std::filesystem;
  const fs::path output = cluster.folder() / "output/job";
  EXPECT_EQ(fs::read_symlink(output / "last.ckpt"), "ckpt/w.pt");
  EXPECT_TRUE(fs::is_regular_file(output / "last.ckpt"));
  EXPECT_TRUE(fs::is_directory(output / "logs"));
  EXPECT_NE(fs::status(output / "run").permissions() & fs::perms::owner_exec, fs::perms::none);
  EXPECT_FALSE(fs::exists(fs::symlink_status(output / "away")));
  EXPECT_TRUE(trained.says("1 link not fetched: away of node ")) << trained.output;
  EXPECT_TRUE(trained.says("1 file not fetched: a\\x0ab of node ")) << trained.output;
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
}

// Each trainer writes there at once, and again when it is started anew.
TEST_F(OwnProgram, TheSaveFolderExistsOnEveryNodeBeforeAnyTrainerStarts) {
  cluster.folder().write("own/train.sh",
                         "[ -d $PADDLE_INIT_SAVE_DIR ] || exit 9\n"
                         "[ -e $PADDLE_INIT_SAVE_DIR/rank-$RANK ] && exit 0\n"
                         "echo $RANK >$PADDLE_INIT_SAVE_DIR/rank-$RANK || exit 9\n"
                         "exit 3\n");
  struct Variant {
    const char* name;
    std::vector<std::string> flags;
    int trainers;
  };
  for (const Variant& variant :
       {Variant{"several", {"--trainers", "4"}, 4}, Variant{"pserver", {"--pservers", "1"}, 2},
        Variant{"second", {"--on", "n-1"}, 1}}) {
    std::vector<std::string> flags = {"--name", variant.name, "--restarts", "9"};
    flags.insert(flags.end(), variant.flags.begin(), variant.flags.end());
    const Outcome trained = train(flags);
    EXPECT_EQ(trained.code, 0) << trained.output;
    for (int rank = 0; rank < variant.trainers; ++rank) {
      const std::string file =
          "output/" + std::string(variant.name) + "/rank-" + std::to_string(rank);
      EXPECT_TRUE(std::filesystem::exists(cluster.folder() / file)) << file;
    }
  }
}

TEST_F(OwnProgram, AFailureAtAStopIsToldWithItsCause) {
  cluster.folder().write("own/train.sh",
                         "echo begins\n"
                         "[ $PADDLE_TRAINER_ID = 1 ] && trap 'exit 75' TERM\n"
                         "[ $PADDLE_TRAINER_ID = 0 ] && trap 'echo no room; exit 1' TERM\n"
                         "sleep 1000 & wait\n");
  Process train = cluster.start({"train", "--pservers", "0", "--name", "job", "own"});
  for (const char* const role : {"trainer-0", "trainer-1"}) {
    for (int i = 0; i < 100 && !cluster.run({"logs", "job", "--role", role}).says("begins"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const Outcome stop = cluster.run({"stop"});
  EXPECT_EQ(stop.code, 1) << stop.output;
  EXPECT_EQ(train.wait(), 1) << train.output();
  for (const std::string& told : {stop.output, train.output()}) {
    EXPECT_NE(told.find("trainer-0 on n-0 exited with code 1"), std::string::npos) << told;
    EXPECT_NE(told.find("| no room"), std::string::npos) << told;
  }
  EXPECT_TRUE(cluster.run({"status"}).says("exited with code 1"));
  EXPECT_TRUE(cluster.run({"jobs"}).says("failed: trainer-0 exited with code 1"));
}

// The programs have their ports before they open them, if they ever do.
TEST_F(OwnProgram, ASecondJobGetsOtherPortsForItsTrainers) {
  ASSERT_EQ(train({"--pservers", "0", "--name", "a", "--detach"}).code, 0);
  const Outcome second = train({"--pservers", "0", "--name", "b", "--detach"});
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_TRUE(second.says("a is running on these nodes: this job's processes take the ports from "))
      << second.output;
  const auto endpoint = [&](const std::string& job, const std::string& role) {
    const std::string log = cluster.run({"logs", job, "--role", role}).output;
    const auto at = log.find("listens on ");
    EXPECT_NE(at, std::string::npos) << log;
    return at == std::string::npos ? log : log.substr(at, log.find('\n', at) - at);
  };
  EXPECT_NE(endpoint("a", "trainer-0"), endpoint("b", "trainer-0"));
  EXPECT_NE(endpoint("a", "trainer-1"), endpoint("b", "trainer-0"));
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_TRUE(cluster.nothing_left());
}

// Each start finds the pservers, and the memory as the start before it left that.
TEST_F(OwnProgram, AProgramWithTablesHasPserversAndKeepsItsMemory) {
  cluster.folder().write("own/job.toml",
                         "[trainer]\ncommand = [\"python3\", \"train.py\"]\n"
                         "[[table]]\nname = \"user\"\nwidth = 16\n");
  cluster.folder().write("own/train.py", R"(import os, signal, socket, stat
assert os.environ["PADDLE_INIT_PORTS_NUM"] == "0"
assert os.environ["PADDLE_INIT_PORTS_NUM_FOR_SPARSE"] == "1"
servers = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
assert len(servers) == 2, servers
for server in servers:
    host, port = server.rsplit(":", 1)
    socket.create_connection((host, int(port)), timeout=10).close()
memory = int(os.environ["PADDLECTL_MEMORY_FD"])
assert stat.S_ISREG(os.fstat(memory).st_mode)
if os.environ["PADDLE_INIT_INCARNATION"] == "1":
    os.pwrite(memory, b"pushed by " + os.environ["RANK"].encode(), 0)
    os.kill(os.getpid(), signal.SIGKILL)
found = os.pread(memory, 64, 0).decode()
assert found == "pushed by " + os.environ["RANK"], found
assert os.environ["PADDLE_INIT_RESUME"] == "true"
print("found", found)
)");
  const Outcome planned = cluster.run({"plan", "own"});
  EXPECT_EQ(planned.code, 0) << planned.output;
  EXPECT_TRUE(planned.says("python3 train.py")) << planned.output;
  EXPECT_TRUE(planned.says("user")) << planned.output;
  EXPECT_TRUE(planned.says("64 a row")) << planned.output;
  EXPECT_FALSE(planned.says("dense port")) << planned.output;
  const Outcome trained = train({"--name", "job", "--restarts", "2"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_TRUE(trained.says("2 trainers, 2 pservers on 2 nodes")) << trained.output;
  for (const char* const rank : {"0", "1"}) {
    const Outcome log = cluster.run({"logs", "job", "--role", std::string("trainer-") + rank});
    EXPECT_TRUE(log.says(std::string("found pushed by ") + rank)) << log.output;
  }
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_TRUE(cluster.nothing_left());
}

}  // namespace
}  // namespace paddle::test

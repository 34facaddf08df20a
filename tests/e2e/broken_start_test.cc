// Jobs whose paddlectl was killed between the start of their pservers and of their trainers.
#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

class BrokenStartTest : public testing::Test {
 protected:
  void SetUp() override {
    cluster.copy_template("quick_start");
    ASSERT_EQ(cluster.prepare("quick_start", {"--shards", "2"}, labelled_texts(400)).code, 0);
    ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
    // The programs again, with an engine whose pserver 1 is not ready while a file is there.
    const fs::path real = fs::path(PADDLECTL_PROGRAM).parent_path();
    fs::create_directories(programs());
    for (const char* const name : {"paddlectl", "paddlectl-agent"})
      fs::copy_file(real / name, programs() / name);
    cluster.folder().write("programs/paddle",
                           fmt::format("#!/bin/sh\n"
                                       "case \"$*\" in *--pserver_id=1*)\n"
                                       "  while [ -e '{}' ]; do sleep 0.05; done;;\n"
                                       "esac\n"
                                       "exec '{}' \"$@\"\n",
                                       hold(), (real / "paddle").string()));
    fs::permissions(programs() / "paddle", fs::perms::owner_all);
  }
  void TearDown() override {
    fs::remove(hold());
    EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
    EXPECT_TRUE(cluster.nothing_left());
  }
  static std::vector<std::string> train_command(const std::string& passes) {
    return {"train", "--name", "job", "--set", "train.passes=" + passes, "quick_start"};
  }
  // Kills `paddlectl train` once both pservers have processes, and before any trainer has one.
  void break_off(std::vector<std::string> arguments) {
    cluster.folder().write("hold", "");
    arguments.insert(arguments.begin(), {"/usr/bin/env", "-C", cluster.folder().path(),
                                         (programs() / "paddlectl").string()});
    Process train(arguments, cluster.folder() / "broken-off.txt");
    for (const char* const pserver : {"--pserver_id=0", "--pserver_id=1"}) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (cluster.find_engine(pserver) == 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ASSERT_GT(cluster.find_engine(pserver), 0) << train.output();
    }
    train.signal(SIGKILL);
    EXPECT_EQ(train.wait(), 128 + SIGKILL) << train.output();
    ASSERT_EQ(cluster.find_engine("--trainer_id=0"), 0) << train.output();
    fs::remove(hold());
  }
  fs::path programs() const { return cluster.folder() / "programs"; }
  std::string hold() const { return cluster.folder() / "hold"; }

  static constexpr const char* kBroken =
      "the start of job was interrupted: trainer-0, trainer-1 were never started; pserver-0, "
      "pserver-1 run";
  // A job that has trained may have lost a node as well.
  static constexpr const char* kIncomplete =
      "job is incomplete: no node has trainer-0, trainer-1; pserver-0, pserver-1 run";
  LocalCluster cluster{2};
};

TEST_F(BrokenStartTest, AttachSaysSoAndEndsItAndTheNameIsFree) {
  break_off(train_command("1"));
  const Outcome status = cluster.run({"status"});
  EXPECT_TRUE(status.says(kBroken)) << status.output;
  EXPECT_TRUE(cluster.run({"status", "--json"}).says("\"never_started\": [\"trainer-0\", "))
      << status.output;
  EXPECT_EQ(cluster.run({"restart"}).code, 2) << "it would start pservers alone";
  const Outcome attach = cluster.run({"attach"});
  EXPECT_EQ(attach.code, 1) << attach.output;
  EXPECT_TRUE(attach.says(kBroken)) << attach.output;
  EXPECT_TRUE(attach.says("start it again: paddlectl train --name job <workspace>"))
      << attach.output;
  EXPECT_EQ(cluster.find_engine("--pserver_id=0"), 0);
  const Outcome again = cluster.run({"attach"});
  EXPECT_EQ(again.code, 1) << again.output;
  EXPECT_TRUE(again.says("never started; none of its processes runs")) << again.output;
  const Outcome train = cluster.run(train_command("1"));
  EXPECT_EQ(train.code, 0) << train.output;
}

TEST_F(BrokenStartTest, TrainStartsItAgainWithoutAttach) {
  break_off(train_command("1"));
  const Outcome whole = cluster.run(train_command("1"));
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_TRUE(whole.says(kBroken)) << whole.output;
  auto resume = train_command("2");
  resume.emplace_back("--resume");
  break_off(resume);
  const Outcome taken = cluster.run(train_command("2"));
  EXPECT_EQ(taken.code, 2) << "it would train over its snapshots: " << taken.output;
  const Outcome resumed = cluster.run(resume);
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_TRUE(resumed.says(kIncomplete)) << resumed.output;
  EXPECT_TRUE(resumed.says("continuing after pass 1\n")) << resumed.output;
  EXPECT_TRUE(resumed.says("2 trainers, 2 pservers on 2 nodes")) << resumed.output;
}

TEST_F(BrokenStartTest, StopSaysSoAndAttachNamesTheSnapshotToGoOnFrom) {
  ASSERT_EQ(cluster.run(train_command("1")).code, 0);
  auto resume = train_command("2");
  resume.emplace_back("--resume");
  break_off(resume);
  const Outcome stop = cluster.run({"stop"});
  EXPECT_EQ(stop.code, 0) << stop.output;
  EXPECT_TRUE(stop.says(kIncomplete)) << stop.output;
  EXPECT_TRUE(stop.says("job: 2 processes stopped")) << stop.output;
  const Outcome attach = cluster.run({"attach"});
  EXPECT_EQ(attach.code, 4) << attach.output;
  EXPECT_TRUE(attach.says("paddlectl train --resume --name job --set train.passes=2"))
      << attach.output;
}

}  // namespace
}  // namespace paddle::test

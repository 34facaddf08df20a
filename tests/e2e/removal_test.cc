// teardown, rm and fetch: nothing is lost unasked. Trainers are scripts that save files.
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/terminal_process.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

class Removal : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0); }

  // A workspace whose two trainers run this script.
  void write_program(const std::string& script) {
    cluster.folder().write("own/train.sh", script);
    cluster.folder().write("own/job.toml",
                           "name = \"own\"\n[trainer]\ncommand = [\"sh\", \"train.sh\"]\n");
  }
  Outcome train(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"train", "--trainers", "2",  "--pservers",
                                       "1",     "--name",     name, "own"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cluster.run(arguments);
  }
  bool is_on_nodes(const std::string& job) const {
    return fs::exists(cluster.folder() / ("nodes/t/n-0/jobs/" + job));
  }
  // teardown on a terminal, where the user types `answer`; its exit code.
  int teardown_on_terminal(const std::string& answer, std::string& shown) {
    TerminalProcess process(
        {"/usr/bin/env", "-C", cluster.folder().path(), PADDLECTL_PROGRAM, "teardown"},
        {"PATH=/usr/bin:/bin"});
    EXPECT_TRUE(process.shows("remove it? [y/N] ")) << process.shown();
    process.type(answer);
    const int code = process.wait();
    shown = process.shown();
    return code;
  }

  LocalCluster cluster{2};
};

TEST_F(Removal, ARunningJobAndItsUnfetchedResultsAreNamedAndKept) {
  write_program(
      "mkdir -p $PADDLE_INIT_SAVE_DIR; echo model > $PADDLE_INIT_SAVE_DIR/m-$PADDLE_TRAINER_ID; "
      "sleep 1000\n");
  ASSERT_EQ(train("job", {"--detach"}).code, 0);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"teardown"}, {"teardown", "--yes"}, {"teardown", "--discard"}}) {
    const Outcome refused = cluster.run(command);
    EXPECT_EQ(refused.code, 2) << refused.output;
    EXPECT_TRUE(refused.says("nothing was removed")) << refused.output;
    EXPECT_TRUE(refused.says("job: running, ")) << refused.output;
    EXPECT_TRUE(refused.says("trainer-0 on n-0")) << refused.output;
    EXPECT_TRUE(refused.says("--discard")) << refused.output;
  }
  const Outcome json = cluster.run({"teardown", "--json"});
  EXPECT_EQ(json.code, 2);
  EXPECT_TRUE(json.says("{\"error\": {\"code\": 2, \"message\": \"nothing was removed"))
      << json.output;
  const Outcome dry = cluster.run({"teardown", "--dry-run", "--json"});
  EXPECT_EQ(dry.code, 0) << dry.output;
  EXPECT_TRUE(
      dry.says("{\"job\": \"job\", \"node\": \"n-0\", \"running\": [\"pserver-0\", \"trainer-0\"], "
               "\"files\": "))
      << dry.output;
  EXPECT_TRUE(cluster.run({"status"}).says("running"));
  ASSERT_EQ(cluster.run({"stop", "--now"}).code, 0);
  const Outcome stopped = cluster.run({"teardown", "--yes"});
  EXPECT_EQ(stopped.code, 2);
  EXPECT_TRUE(stopped.says("job: never fetched, m-0 on n-0 (6 B), m-1 on n-1 (6 B)"))
      << stopped.output;
  EXPECT_TRUE(stopped.says("hint: fetch it: paddlectl fetch --job job; or discard it"))
      << stopped.output;
  EXPECT_EQ(cluster.run({"rm", "job", "--yes"}).code, 2);
  EXPECT_TRUE(is_on_nodes("job"));
  ASSERT_EQ(cluster.run({"fetch"}).code, 0);
  EXPECT_EQ(cluster.run({"teardown"}).code, 2) << "it still asks";
  const Outcome down = cluster.run({"teardown", "--yes"});
  EXPECT_EQ(down.code, 0) << down.output;
  EXPECT_TRUE(cluster.nothing_left());
}

TEST_F(Removal, RmEndedTakesTheJobsThatWereFetched) {
  write_program(
      "mkdir -p $PADDLE_INIT_SAVE_DIR; echo model > $PADDLE_INIT_SAVE_DIR/m-$PADDLE_TRAINER_ID\n");
  ASSERT_EQ(train("fetched").code, 0);
  ASSERT_EQ(train("new", {"--detach"}).code, 0);
  ASSERT_EQ(cluster.run({"stop", "--job", "new"}).code, 0);
  EXPECT_EQ(cluster.run({"rm", "--ended", "new"}).code, 2);
  EXPECT_EQ(cluster.run({"rm", "--ended"}).code, 2) << "nobody was asked";
  EXPECT_TRUE(is_on_nodes("fetched"));
  const Outcome dry = cluster.run({"rm", "--ended", "--dry-run"});
  EXPECT_EQ(dry.code, 0);
  EXPECT_TRUE(dry.says("fetched  n-0")) << dry.output;
  EXPECT_TRUE(is_on_nodes("fetched"));
  const Outcome ended = cluster.run({"rm", "--ended", "--yes"});
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_TRUE(ended.says("kept: new: never fetched, m-0 on n-0")) << ended.output;
  EXPECT_TRUE(ended.says("fetched is removed from the nodes")) << ended.output;
  EXPECT_FALSE(is_on_nodes("fetched"));
  EXPECT_TRUE(is_on_nodes("new"));
  EXPECT_EQ(cluster.run({"rm", "--ended", "--yes", "--discard"}).code, 0);
  EXPECT_FALSE(is_on_nodes("new"));
  EXPECT_EQ(cluster.run({"teardown"}).code, 0) << "no job is there to lose";
  EXPECT_TRUE(cluster.nothing_left());
}

TEST_F(Removal, AJobThatRanAgainAfterTheFetchIsUnfetched) {
  write_program(
      "mkdir -p $PADDLE_INIT_SAVE_DIR; date +%N > $PADDLE_INIT_SAVE_DIR/m-$PADDLE_TRAINER_ID; exit "
      "75\n");
  ASSERT_EQ(train("job").code, 75);
  EXPECT_EQ(cluster.run({"rm", "job", "--dry-run"}).code, 0);
  ASSERT_EQ(cluster.run({"restart"}).code, 0);
  ASSERT_EQ(cluster.run({"stop"}).code, 0);
  const Outcome down = cluster.run({"teardown", "--yes"});
  EXPECT_EQ(down.code, 2);
  EXPECT_TRUE(down.says("never fetched, m-0 on n-0")) << down.output;
}

TEST_F(Removal, OnATerminalTheAnswerDecides) {
  write_program(
      "mkdir -p $PADDLE_INIT_SAVE_DIR; echo model > $PADDLE_INIT_SAVE_DIR/m-$PADDLE_TRAINER_ID\n");
  ASSERT_EQ(train("job").code, 0);
  std::string shown;
  EXPECT_EQ(teardown_on_terminal("", shown), 2);
  EXPECT_NE(shown.find("job: ended, and fetched"), std::string::npos) << shown;
  EXPECT_TRUE(is_on_nodes("job"));
  EXPECT_EQ(teardown_on_terminal("y", shown), 0) << shown;
  EXPECT_TRUE(cluster.nothing_left());
}

TEST_F(Removal, TrainersThatSaveOneNameEndWell) {
  write_program(
      "mkdir -p $PADDLE_INIT_SAVE_DIR; head -c 3000000 /dev/zero | tr '\\0' $PADDLE_TRAINER_ID > "
      "$PADDLE_INIT_SAVE_DIR/model.pt\n");
  const Outcome trained = train("job");
  EXPECT_EQ(trained.code, 0) << trained.output;
  EXPECT_TRUE(trained.says("1 file saved on several nodes under one name")) << trained.output;
  const std::string model = TemporaryFolder::read(cluster.folder() / "output/job/model.pt");
  EXPECT_EQ(model, std::string(3000000, '0'));
}

}  // namespace
}  // namespace paddle::test

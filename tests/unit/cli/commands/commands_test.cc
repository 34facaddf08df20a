// The command line, errors, and what prepares a cluster.
#include "base/fd.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, CheckTriesEveryPairAndExitsWithTheGravestFault) {
  EXPECT_EQ(run({"check", "--cluster", "c.toml"}), 0) << err_.str();
  EXPECT_TRUE(out_has("1 of 1")) << out_.str();
  EXPECT_TRUE(out_has("\non all nodes: os Debian GNU/Linux 12, arch x86_64, ")) << out_.str();
  EXPECT_EQ(run({"check", "--cluster", "c.toml", "--json"}), 0) << err_.str();
  EXPECT_TRUE(out_has(R"("architecture": "x86_64")")) << out_.str();
  for (FakeNode& node : nodes_) node.probed.clear();
  EXPECT_EQ(run({"check", "--cluster", "c.toml"}), 0) << err_.str();
  EXPECT_EQ(nodes_[0].probed, std::vector<std::string>{"127.0.0.1:7166"});
  EXPECT_EQ(nodes_[1].probed, std::vector<std::string>{"127.0.0.1:7164"});
  EXPECT_TRUE(nodes_[0].taken_ports.empty()) << "nobody listens any more";

  nodes_[0].probes["127.0.0.1:7166"] = {remote::ProbeOutcome::kNoProof, "closed by peer", {}, 0};
  EXPECT_EQ(run({"doctor", "--cluster", "c.toml"}), 4);
  EXPECT_TRUE(out_has(
      "! node n-1: 127.0.0.1:7166 is answered by another program, not by the node's agent (from "
      "n-0: closed by peer)\n  next: "))
      << out_.str();
  nodes_[0].taken_ports[7164] = "pid 1 (nginx)";
  nodes_[0].probed = nodes_[1].probed = {};
  EXPECT_EQ(run({"check", "--cluster", "c.toml"}), 7);
  EXPECT_TRUE(out_has("! 7164-7165 taken")) << out_.str();
  EXPECT_TRUE(nodes_[1].probed.empty()) << "a stranger is not called";
  EXPECT_EQ(nodes_[0].probed.size(), 1U);

  nodes_[0].taken_ports.clear();
  nodes_[0].unreachable = true;
  EXPECT_EQ(run({"check", "--cluster", "c.toml"}), 4);
  EXPECT_TRUE(out_has("! FAILED")) << out_.str();
  EXPECT_TRUE(out_has("! node n-0: no route\n  next: plug it in\n")) << out_.str();
  EXPECT_TRUE(out_has("n-1   127.0.0.1")) << out_.str();
  EXPECT_EQ(run({"check", "--cluster", "c.toml", "--on", "n-1"}), 0);
  EXPECT_FALSE(out_has("n-0"));
}

TEST_F(CommandsTest, GlobalOptionsStandBeforeTheCommandAsWellAsBehindIt) {
  awaited_at_once_ = 2;
  EXPECT_EQ(run({"--password-file", "pw", "--timeout", "7", "--json", "up", "c.toml"}), 0)
      << err_.str();
  EXPECT_TRUE(out_has("\"node\": \"n-0\"")) << out_.str();
  EXPECT_EQ(timeout_.load(), std::chrono::seconds(7));
  EXPECT_GT(at_once_max_, 1);
  awaited_at_once_ = at_once_max_ = 0;
  EXPECT_EQ(run({"check", "--parallel", "1", "--timeout=8"}), 0) << err_.str();
  EXPECT_EQ(timeout_.load(), std::chrono::seconds(8));
  EXPECT_EQ(at_once_max_, 1);
  EXPECT_EQ(run({"--password-file", "up", "pu"}), 2);
  EXPECT_TRUE(err_has("unknown command 'pu', did you mean 'put'?")) << err_.str();
  EXPECT_EQ(run({"--timeout", "0", "status"}), 2);
  EXPECT_TRUE(err_has("'0' is not a whole number from 1 to ")) << err_.str();
  EXPECT_TRUE(err_has("see paddlectl status --help")) << err_.str();
  EXPECT_EQ(run({"status", "--timeot", "5"}), 2);
  EXPECT_TRUE(err_has("did you mean '--timeout'?")) << err_.str();
  EXPECT_EQ(run({"--cluster", "c.toml", "status"}), 2);
  EXPECT_TRUE(err_has("put the options of a command after it")) << err_.str();
}

TEST_F(CommandsTest, OneMachineNamedTwiceHasABlockOfPortsForEachName) {
  write("twice.toml", "[[node]]\nhost = \"a\"\n[[node]]\nhost = \"b\"\nroles = [\"pserver\"]\n");
  for (const char* const command : {"up", "check"}) {
    std::vector<std::string> arguments{command, "twice.toml"};
    if (std::string_view(command) == "check") arguments.insert(arguments.begin() + 1, "--cluster");
    EXPECT_EQ(run(arguments), 0) << err_.str();
    EXPECT_TRUE(out_has("7164-7165 free")) << out_.str();
    EXPECT_TRUE(out_has("7166-7167 free")) << command << out_.str();
  }
}

TEST_F(CommandsTest, CheckTriesAsManyPairsOfALargeClusterAsItHasTimeFor) {
  write("large.toml", "[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = 13\n");
  clock_.step = std::chrono::seconds(10);
  EXPECT_EQ(run({"check", "--cluster", "large.toml"}), 0) << err_.str();
  EXPECT_TRUE(out_has(
      "links: each node was tested from 3 of the 12 other nodes, because the time limit is 60 s"))
      << out_.str();
  EXPECT_TRUE(out_has("3 of 3")) << out_.str();
  EXPECT_EQ(nodes_[0].probed,
            (std::vector<std::string>{"127.0.0.1:7172", "127.0.0.1:7180", "127.0.0.1:7188"}))
      << "not its neighbours alone";
  EXPECT_EQ(run({"check", "--cluster", "large.toml", "--json"}), 0);
  EXPECT_TRUE(out_has("\"link_rounds\": 12, \"link_rounds_tried\": 3")) << out_.str();
  clock_.step = {};
  EXPECT_EQ(run({"check", "--cluster", "large.toml"}), 0) << err_.str();
  EXPECT_TRUE(out_has("12 of 12")) << out_.str();
  EXPECT_FALSE(out_has("links:"));
}

TEST_F(CommandsTest, TypoInACommandIsSuggested) {
  EXPECT_EQ(run({"trian"}), 2);
  EXPECT_EQ(err_.str(),
            "error: unknown command 'trian', did you mean 'train'?\nhint: see paddlectl --help\n");
  EXPECT_EQ(run({"train", "--trainer", "3"}), 2);
  EXPECT_TRUE(err_has("did you mean '--trainers'?")) << err_.str();
}

TEST_F(CommandsTest, ErrorsAreJsonWithJson) {
  EXPECT_EQ(run({"--json", "trian"}), 2);
  EXPECT_EQ(err_.str(),
            "{\"error\": {\"code\": 2, \"message\": \"unknown command 'trian', did you mean "
            "'train'?\", \"hint\": \"see paddlectl --help\"}}\n");
  EXPECT_EQ(run({"train", "--trainers", "x", "--json"}), 2);
  EXPECT_TRUE(err_.str().starts_with(R"({"error": {"code": 2, )")) << err_.str();
  nodes_[1].unreachable = true;
  EXPECT_EQ(run({"up", "c.toml", "--json"}), 4);
  EXPECT_TRUE(err_has(R"({"error": {"code": 4, "message": "1 of 2 nodes ready; train on it )"))
      << err_.str();
  EXPECT_TRUE(out_.str().starts_with("[{")) << out_.str();
  EXPECT_EQ(run({"exec", "--cluster", "missing", "--", "x", "--json"}), 2);
  EXPECT_TRUE(err_.str().starts_with("error: ")) << "that --json is the command's";
}

TEST_F(CommandsTest, AnErrorWithoutAHintOfItsOwnGetsTheNextStepOfItsKind) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--set", "train.pases=1", "w"}), 2);
  EXPECT_TRUE(err_has("unknown key 'pases', did you mean 'passes'?\nhint: see docs/job.md#train\n"))
      << err_.str();
}

TEST_F(CommandsTest, HelpShowsExamples) {
  EXPECT_EQ(run({"train", "--help"}), 0);
  EXPECT_TRUE(out_has("paddlectl train --trainers 4 --pservers 2 templates/word2vec"));
  EXPECT_TRUE(out_has("Usage: paddlectl train [OPTIONS] [WORKSPACE]")) << out_.str();
}

TEST_F(CommandsTest, HelpIsACommandToo) {
  EXPECT_EQ(run({"help"}), 0);
  const std::string program = out_.str();
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_EQ(out_.str(), program);
  EXPECT_EQ(run({"help", "train"}), 0);
  EXPECT_TRUE(out_.str().starts_with("push a workspace")) << out_.str();
  EXPECT_EQ(run({"help", "trian"}), 2);
  EXPECT_TRUE(err_has("unknown command 'trian', did you mean 'train'?")) << err_.str();
}

TEST_F(CommandsTest, HintsNameWhatTheCommandWasGiven) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--set", "passes=1", "w"}), 2);
  EXPECT_TRUE(err_has("--set passes=1: unknown key 'passes', did you mean 'train.passes'?\n"))
      << err_.str();
  EXPECT_EQ(run({"train", "--set", "optimizer.learning_rte=1", "w"}), 2);
  EXPECT_TRUE(err_has("hint: see docs/job.md#optimizer\n")) << err_.str();
  trainer_exit_ = 75;
  EXPECT_EQ(train(), 75);
  EXPECT_TRUE(err_has("resume with: paddlectl train --resume --name job1 w\n")) << err_.str();
  ASSERT_EQ(run({"teardown", "--yes", "--discard"}), 0);
  EXPECT_EQ(run({"status", "--cluster", "c.toml"}), 2);
  EXPECT_TRUE(err_has("hint: prepare the nodes: paddlectl up c.toml\n")) << err_.str();
  write("bad.toml", "name = \"t\"\n[[node]]\nhost = \"a\"\nprot = 1\n");
  EXPECT_EQ(run({"up", "bad.toml"}), 2);
  EXPECT_TRUE(err_has("hint: see docs/cluster.md#node\n")) << err_.str();
}

TEST_F(CommandsTest, WithoutAClusterTheNextStepIsNamed) {
  EXPECT_EQ(run({"status"}), 2);
  EXPECT_TRUE(err_has("run `paddlectl up c.toml` here first, or pass --cluster c.toml,"))
      << err_.str();
  write("d.toml", "name = \"d\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\n");
  write("w.toml", "no = \"cluster file\"\n");
  EXPECT_EQ(run({"status"}), 2);
  EXPECT_TRUE(err_has("run `paddlectl up <cluster file>` here first")) << "which of two?";
  fs::copy(folder_ + "/d.toml", folder_ + "/cluster.toml");
  EXPECT_EQ(run({"status"}), 2);
  EXPECT_TRUE(err_has("run `paddlectl up cluster.toml` here first,")) << err_.str();
  EXPECT_EQ(run({"up", "missing.toml"}), 2);
  EXPECT_TRUE(err_has("cannot find cluster file 'missing.toml'"));
}

TEST_F(CommandsTest, UpNamesTheFileThatWasMeant) {
  EXPECT_EQ(run({"up", "c"}), 2);
  EXPECT_TRUE(err_has("cannot find cluster file 'c', did you mean 'c.toml'?")) << err_.str();
  EXPECT_EQ(run({"up", "w"}), 2);
  EXPECT_TRUE(err_has("'w' is a workspace, not a cluster file")) << err_.str();
  EXPECT_TRUE(err_has("then: paddlectl train w")) << err_.str();
}

TEST_F(CommandsTest, TrainNamesTheWorkspaceThatWasMeant) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  const std::string meant = "the workspace is the folder that holds it: " + folder_ + "/w\n";
  EXPECT_EQ(run({"train", "w/job.toml"}), 2);
  EXPECT_TRUE(err_has(meant)) << err_.str();
  EXPECT_EQ(run({"train", "w/data"}), 2);
  EXPECT_TRUE(err_has(meant)) << err_.str();
  EXPECT_EQ(run({"train", "w/data/"}), 2);
  EXPECT_TRUE(err_has(meant)) << err_.str();
  EXPECT_EQ(run({"train"}), 2) << "in the folder around it";
  EXPECT_TRUE(err_has(meant)) << err_.str();
  write("other/job.toml", "");
  EXPECT_EQ(run({"train"}), 2);
  EXPECT_TRUE(err_has("name the folder that holds it")) << "which of two? " << err_.str();
}

TEST_F(CommandsTest, AnUnknownOptionIsNamedWithTheWayWithoutIt) {
  EXPECT_EQ(run({"wait", "--job", "j"}), 2);
  EXPECT_TRUE(err_has("unknown option '--job'\n")) << "it is not like --on: " << err_.str();
  EXPECT_TRUE(err_has("name jobs without an option: paddlectl wait JOB")) << err_.str();
  EXPECT_EQ(run({"rm", "--name", "j"}), 2);
  EXPECT_TRUE(err_has("name jobs without an option: paddlectl rm JOB")) << err_.str();
  EXPECT_EQ(run({"train", "--epochs", "3", "w"}), 2);
  EXPECT_TRUE(err_has("--set changes keys of job.toml: --set train.passes=3")) << err_.str();
  EXPECT_EQ(run({"init", "--hosts"}), 2);
  EXPECT_TRUE(err_has("error: --hosts needs a value\n")) << err_.str();
  EXPECT_EQ(run({"train", "--trainer", "3", "w"}), 2);
  EXPECT_TRUE(err_has("unknown option '--trainer', did you mean '--trainers'?")) << err_.str();
}

TEST_F(CommandsTest, ACommandOfAnotherNameIsNamed) {
  EXPECT_EQ(run({"predict"}), 2);
  EXPECT_TRUE(
      err_has("unknown command 'predict'\nhint: did you mean paddle predict? see paddle "
              "predict --help\n"))
      << err_.str();
  EXPECT_EQ(run({"ls"}), 2);
  EXPECT_TRUE(err_has("did you mean paddlectl jobs?")) << "not logs: " << err_.str();
  EXPECT_EQ(run({"resume"}), 2);
  EXPECT_TRUE(err_has("did you mean paddlectl train --resume?")) << err_.str();
}

TEST_F(CommandsTest, UpIsIdempotentAndRemembersTheCluster) {
  ASSERT_EQ(run({"up", "c.toml"}), 0) << err_.str();
  EXPECT_TRUE(out_has(" prepared")) << out_.str();
  EXPECT_TRUE(out_has("7166-7167 free")) << out_.str();
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_TRUE(out_has(" ready"));
  EXPECT_EQ(*read_file(folder_ + "/.paddlectl/current"), folder_ + "/c.toml\n");
}

TEST_F(CommandsTest, UpAndCheckSayThatTrainingIsNotSealed) {
  const std::string nodes = "[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = 2\n";
  EXPECT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_FALSE(err_has("not sealed")) << err_.str();
  write("c.toml", "name = \"t\"\ntransport = \"clear\"\n" + nodes);
  EXPECT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_TRUE(err_has("training traffic is not sealed")) << err_.str();
  EXPECT_EQ(run({"check"}), 0) << err_.str();
  EXPECT_TRUE(err_has("training traffic is not sealed")) << err_.str();
  write("c.toml", "name = \"t\"\ntransport = \"open\"\n" + nodes);
  EXPECT_EQ(run({"up", "c.toml"}), 2);
  EXPECT_TRUE(err_has("c.toml:2:13")) << err_.str();
}

TEST_F(CommandsTest, UpWarnsOfNodesWithTooLittleDiskSpaceForAJob) {
  EXPECT_EQ(run({"up", "c.toml"}), 0) << err_.str();
  EXPECT_FALSE(err_has("free on the disk")) << err_.str();
  nodes_[0].disk_free_bytes = 1'000'000'000;
  nodes_[1].disk_free_bytes = 72'000'000;
  EXPECT_EQ(run({"up", "c.toml"}), 0) << "the node is ready all the same\n" << err_.str();
  EXPECT_TRUE(
      err_has("warning: node n-1: 72 MB free on the disk of /nonexistent/fake/n-1; a job needs at "
              "least 1.0 GB\n"))
      << err_.str();
  EXPECT_FALSE(err_has("warning: node n-0")) << err_.str();
  EXPECT_TRUE(err_has("2 nodes ready")) << err_.str();
  nodes_[0].disk_free_bytes = 990'000'000;
  EXPECT_EQ(run({"up", "c.toml", "--json"}), 0) << err_.str();
  EXPECT_TRUE(err_has("warning: node n-0: 990 MB free")) << err_.str();
  EXPECT_TRUE(err_has("warning: node n-1: 72 MB free")) << err_.str();
  EXPECT_TRUE(out_has("\"disk_free_bytes\": 72000000")) << out_.str();
}

TEST_F(CommandsTest, UpTakesItsFileAsOtherCommandsDo) {
  ASSERT_EQ(run({"up", "--cluster", "c.toml"}), 0) << err_.str();
  EXPECT_EQ(*read_file(folder_ + "/.paddlectl/current"), folder_ + "/c.toml\n");
  EXPECT_EQ(run({"up"}), 0) << "the current one";
  EXPECT_EQ(run({"up", "c.toml", "--cluster", "c.toml"}), 0) << "twice the same";
  EXPECT_EQ(run({"up", "--cluster", "missing.toml"}), 2);
  EXPECT_TRUE(err_has("cannot find cluster file 'missing.toml'")) << err_.str();
}

TEST_F(CommandsTest, UpWithDefaultNamesTheClusterThatThisFolderUses) {
  ::setenv("XDG_CONFIG_HOME", (folder_ + "/config").c_str(), 1);
  ASSERT_EQ(run({"up", "--default", "c.toml"}), 0) << err_.str();
  EXPECT_TRUE(err_has("2 nodes ready; next: paddlectl train <workspace>\n")) << err_.str();
  EXPECT_FALSE(err_has("commands here still")) << "no other cluster is in the way: " << err_.str();
  write("other.toml", "name = \"o\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = 2\n");
  write(".paddlectl/current", folder_ + "/other.toml\n");
  ASSERT_EQ(run({"up", "--default", "c.toml"}), 0) << err_.str();
  EXPECT_TRUE(err_has("2 nodes ready; next: paddlectl train --cluster c.toml <workspace>\n"))
      << err_.str();
  EXPECT_TRUE(
      err_has("commands here still use other.toml, which .paddlectl/current names; for "
              "this cluster add --cluster c.toml, or make it this folder's: paddlectl up "
              "c.toml\n"))
      << err_.str();
  EXPECT_EQ(*read_file(folder_ + "/config/paddlectl/current"), folder_ + "/c.toml\n");
  ::unsetenv("XDG_CONFIG_HOME");
}

TEST_F(CommandsTest, UpShowsAFailedNodeAndItsCode) {
  nodes_[1].unreachable = true;
  EXPECT_EQ(run({"up", "c.toml"}), 4);
  EXPECT_TRUE(out_has("FAILED"));
  EXPECT_TRUE(err_has("1 of 2 nodes ready; train on it with: paddlectl train --on n-0 <workspace>"))
      << err_.str();
  EXPECT_TRUE(err_has(
      "node n-1: no route\nhint: plug it in; or continue without them: paddlectl up --any c.toml"))
      << err_.str();
  EXPECT_FALSE(fs::exists(folder_ + "/.paddlectl"));
}

TEST_F(CommandsTest, OnReachesOnlyTheNodesItNames) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  nodes_[1].unreachable = true;
  for (const char* command :
       {"up", "status", "logs", "metrics", "fetch", "stop", "attach", "teardown"}) {
    const std::vector<std::string> where = {command, "--cluster", "c.toml"};
    std::vector<std::string> all = where;
    if (std::string(command) == "up") all = {"up", "c.toml"};
    if (std::string(command) == "teardown")
      all.insert(all.end(), std::initializer_list<std::string>{"--yes", "--discard"});
    EXPECT_EQ(run(all), 4) << command;
    all.insert(all.end(), std::initializer_list<std::string>{"--on", "n-0"});
    EXPECT_EQ(run(all), 0) << command << err_.str();
    EXPECT_FALSE(out_has("n-1")) << command << out_.str();
    all.back() = "n-7";
    EXPECT_EQ(run(all), 2) << command;
  }
  EXPECT_EQ(run({"up", "c.toml", "--on", "!n-1"}), 0);
  EXPECT_TRUE(err_has("1 of 2 nodes ready; train on it with: paddlectl train --on n-0"))
      << err_.str();
}

TEST_F(CommandsTest, UpWithAnyGoesOnWithTheNodesThatAnswer) {
  nodes_[1].unreachable = true;
  ASSERT_EQ(run({"up", "--any", "c.toml"}), 0) << err_.str();
  EXPECT_TRUE(err_has("left out: node n-1: no route")) << err_.str();
  EXPECT_TRUE(err_has("1 of 2 nodes ready; train on it with: paddlectl train --on n-0"))
      << err_.str();
  EXPECT_TRUE(fs::exists(folder_ + "/.paddlectl/current"));
  EXPECT_EQ(train(), 0) << "on the nodes that answered";
  EXPECT_TRUE(err_has("left out, as in `up --any`: n-1")) << err_.str();
  EXPECT_TRUE(err_has("1 trainer, 1 pserver on 1 node")) << err_.str();
  EXPECT_NE(run({"plan", "--on", "n-1", "w"}), 4) << "no node is asked";
  const std::string left_out = "still unreachable and left out, as in `up --any`: n-1\n";
  EXPECT_EQ(run({"jobs"}), 0) << err_.str();
  EXPECT_TRUE(out_has("job1") && err_has(left_out)) << err_.str();
  EXPECT_EQ(run({"jobs", "--cluster", "c.toml"}), 0) << err_.str();
  EXPECT_EQ(run({"jobs", "--on", "all"}), 4) << "it was asked for";
  EXPECT_EQ(run({"teardown", "--dry-run"}), 0) << err_.str();
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_TRUE(err_has(left_out)) << err_.str();
  EXPECT_TRUE(err_has("paddlectl teardown --cluster " + folder_ + "/c.toml --on n-1"))
      << err_.str();
  EXPECT_FALSE(out_has("n-1"));
  EXPECT_FALSE(fs::exists(folder_ + "/.paddlectl"));
  nodes_[0].unreachable = true;
  EXPECT_EQ(run({"up", "--any", "c.toml"}), 4) << "none is too few";
}

TEST_F(CommandsTest, ANodeIsLeftOutUntilAnUpThatReachesIt) {
  nodes_[1].unreachable = true;
  ASSERT_EQ(run({"up", "--any", "c.toml"}), 0) << err_.str();
  ASSERT_EQ(run({"up", "--on", "n-0", "c.toml"}), 0) << err_.str();
  EXPECT_EQ(run({"jobs"}), 0) << "no word of n-1: " << err_.str();
  nodes_[1].unreachable = false;
  EXPECT_EQ(run({"jobs"}), 0) << err_.str();
  EXPECT_FALSE(err_has("left out")) << "it answers again: " << err_.str();
  ASSERT_EQ(run({"up"}), 0) << err_.str();
  nodes_[1].unreachable = true;
  EXPECT_EQ(run({"jobs"}), 4) << err_.str();
  EXPECT_EQ(run({"teardown", "--yes"}), 4) << err_.str();
  EXPECT_TRUE(fs::exists(folder_ + "/.paddlectl/current"));
}

TEST_F(CommandsTest, ANodeThatTheJobNeverUsedDoesNotFailItsCommands) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"train", "--on", "n-0", "--name", "job1", "w"}), 0) << err_.str();
  nodes_[1].unreachable = true;
  for (const char* command : {"status", "logs", "fetch", "stop"}) {
    EXPECT_EQ(run({command}), 0) << command << err_.str();
    EXPECT_TRUE(err_has("job1 is not on n-1, which cannot be reached")) << err_.str();
    EXPECT_EQ(run({command, "--on", "all"}), 4) << command << ": it was asked for";
  }
  EXPECT_EQ(run({"attach"}), 0) << err_.str();
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}), 4) << "files of others may be there";
  EXPECT_EQ(run({"teardown", "--on", "n-0", "--yes", "--discard"}), 0) << err_.str();
  EXPECT_TRUE(fs::exists(folder_ + "/.paddlectl/current")) << "n-1 is still to be cleaned";
}

TEST_F(CommandsTest, UpChecksWhereItRemembersTheClusterBeforeAnyWork) {
  write(".paddlectl", "a file where the folder goes");
  EXPECT_EQ(run({"up", "c.toml"}), 7);
  EXPECT_TRUE(
      err_has("cannot keep the current cluster in " + folder_ +
              "/.paddlectl: Not a directory\nhint: run this in a folder that you can write to"))
      << err_.str();
  EXPECT_TRUE(nodes_[0].files.empty()) << "no node was touched";
}

TEST_F(CommandsTest, UpRefusesAPortOfAStranger) {
  nodes_[1].taken_ports[7167] = "pid 5 (nginx)";
  EXPECT_EQ(run({"up", "c.toml"}), 7);
  EXPECT_TRUE(err_has("node n-1: port 7167 on 127.0.0.1 is taken by pid 5 (nginx)")) << err_.str();
}

TEST_F(CommandsTest, WrongInputIsNamed) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "nowhere"}), 2);
  EXPECT_TRUE(err_has("no job.toml in"));
  EXPECT_EQ(run({"train", "--set", "train.pases=1", "w"}), 2);
  fs::remove_all(folder_ + "/w/data");
  write("w/data/dictionary.txt", "a\n<unk>\n");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("no file matches 'data/train-*'")) << err_.str();
  write("w/prepare", "#!/bin/sh\n");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("hint: make the data first: w/prepare\n")) << err_.str();
  fs::remove_all(folder_ + "/w/data");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("hint: make the data first: w/prepare\n")) << err_.str();
}

TEST_F(CommandsTest, JsonOfEveryCommand) {
  ASSERT_EQ(run({"up", "c.toml", "--json"}), 0);
  EXPECT_TRUE(out_.str().starts_with(
      R"([{"node": "n-0", "address": "127.0.0.1", "os": "Debian GNU/Linux 12", "cores": 4, )"
      R"("memory_bytes": 8000000000, "gpus": [], "disk_free_bytes": 50000000000, )"))
      << out_.str();
  ASSERT_EQ(run({"train", "--json", "--name", "job1", "w"}), 0);
  EXPECT_TRUE(out_.str().starts_with(R"({"job": "job1", "state": "done", "files": 6, "output": ")" +
                                     folder_ + "/output/job1\", "))
      << out_.str();
  nodes_[0].files["jobs/job1/node_0/metrics.jsonl"] =
      R"({"kind":"train","pass":1,"batch":50,"cost":0.25,"examples_per_second":900})"
      "\n"
      R"({"kind":"pass","pass":1,"batch":60,"cost":0.5})"
      "\n";
  ASSERT_EQ(run({"status", "--json"}), 0);
  EXPECT_TRUE(out_.str().starts_with(
      R"({"job": "job1", "progress": null, "processes": [{"node": "n-0", "role": "pserver-0", )"
      R"("state": "done", "activity": null, )"))
      << out_.str();
  EXPECT_TRUE(out_has(R"("pass": 1, "passes": null, "pass_done": 1, "batch": 60, "cost": 0.5, )"
                      R"("examples_per_second": 900)"))
      << out_.str();
  ASSERT_EQ(run({"logs", "--json", "--role", "pserver-0"}), 0);
  EXPECT_EQ(out_.str(), R"({"node": "n-0", "role": "pserver-0", "unix_ms": 100, )"
                        R"("line": "READY pserver 0 ports 1-2"})"
                        "\n");
  ASSERT_EQ(run({"stop", "--json"}), 0);
  EXPECT_EQ(out_.str(), "{\"job\": \"job1\", \"stopped\": 0}\n");
  ASSERT_EQ(run({"teardown", "--json", "--yes", "--discard"}), 0);
  EXPECT_TRUE(out_.str().starts_with(R"([{"node": "n-0", "processes_ended": 2, )")) << out_.str();
}

TEST_F(CommandsTest, ANodeCannotWriteOutsideTheOutputFolder) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  nodes_[1].files["jobs/job1/output/../../../escaped"] = "x";
  EXPECT_EQ(run({"fetch"}), 6);
  EXPECT_TRUE(err_has("unsafe path"));
}

}  // namespace
}  // namespace paddle::cli

// Restarts of processes and jobs, and trainers that are programs of the user.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/text.h"
#include "proto/supervision.pb.h"
#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/small_disk.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

class CliRestart : public testing::Test {
 protected:
  void prepare_word2vec() {
    cluster.copy_template("word2vec");
    const Outcome prepared =
        cluster.prepare("word2vec", {"--minimum", "1"}, chained_sentences(300));
    ASSERT_EQ(prepared.code, 0) << prepared.output;
    const Outcome up = cluster.run({"up", "cluster.toml"});
    ASSERT_EQ(up.code, 0) << up.output;
  }
  void expect_clean_teardown() {
    const Outcome down = cluster.run({"teardown", "--yes", "--discard"});
    EXPECT_EQ(down.code, 0) << down.output;
    EXPECT_TRUE(cluster.nothing_left());
  }
  std::string result(const std::string& path) const {
    return TemporaryFolder::read(cluster.folder() / ("output/" + path));
  }
  // Compares all dense parameters and the first file of each table.
  void expect_same_snapshot(const std::string& a, const std::string& b) const {
    for (const char* file :
         {"_hidden.w0", "_hidden.wbias", "_output.w0", "_output.w0.state", "_proj.sparse-00000"}) {
      const std::string one = result(a + "/" + file);
      EXPECT_FALSE(one.empty() && std::string_view(file) == "_output.w0") << a << " " << file;
      EXPECT_TRUE(one == result(b + "/" + file)) << file;
    }
  }
  // Waits for the process, since a job that is being restarted has none for a moment.
  bool kill_engine(const std::string& argument) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      const int pid = cluster.find_engine(argument);
      if (pid > 0) return ::kill(pid, SIGKILL) == 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  // Waits until the job's status shows `state`; its passes would not tell that processes came back.
  bool comes_to(const std::string& state) {
    Outcome status;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < end) {
      status = cluster.run({"status"});
      if (status.says(state)) return true;
    }
    ADD_FAILURE() << "never " << state << ":\n" << status.output;
    return false;
  }

  LocalCluster cluster{2};
};

TEST_F(CliRestart, AJobWhoseProcessesWereKilledEndsWithTheSameBits) {
  prepare_word2vec();
  std::vector<std::string> arguments{"train",
                                     "--trainers",
                                     "2",
                                     "--pservers",
                                     "2",
                                     "--set",
                                     "train.passes=16",
                                     "--set",
                                     "train.batch_size=2",
                                     "--set",
                                     "train.log_period=20",
                                     "--name",
                                     "whole",
                                     "word2vec"};
  const Outcome whole = cluster.run(arguments);
  ASSERT_EQ(whole.code, 0) << whole.output;
  std::ranges::replace(arguments, "whole", "killed");
  arguments.insert(arguments.end(), std::initializer_list<std::string>{"--restarts", "3"});
  Process train = cluster.start(arguments);
  ASSERT_TRUE(train.prints("held-out cost ")) << train.output();
  const auto of_others = [&] {
    return std::vector{cluster.find_engine("--trainer_id=0"), cluster.find_engine("--pserver_id=0"),
                       cluster.find_engine("--pserver_id=1")};
  };
  const std::vector<int> before = of_others();
  ASSERT_TRUE(kill_engine("--trainer_id=1"));
  ASSERT_TRUE(comes_to("running (start 2)"));
  EXPECT_EQ(of_others(), before) << "a trainer comes back alone";
  const int trainer = cluster.find_engine("--trainer_id=1");
  ASSERT_TRUE(kill_engine("--pserver_id=0"));
  ASSERT_TRUE(comes_to("pserver-0  running (start 2)"));
  EXPECT_EQ(cluster.find_engine("--trainer_id=1"), trainer) << "and so does a pserver";
  // The command restarts a running process too.
  EXPECT_EQ(cluster.run({"restart", "trainer-0"}).code, 0);
  EXPECT_EQ(train.wait(), 0) << train.output();
  expect_same_snapshot("whole/pass-00015", "killed/pass-00015");
  for (const char* const line :
       {"trainer-1 on n-1 was killed by signal 9 (Killed); restarted (1 of 3)\n",
        "pserver-0 on n-0 was killed by signal 9 (Killed); restarted (1 of 3)\n"}) {
    EXPECT_NE(train.output().find(line), std::string::npos) << train.output();
  }
  const std::string page = result("killed/report.html");
  EXPECT_NE(page.find("killed by signal 9; restarted"), std::string::npos);
  const std::string log = result("killed/node_1/train.log");
  EXPECT_NE(log.find("paddlectl: killed by signal 9; it is started again"), std::string::npos);
  EXPECT_NE(log.find("continuing in pass "), std::string::npos) << log;
  expect_clean_teardown();
}

TEST_F(CliRestart, AJobWhoseSupervisorsWereKilledEndsWell) {
  prepare_word2vec();
  Process train = cluster.start({"train", "--trainers", "2", "--pservers", "2", "--restarts", "5",
                                 "--set", "train.passes=16", "--set", "train.batch_size=2",
                                 "--name", "job", "word2vec"});
  ASSERT_TRUE(train.prints("held-out cost ")) << train.output();
  for (const auto& [argument, name] :
       {std::pair("--trainer_id=1", "trainer-1"), std::pair("--pserver_id=0", "pserver-0")}) {
    const std::string stat =
        TemporaryFolder::read(fmt::format("/proc/{}/stat", cluster.find_engine(argument)));
    const int supervisor = std::atoi(stat.c_str() + stat.rfind(')') + 4);
    ASSERT_GT(supervisor, 1) << stat;
    ASSERT_EQ(::kill(supervisor, SIGKILL), 0);
    ASSERT_TRUE(comes_to(fmt::format("{}  running (start 2)", name)));
  }
  EXPECT_EQ(train.wait(), 0) << train.output();
  EXPECT_FALSE(result("job/pass-00015/MANIFEST").empty());
  EXPECT_NE(result("job/node_1/train.log").find("paddlectl: killed together with its supervisor"),
            std::string::npos);
  expect_clean_teardown();
}

// Its trainer waits to be started again just then, and the others cannot save without it.
TEST_F(CliRestart, AStopInTheMomentAfterAKillIsSaved) {
  prepare_word2vec();
  const std::pair<const char*, const char*> cases[] = {{"sync", "--trainer_id=1"},
                                                       {"async", "--trainer_id=0"},
                                                       {"geo", "--trainer_id=1"},
                                                       {"async", "--pserver_id=0"}};
  for (const auto& [strategy, victim] : cases) {
    const Outcome train =
        cluster.run({"train", "--trainers", "2", "--pservers", "1", "--detach", "--restarts", "5",
                     "--set", "train.passes=1000000", "--set", "train.batch_size=2", "--set",
                     fmt::format("strategy.dense={}", strategy), "--set",
                     fmt::format("strategy.sparse={}", strategy), "--name", "job", "word2vec"});
    ASSERT_EQ(train.code, 0) << train.output;
    ASSERT_TRUE(comes_to("/1000000"));
    ASSERT_TRUE(kill_engine(victim));
    const Outcome stop = cluster.run({"stop", "job"});
    EXPECT_EQ(stop.code, 0) << strategy << victim << stop.output;
    const Outcome attach = cluster.run({"attach", "job"});
    EXPECT_EQ(attach.code, 75) << strategy << victim << attach.output;
    EXPECT_TRUE(attach.says("resume with: ")) << attach.output;
    ASSERT_EQ(cluster.run({"rm", "--yes", "--discard", "job"}).code, 0);
    fs::remove_all(cluster.folder() / "output");
  }
  expect_clean_teardown();
}

TEST_F(CliRestart, AWholeJobIsRestartedFromWhereItWasAndARemovedOneIsGone) {
  prepare_word2vec();
  const Outcome train = cluster.run({"train", "--trainers", "2", "--pservers", "1", "--detach",
                                     "--set", "train.passes=1000000", "--name", "job", "--set",
                                     "train.saving_period=0", "word2vec"});
  ASSERT_EQ(train.code, 0) << train.output;
  EXPECT_EQ(cluster.run({"rm", "job"}).code, 2) << "it runs";
  EXPECT_EQ(cluster.run({"restart", "trainer-1"}).code, 2) << "it was started without --restarts";
  const Outcome restarted = cluster.run({"restart"});
  ASSERT_EQ(restarted.code, 0) << restarted.output;
  EXPECT_TRUE(restarted.says("job runs again, from its last snapshot if it has one"))
      << restarted.output;
  const Outcome status = cluster.run({"status"});
  EXPECT_TRUE(status.says("running (start 2)")) << status.output;
  EXPECT_EQ(cluster.run({"stop"}).code, 0);
  const Outcome logs = cluster.run({"logs", "--role", "trainer-1", "--grep", "continuing in pass"});
  EXPECT_TRUE(logs.says("after batch ")) << logs.output;
  EXPECT_TRUE(fs::exists(cluster.folder() / "nodes/t/n-0/jobs/job")) << "where a local node is";
  const Outcome removed = cluster.run({"rm", "job", "--yes", "--discard"});
  EXPECT_EQ(removed.code, 0) << removed.output;
  EXPECT_FALSE(fs::exists(cluster.folder() / "nodes/t/n-0/jobs/job"));
  EXPECT_EQ(cluster.run({"rm", "job"}).code, 2);
  expect_clean_teardown();
}

TEST_F(CliRestart, KeysGoWithTheLastProcessAndARestartOfAllDealsNewOnes) {
  prepare_word2vec();
  const Outcome train = cluster.run({"train", "--trainers", "2", "--pservers", "1", "--detach",
                                     "--set", "train.passes=1000000", "--name", "job", "word2vec"});
  ASSERT_EQ(train.code, 0) << train.output;
  const auto keys = [&](int node) {
    return fs::path(cluster.folder() / fmt::format("nodes/t/n-{}/jobs/job/keys", node));
  };
  // In memory, unless files there end with a login.
  const auto place = [&](int node) {
    return fs::is_symlink(keys(node)) ? fs::read_symlink(keys(node)) : keys(node);
  };
  const std::array<fs::path, 2> first{place(0), place(1)};
  for (const fs::path& folder : first) EXPECT_TRUE(fs::exists(folder)) << folder;
  // The others notice the end of a trainer that has joined.
  ASSERT_TRUE(comes_to("/1000000"));
  ASSERT_TRUE(kill_engine("--trainer_id=1"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while ((fs::exists(first[0]) || fs::exists(first[1])) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const int node : {0, 1}) {
    EXPECT_FALSE(fs::exists(first[static_cast<std::size_t>(node)])) << node;
    EXPECT_FALSE(fs::exists(fs::symlink_status(keys(node)))) << node;
  }
  const Outcome alone = cluster.run({"restart", "trainer-1"});
  EXPECT_EQ(alone.code, 2) << alone.output;
  EXPECT_TRUE(alone.says("the keys of trainer-1 were removed with the last process there"))
      << alone.output;
  const Outcome restarted = cluster.run({"restart"});
  ASSERT_EQ(restarted.code, 0) << restarted.output;
  const std::array<fs::path, 2> second{place(0), place(1)};
  for (const fs::path& folder : second) EXPECT_TRUE(fs::exists(folder)) << folder;
  ASSERT_TRUE(comes_to("running (start 2)"));
  expect_clean_teardown();
  for (const fs::path& folder : second) EXPECT_FALSE(fs::exists(folder)) << folder;
}

TEST_F(CliRestart, KeysAreInNoArgumentEnvironmentLogOrOtherFile) {
  prepare_word2vec();
  // With passes that take seconds, and all snapshots kept, so that none is removed while it is
  // fetched.
  const Outcome train =
      cluster.run({"train", "--trainers", "2", "--pservers", "1", "--detach", "--set",
                   "train.passes=1000000", "--set", "train.snapshots_kept=0", "--set",
                   R"(data.pipe_command=["sh","-c","sleep 1; cat"])", "--name", "job", "word2vec"});
  ASSERT_EQ(train.code, 0) << train.output;
  ASSERT_TRUE(comes_to("running"));
  std::vector<std::string> parts;  // of the keys: their last bytes, and how they would be shown
  for (const int node : {0, 1}) {
    const std::string folder = cluster.folder() / fmt::format("nodes/t/n-{}/jobs/job/keys", node);
    for (const auto& file : fs::directory_iterator(folder)) {
      const std::string key = TemporaryFolder::read(file.path());
      ASSERT_GE(key.size(), 32U) << file.path();
      parts.push_back(key.substr(key.size() - 16));
      parts.push_back(to_hex(as_bytes(parts.back())));
    }
  }
  ASSERT_GE(parts.size(), 6U) << "of three processes";
  const auto is_in = [&](const std::string& text) {
    return std::ranges::any_of(
        parts, [&](const std::string& part) { return text.find(part) != std::string::npos; });
  };
  ASSERT_EQ(cluster.run({"logs", "job"}).code, 0);
  const Outcome fetched = cluster.run({"fetch", "job"});
  ASSERT_EQ(fetched.code, 0) << fetched.output;
  int seen = 0;
  for (const int pid : cluster.processes()) {
    for (const char* const name : {"cmdline", "environ"}) {
      EXPECT_FALSE(is_in(TemporaryFolder::read(fmt::format("/proc/{}/{}", pid, name)))) << pid;
      ++seen;
    }
  }
  EXPECT_GE(seen, 6);
  // The job goes on meanwhile, and takes old copies away: its folders are listed one by one.
  std::vector<fs::path> folders{cluster.folder().path()};
  while (!folders.empty()) {
    const fs::path folder = folders.back();
    folders.pop_back();
    std::error_code gone;
    for (fs::directory_iterator entry(folder, gone), end; !gone && entry != end;
         entry.increment(gone)) {
      if (entry->is_directory(gone) && !entry->is_symlink(gone)) folders.push_back(entry->path());
      if (!entry->is_regular_file(gone) || folder.filename() == "keys") continue;
      EXPECT_FALSE(is_in(TemporaryFolder::read(entry->path()))) << entry->path();
      ++seen;
    }
  }
  EXPECT_GE(seen, 20);
  expect_clean_teardown();
}

// By which its supervisor knows whether training goes on.
TEST_F(CliRestart, APserverReportsHowManyBatchesItHasApplied) {
  prepare_word2vec();
  const Outcome train = cluster.run({"train", "--trainers", "2", "--pservers", "1", "--detach",
                                     "--set", "train.passes=1000000", "--name", "job", "word2vec"});
  ASSERT_EQ(train.code, 0) << train.output;
  const std::string file = cluster.folder() / "nodes/t/n-0/jobs/job/proc/pserver-0/notice";
  wire::Notice notice;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (notice.progress().updates() == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_TRUE(notice.ParseFromString(TemporaryFolder::read(file)));
  }
  EXPECT_GT(notice.progress().updates(), 0U);
  expect_clean_teardown();
}

TEST_F(CliRestart, WhoFollowsAJobStaysWithItOverARestart) {
  prepare_word2vec();
  Process train =
      cluster.start({"train", "--trainers", "2", "--pservers", "1", "--set", "train.passes=12",
                     "--set", "train.batch_size=2", "--name", "job", "word2vec"});
  ASSERT_TRUE(train.prints("held-out cost ")) << train.output();
  const Outcome restarted = cluster.run({"restart"});
  ASSERT_EQ(restarted.code, 0) << restarted.output;
  EXPECT_EQ(train.wait(), 0) << train.output();
  EXPECT_FALSE(result("job/pass-00011/MANIFEST").empty());
  expect_clean_teardown();
}

// The trainer connects to nothing, so its pserver ends with it.
// The folder of a job on the node of trainer 0 can only be read for a while. Memory is full from
// the start, so that the keys of the job are in this folder too.
class CliReadOnlyJob : public CliRestart {
 protected:
  void with_full_memory(const std::function<void()>& work) {
    const auto fill_and_work = [&] {
      fill("/dev/shm/full");
      work();
    };
    if (!on_small_disk("/dev/shm", "64k", fill_and_work))
      GTEST_SKIP() << "nothing can be mounted here";
  }
  Process start_job(const std::string& restarts) {
    return cluster.start({"train", "--trainers", "2", "--pservers", "1", "--restarts", restarts,
                          "--set", "train.passes=1000000", "--name", "job", "word2vec"});
  }
  bool make_read_only() const {
    return ::mount(folder().c_str(), folder().c_str(), nullptr, MS_BIND, nullptr) == 0 &&
           ::mount("none", folder().c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) ==
               0;
  }
  bool make_writable() const { return ::umount2(folder().c_str(), MNT_DETACH) == 0; }
  static bool comes_true(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    while (!condition() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return condition();
  }
  std::string folder() const { return cluster.folder() / "nodes/t/n-0/jobs/job"; }
  // The time since a record of trainer 0 on this disk was written.
  std::time_t seconds_since(const std::string& record) const {
    struct stat info {};
    const std::string path = folder() + "/proc/trainer-0/" + record;
    return ::stat(path.c_str(), &info) == 0 ? ::time(nullptr) - info.st_mtime : 0;
  }
};

TEST_F(CliReadOnlyJob, IsNotCalledHungAndGoesOn) {
  prepare_word2vec();
  with_full_memory([this] {
    Process job = start_job("5");
    ASSERT_TRUE(job.prints("held-out cost ")) << job.output();
    EXPECT_FALSE(fs::is_symlink(folder() + "/keys"));
    ASSERT_TRUE(make_read_only());
    // Twice as long as a process may give no sign of life.
    ASSERT_TRUE(comes_true([this] { return seconds_since("notice") > 6; }));
    const Outcome status = cluster.run({"status", "--job", "job"});
    EXPECT_EQ(status.code, 0) << status.output;
    EXPECT_FALSE(status.says("no sign of life")) << status.output;
    EXPECT_TRUE(comes_true([this] {
      return cluster.run({"logs", "--job", "job"}).says("Read-only file system");
    }));
    ASSERT_TRUE(make_writable());
    const Outcome stopped = cluster.run({"stop", "--job", "job"});
    EXPECT_EQ(stopped.code, 0) << stopped.output;
    EXPECT_EQ(job.wait(), 75) << job.output();
    expect_clean_teardown();
  });
}

TEST_F(CliReadOnlyJob, WithoutASnapshotEndsAndItsEndsAreNotLost) {
  prepare_word2vec();
  with_full_memory([this] {
    Process job = start_job("0");
    int trainer = 0;
    ASSERT_TRUE(comes_true([&] { return (trainer = cluster.find_engine("--trainer_id=0")) > 0; }));
    ASSERT_EQ(::kill(trainer, SIGSTOP), 0);
    ASSERT_TRUE(comes_true([this] { return fs::exists(folder() + "/proc/trainer-0/pid"); }));
    ASSERT_FALSE(fs::exists(folder() + "/output/pass-00000/MANIFEST"));
    ASSERT_TRUE(make_read_only());
    ASSERT_EQ(::kill(trainer, SIGCONT), 0);
    EXPECT_EQ(job.wait(), 7) << job.output();
    EXPECT_NE(job.output().find("Read-only file system"), std::string::npos) << job.output();
    const Outcome status = cluster.run({"status", "--job", "job"});
    EXPECT_TRUE(status.says("exited with code 7")) << status.output;
    EXPECT_FALSE(status.says("lost")) << status.output;
    ASSERT_TRUE(make_writable());
    expect_clean_teardown();
  });
}

TEST_F(CliRestart, ATrainerOfOnesOwnIsToldAllByItsEnvironment) {
  fs::create_directories(cluster.folder() / "own");
  cluster.folder().write("own/job.toml",
                         "[data]\ntrain = \"part-*\"\n[trainer]\n"
                         "command = [\"python3\", \"train.py\", \"two words\"]\n[train]\n"
                         "trainer_count = 3\n");
  for (const char* part : {"own/part-00000", "own/part-00001"}) cluster.folder().write(part, "1\n");
  cluster.folder().write("own/train.py",
                         "import glob, os, sys\n"
                         "print('arguments', sys.argv[1:], 'files', sorted(glob.glob('part-*')))\n"
                         "for name in sorted(os.environ):\n"
                         "    print(name + '=' + os.environ[name])\n");
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const Outcome plan = cluster.run({"plan", "--trainers", "2", "--pservers", "1", "own"});
  EXPECT_TRUE(plan.says("trainer-1     n-1                 python3 train.py")) << plan.output;
  EXPECT_EQ(cluster.run({"train", "--env", "a b=1", "own"}).code, 2);
  const Outcome train =
      cluster.run({"train", "--trainers", "2", "--pservers", "1", "--name", "job", "--env",
                   "MINE=a=b", "--env", "NCCL_SOCKET_IFNAME=mine", "own"});
  ASSERT_EQ(train.code, 0) << train.output;
  const std::string log = result("job/node_1/train.log");
  const int port = cluster.first_port();
  for (const std::string& line :
       {std::string("arguments ['two words'] files ['part-00001']"),
        std::string("PADDLE_INIT_TRAINER_ID=1"),
        std::string("PADDLE_INIT_PSERVERS=127.0.0.1"),
        fmt::format("PADDLE_INIT_PORT={}", port),
        std::string("PADDLE_INIT_PORTS_NUM=1"),
        std::string("PADDLE_INIT_PORTS_NUM_FOR_SPARSE=1"),
        std::string("PADDLE_INIT_NUM_GRADIENT_SERVERS=2"),
        std::string("PADDLE_INIT_TRAINER_COUNT=3"),
        std::string("PADDLE_INIT_USE_GPU=0"),
        std::string("TRAINING_ROLE=TRAINER"),
        std::string("PADDLE_TRAINER_ID=1"),
        std::string("PADDLE_TRAINERS_NUM=2"),
        fmt::format("PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:{}", port),
        fmt::format("PADDLE_TRAINER_ENDPOINTS=127.0.0.1:{},127.0.0.1:{}", port + 2, port + 3),
        fmt::format("PADDLE_CURRENT_ENDPOINT=127.0.0.1:{}", port + 3),
        std::string("MINE=a=b"),
        std::string("MASTER_ADDR=127.0.0.1"),
        fmt::format("MASTER_PORT={}", port + 4),
        std::string("RANK=1"),
        std::string("WORLD_SIZE=2"),
        std::string("LOCAL_RANK=0"),
        std::string("LOCAL_WORLD_SIZE=1"),
        std::string("PADDLE_RANK_IN_NODE=0"),
        std::string("NCCL_HOSTID=127.0.0.1"),
        std::string("NCCL_SOCKET_IFNAME=mine"),
        std::string("GLOO_SOCKET_IFNAME=lo")}) {
    EXPECT_NE(log.find(line + "\n"), std::string::npos) << line << "\n" << log;
  }
  expect_clean_teardown();
}

TEST_F(CliRestart, ATrainerOfOnesOwnMayStartTheEngine) {
  prepare_word2vec();
  std::vector<std::string> arguments{"train", "--trainers",     "2",      "--pservers", "2",
                                     "--set", "train.passes=1", "--name", "engine",     "word2vec"};
  ASSERT_EQ(cluster.run(arguments).code, 0);
  cluster.folder().write("word2vec/train.py",
                         "import os\n"
                         "program = os.environ['PADDLE_PROGRAM']\n"
                         "print('mine', flush=True)\n"
                         "os.execv(program, [program, 'train'])\n");
  std::ofstream(cluster.folder() / "word2vec/job.toml", std::ios::app)
      << "\n[trainer]\ncommand = [\"python3\", \"train.py\"]\n";
  std::ranges::replace(arguments, "engine", "own");
  const Outcome own = cluster.run(arguments);
  ASSERT_EQ(own.code, 0) << own.output;
  EXPECT_EQ(held_out_costs(own.output).size(), 1U) << own.output;
  EXPECT_TRUE(result("own/node_0/train.log").starts_with("mine\n"));
  expect_same_snapshot("engine/pass-00000", "own/pass-00000");
  expect_clean_teardown();
}

}  // namespace
}  // namespace paddle::test

// Nodes of a running job that are replaced or started again, as pods are. A pod is a process and a
// mount namespace with a volume of its own: an empty one, or a claim that the next pod of its name
// mounts too.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr int kPods = 3;
// Enough passes of small batches that a pod can be lost in the middle.
const std::vector<std::string> kSettings{
    "--set", "train.passes=16", "--set", "train.batch_size=2", "--set", "train.log_period=20"};

class LostPods : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "process and mount namespaces need root";
    for (const char* const program : {"/usr/bin/unshare", "/usr/bin/nsenter"})
      if (!fs::exists(program)) GTEST_SKIP() << "not installed: " << program;
    fs::create_directories(volume());
    cluster.folder().write("launch", fmt::format(R"(#!/bin/sh
name=$1
shift
pid=$(cat {0}/$name.pid 2>/dev/null) || {{ echo "pods $name not found" >&2; exit 1; }}
exec /usr/bin/nsenter -t $pid -m -p -- "$@"
)",
                                                 cluster.folder().path()));
    fs::permissions(cluster.folder() / "launch", fs::perms::owner_all);
    cluster.copy_template("word2vec");
    ASSERT_EQ(cluster.prepare("word2vec", {"--minimum", "1"}, chained_sentences(300)).code, 0);
    write_cluster({});
    for (int pod = 0; pod < kPods; ++pod) start_pod(pod);
    ASSERT_TRUE(HasFailure() || up()) << "prepare the pods";
  }
  void TearDown() override {
    for (int pod = 0; pod < kPods; ++pod) kill_pod(pod);
  }

  std::string volume() const { return cluster.folder() / "volume"; }
  static std::string name(int pod) { return fmt::format("pod-{}", pod); }
  std::string pid_file(int pod) const { return cluster.folder() / (name(pod) + ".pid"); }

  // roles: by pod; all without an entry.
  void write_cluster(const std::map<int, std::string>& roles) {
    std::string text = fmt::format("name = \"t\"\nworkdir = \"{}/w\"\nport = {}\n", volume(),
                                   cluster.first_port());
    for (int pod = 0; pod < kPods; ++pod) {
      text += fmt::format(
          "[[node]]\nname = \"{0}\"\naddress = \"127.0.1.{1}\"\nlauncher = [\"{2}\", \"{0}\"]\n",
          name(pod), pod + 1, cluster.folder() / "launch");
      if (const auto role = roles.find(pod); role != roles.end())
        text += fmt::format("roles = [\"{}\"]\n", role->second);
    }
    cluster.folder().write("cluster.toml", text);
  }
  bool up() { return cluster.run({"up", "cluster.toml"}).code == 0; }

  // A pod with an empty volume, or with a claim.
  void start_pod(int pod) {
    const std::string claim = cluster.folder() / (name(pod) + ".claim");
    const std::string ready = cluster.folder() / (name(pod) + ".ready");
    if (has_claims_) fs::create_directories(claim);
    fs::remove(ready);
    const std::string mounted = has_claims_
                                    ? fmt::format("mount --bind {} {}", claim, volume())
                                    : fmt::format("mount -t tmpfs -o mode=0755 t {}", volume());
    pods_.erase(pod);
    const auto added = pods_.emplace(
        pod,
        std::make_unique<Process>(
            std::vector<std::string>{"/usr/bin/unshare", "--mount", "--pid", "--fork",
                                     "--kill-child", "--mount-proc", "/bin/sh", "-c",
                                     fmt::format("{} && mount -t tmpfs t /dev/shm && : > {} && "
                                                 "while :; do sleep 1000 & wait; done",
                                                 mounted, ready)},
            cluster.folder() / "pods.txt",
            std::vector<std::string>{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}));
    const int unshare = added.first->second->pid();
    for (int tries = 0; tries < 1000 && !fs::exists(ready); ++tries) ::poll(nullptr, 0, 10);
    std::string child = TemporaryFolder::read(fmt::format("/proc/{0}/task/{0}/children", unshare));
    ASSERT_FALSE(child.empty()) << TemporaryFolder::read(cluster.folder() / "pods.txt");
    child.resize(child.find(' '));
    cluster.folder().write(name(pod) + ".pid", child);
  }
  // All its processes end with its first one.
  void kill_pod(int pod) {
    const auto found = pods_.find(pod);
    if (found == pods_.end()) return;
    const std::string pid = TemporaryFolder::read(pid_file(pod));
    fs::remove(pid_file(pod));
    if (!pid.empty()) ::kill(std::stoi(pid), SIGKILL);
    found->second->wait();
    pods_.erase(found);
  }
  void replace_pod(int pod) {
    kill_pod(pod);
    start_pod(pod);
  }

  std::vector<std::string> arguments(const std::string& job,
                                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"train", "--trainers", "3", "--pservers", "2", "--name", job};
    all.insert(all.end(), kSettings.begin(), kSettings.end());
    all.insert(all.end(), more.begin(), more.end());
    all.emplace_back("word2vec");
    return all;
  }
  void expect_bits_of(const std::string& whole, const std::string& job) const {
    for (const char* file :
         {"_hidden.w0", "_hidden.wbias", "_output.w0", "_output.w0.state", "_proj.sparse-00000"}) {
      const auto read = [&](const std::string& of) {
        return TemporaryFolder::read(cluster.folder() /
                                     fmt::format("output/{}/pass-00015/{}", of, file));
      };
      EXPECT_FALSE(read(whole).empty()) << file;
      EXPECT_TRUE(read(whole) == read(job)) << job << " " << file;
    }
  }
  static std::size_t count_of(const std::string& text, const std::string& word) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++count;
    return count;
  }

  LocalCluster cluster{kPods};
  bool has_claims_ = false;
  std::map<int, std::unique_ptr<Process>> pods_;
};

TEST_F(LostPods, AReplacedPodIsTheFirstCauseAndNamedAsSuch) {
  for (const bool is_prepared : {false, true}) {
    const std::string job = is_prepared ? "prepared" : "empty";
    Process train = cluster.start(arguments(job));
    ASSERT_TRUE(train.prints("held-out cost ")) << train.output();
    // Another terminal may be quicker than the one that follows the job.
    if (is_prepared) train.signal(SIGSTOP);
    replace_pod(1);
    EXPECT_TRUE(!is_prepared || up());
    train.signal(SIGCONT);
    EXPECT_EQ(train.wait(), 1) << train.output();
    const std::string cause = fmt::format(
        "node pod-1 was replaced: its folder is {} (another machine, container or pod under its "
        "name); pserver-1, trainer-1 of {} ran there",
        is_prepared ? "new" : "gone", job);
    EXPECT_NE(train.output().find("error: " + cause + "\n"), std::string::npos) << train.output();
    EXPECT_NE(train.output().find("paddlectl train --resume --name " + job), std::string::npos);
    EXPECT_EQ(train.output().find("teardown"), std::string::npos) << train.output();
    const Outcome status = cluster.run({"status", "--job", job});
    EXPECT_TRUE(status.says(cause)) << status.output;
    EXPECT_FALSE(status.says("never started")) << status.output;
    EXPECT_FALSE(status.says("incomplete")) << status.output;
  }
}

// No node has anything of the job, as after a teardown.
TEST_F(LostPods, ReplacementsOfAllPodsAreNoTeardown) {
  Process train = cluster.start(arguments("job"));
  ASSERT_TRUE(train.prints("held-out cost ")) << train.output();
  for (int pod = 0; pod < kPods; ++pod) kill_pod(pod);
  for (int pod = 0; pod < kPods; ++pod) start_pod(pod);
  EXPECT_EQ(train.wait(), 1) << train.output();
  EXPECT_EQ(train.output().find("teardown"), std::string::npos) << train.output();
  for (int pod = 0; pod < kPods; ++pod)
    EXPECT_NE(train.output().find(fmt::format("node {} was replaced", name(pod))),
              std::string::npos)
        << train.output();
}

TEST_F(LostPods, ARestartedPodIsTheFirstCause) {
  has_claims_ = true;
  for (int pod = 0; pod < kPods; ++pod) replace_pod(pod);
  ASSERT_TRUE(up());
  Process train = cluster.start(arguments("job"));
  ASSERT_TRUE(train.prints("held-out cost ")) << train.output();
  replace_pod(1);
  EXPECT_EQ(train.wait(), 1) << train.output();
  EXPECT_NE(train.output().find("error: node pod-1 was restarted (another start of its machine, "
                                "container or pod)\n"),
            std::string::npos)
      << train.output();
}

TEST_F(LostPods, UnderRestartsTheJobGoesOnWithTheSameBitsWhateverRanThere) {
  const Outcome whole = cluster.run(arguments("whole"));
  ASSERT_EQ(whole.code, 0) << whole.output;
  struct Loss {
    std::string job;
    int pod;
    bool has_claim;
  };
  // Trainers are on all pods, pservers on the first two.
  for (const Loss& loss : {Loss{"both", 1, false}, Loss{"trainer", 2, false},
                           Loss{"first", 0, false}, Loss{"claimed", 1, true}}) {
    has_claims_ = loss.has_claim;
    if (loss.has_claim) {
      for (int pod = 0; pod < kPods; ++pod) replace_pod(pod);
      ASSERT_TRUE(up());
    }
    Process train = cluster.start(arguments(loss.job, {"--restarts", "2"}));
    ASSERT_TRUE(train.prints("pass 2 of")) << train.output();
    replace_pod(loss.pod);
    EXPECT_EQ(train.wait(), 0) << train.output();
    EXPECT_NE(train.output().find(fmt::format("{} is started again on all its nodes once {} is "
                                              "ready (restart 1 of 2)\n",
                                              loss.job, name(loss.pod))),
              std::string::npos)
        << train.output();
    EXPECT_EQ(train.output().find("\\x0a"), std::string::npos) << train.output();
    // The only snapshots were on the first pod.
    EXPECT_EQ(train.output().find("it begins again with its first pass") != std::string::npos,
              loss.pod == 0)
        << train.output();
    expect_bits_of("whole", loss.job);
  }
}

TEST_F(LostPods, APodOfPserversAloneComesBackTwice) {
  write_cluster({{0, "trainer"}, {1, "pserver"}, {2, "trainer"}});
  const auto of = [&](const std::string& job, const std::vector<std::string>& more) {
    std::vector<std::string> all{"train", "--trainers", "2", "--pservers", "1", "--name", job};
    all.insert(all.end(), kSettings.begin(), kSettings.end());
    all.insert(all.end(), more.begin(), more.end());
    all.emplace_back("word2vec");
    return all;
  };
  const Outcome whole = cluster.run(of("whole", {}));
  ASSERT_EQ(whole.code, 0) << whole.output;
  Process train = cluster.start(of("twice", {"--restarts", "2"}));
  ASSERT_TRUE(train.prints("pass 2 of")) << train.output();
  replace_pod(1);
  ASSERT_TRUE(train.prints("continuing after pass ")) << train.output();
  ASSERT_TRUE(train.prints("pass 7 of")) << train.output();
  replace_pod(1);
  EXPECT_EQ(train.wait(), 0) << train.output();
  EXPECT_EQ(count_of(train.output(), "is started again on all its nodes"), 2U) << train.output();
  expect_bits_of("whole", "twice");
}

TEST_F(LostPods, MoreLossesThanRestartsEndTheJob) {
  Process train =
      cluster.start(arguments("job", {"--restarts", "1", "--set", "train.passes=100000"}));
  ASSERT_TRUE(train.prints("pass 2 of")) << train.output();
  replace_pod(1);
  ASSERT_TRUE(train.prints("continuing after pass ")) << train.output();
  ASSERT_TRUE(train.prints("pass 6 of")) << train.output();
  replace_pod(2);
  EXPECT_EQ(train.wait(), 1) << train.output();
  EXPECT_NE(train.output().find("error: node pod-2 was replaced: "), std::string::npos)
      << train.output();
}

// Only `attach` follows the job, and takes all options from the job's nodes.
TEST_F(LostPods, AttachStartsAJobAgainToo) {
  Process train = cluster.start(arguments("job", {"--restarts", "2"}));
  ASSERT_TRUE(train.prints("pass 2 of")) << train.output();
  train.signal(SIGKILL);
  Process attach = cluster.start({"attach", "--job", "job"});
  ASSERT_TRUE(attach.prints("Ctrl-C leaves job running")) << attach.output();
  replace_pod(1);
  EXPECT_EQ(attach.wait(), 0) << attach.output();
  EXPECT_NE(attach.output().find("(restart 1 of 2)"), std::string::npos) << attach.output();
  EXPECT_NE(attach.output().find("done: "), std::string::npos) << attach.output();
}

// A teardown at another terminal removes folders too, and no machine is another one after it.
TEST_F(LostPods, ATeardownIsNoLossUnderRestarts) {
  Process train =
      cluster.start(arguments("job", {"--restarts", "2", "--set", "train.passes=100000"}));
  ASSERT_TRUE(train.prints("held-out cost ")) << train.output();
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_EQ(train.wait(), 130) << train.output();
  EXPECT_EQ(train.output().find("is started again"), std::string::npos) << train.output();
}

}  // namespace
}  // namespace paddle::test

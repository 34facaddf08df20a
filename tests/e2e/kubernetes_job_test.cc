// The manifest of `paddlectl render kubernetes`, applied by real kubectl to the stand-in for a
// cluster: what is on the volume afterwards, and what faults do to the job.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/e2e/local_training_job.h"
#include "tests/e2e/tables_program.h"
#include "tests/support/free_ports.h"
#include "tests/support/kubernetes_standin.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJob = "paddle-cluster-job";
constexpr uid_t kUser = 1000;

class KubernetesJob : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = KubernetesStandin::obstacle(); !why.empty()) GTEST_SKIP() << why;
    cluster_ = std::make_unique<KubernetesStandin>();
    volume_ = cluster_->state() + "/nfs/efs.lab";
    fs::create_directories(volume_);
    give(volume_);
    job_.folder().write("lab.toml",
                        "ports_num = 2\nports_num_for_sparse = 2\n[[node]]\nhost = \"h\"\n");
  }
  // The pods' user owns the file or folder.
  static void give(const fs::path& path) {
    ASSERT_EQ(::lchown(path.c_str(), kUser, kUser), 0) << path;
  }
  // The workspace and the engine on the volume.
  void load_volume(const std::vector<std::string>& names = {"data", "words.txt", "job.toml"}) {
    for (const std::string& name : names)
      fs::copy(job_.folder() / name, fs::path(volume_) / name, fs::copy_options::recursive);
    fs::create_directories(volume_ + "/bin");
    fs::copy_file(PADDLE_PROGRAM, volume_ + "/bin/paddle");
    for (const auto& entry : fs::recursive_directory_iterator(volume_)) give(entry.path());
  }
  // The manifest of three pods with 2 + 2 ports.
  std::string render(const std::vector<std::string>& more) {
    std::vector<std::string> command{PADDLECTL_PROGRAM,
                                     "render",
                                     "kubernetes",
                                     job_.folder().path(),
                                     "--trainers=3",
                                     "--pservers=3",
                                     "--cluster=" + (job_.folder() / "lab.toml"),
                                     "--nfs=efs.lab:/",
                                     fmt::format("--name={}", kJob)};
    command.insert(command.end(), more.begin(), more.end());
    const auto [code, text] = cluster_->run(command);
    EXPECT_EQ(code, 0) << text;
    return text;
  }
  void expect_complete() {
    cluster_->must(
        {"wait", "--for=condition=complete", fmt::format("job/{}", kJob), "--timeout=100s"});
  }
  std::string output(const std::string& path) const {
    return fmt::format("{}/output/{}/{}", volume_, kJob, path);
  }
  // The parameters of a snapshot on the volume, by file.
  std::map<std::string, std::string> values(int pass) const {
    std::map<std::string, std::string> found;
    const std::string folder = output(fmt::format("pass-{:05}", pass));
    if (!fs::exists(folder)) return found;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename();
      if (name.starts_with('_')) found[name] = TemporaryFolder::read(entry.path());
    }
    return found;
  }
  // The same of a job of the same shape on this machine.
  std::map<std::string, std::string> values_here(const std::vector<std::string>& flags, int pass) {
    const Shape shape{.trainers = 3, .pservers = 3, .ports_num = 2, .ports_num_for_sparse = 2};
    EXPECT_TRUE(job_.run("here", shape, flags)) << job_.output("here", 0);
    std::map<std::string, std::string> found = job_.values("here", pass);
    std::erase_if(found, [](const auto& file) { return !file.first.starts_with('_'); });
    return found;
  }
  static bool comes(const std::function<bool()>& is_so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
  // Waits until the volume has a snapshot of this pass or a later one.
  bool has_trained(int pass) const {
    return comes([&] {
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(output(""), none)) {
        const std::string name = entry.path().filename();
        if (name >= fmt::format("pass-{:05}", pass) && fs::exists(entry.path() / "MANIFEST"))
          return true;
      }
      return false;
    });
  }
  std::string pod(int index) const {
    std::istringstream names(
        cluster_->must({"get", "pods", "-l", fmt::format("job-name={}", kJob), "--field-selector",
                        "status.phase=Running", "-o",
                        "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}"}));
    for (std::string name; std::getline(names, name);)
      if (name.starts_with(fmt::format("{}-{}-", kJob, index))) return name;
    ADD_FAILURE() << "no pod " << index;
    return "";
  }
  std::string log(int node, const std::string& role) const {
    return TemporaryFolder::read(output(fmt::format("node_{}/{}.log", node, role)));
  }

  Job job_;
  std::unique_ptr<KubernetesStandin> cluster_;
  std::string volume_;
};

// Enough passes for a fault in their midst.
const std::vector<std::string> kManyPasses{"--set=train.passes=60", "--set=train.log_period=1000"};

TEST_F(KubernetesJob, ApplyAloneTrainsAndLeavesTheTreeOfDocument004) {
  job_.write_ngram(3, 60);
  load_volume();
  const std::vector<std::string> flags{"--set=train.passes=3", "--set=train.snapshots_kept=9"};
  cluster_->folder().write("job.yaml", render(flags));
  const auto [code, text] =
      cluster_->run({"/bin/sh", "-c", "kubectl apply -f - < " + (cluster_->folder() / "job.yaml")});
  ASSERT_EQ(code, 0) << text;
  expect_complete();
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(log(i, "server").find(fmt::format("READY pserver {} ports 7164-7167", i)),
              std::string::npos);
    EXPECT_NE(log(i, "train").find(fmt::format("trainer {} of 3", i)), std::string::npos);
    EXPECT_TRUE(fs::exists(output(fmt::format("node_{}/metrics.jsonl", i))));
    for (const char* const file : {"MANIFEST", "done", "path.txt", "job.toml"})
      EXPECT_TRUE(fs::exists(output(fmt::format("pass-{:05}/{}", i, file)))) << file;
  }
  // The same lines are in kubectl's log, and no key is on the volume.
  EXPECT_NE(cluster_->must({"logs", fmt::format("job/{}", kJob)}).find("READY pserver"),
            std::string::npos);
  EXPECT_FALSE(values(2).empty());
  EXPECT_TRUE(values(2) == values_here(flags, 2));
  for (const auto& entry : fs::recursive_directory_iterator(volume_))
    EXPECT_NE(entry.path().filename(), "job.key") << entry.path();

  const auto [fetched, report] =
      cluster_->run({PADDLECTL_PROGRAM, "fetch", "--from=" + volume_,
                     "--output=" + (cluster_->folder() / "here"), "--pass=all"});
  EXPECT_EQ(fetched, 0) << report;
  const fs::path here = fs::path(cluster_->folder() / "here") / kJob;
  for (const char* const file : {"report.html", "tensorboard", "node_1/train.log",
                                 "node_2/server.log", "pass-00000/MANIFEST"})
    EXPECT_TRUE(fs::exists(here / file)) << file;

  cluster_->must({"delete", "-f", cluster_->folder() / "job.yaml", "--timeout=60s"});
  EXPECT_EQ(cluster_->must({"get", "pods,jobs,services,secrets,pvc,pv", "-o", "name"}), "");
  EXPECT_TRUE(fs::exists(output("pass-00002/MANIFEST"))) << "the files stay";
}

TEST_F(KubernetesJob, AProgramOfTheUsersOwnReachesItsTables) {
  write_tables_program(job_.folder());
  load_volume({"paddlectl", "tables.py", "job.toml"});
  cluster_->apply(render({"--set=optimizer.learning_rate=0.5"}));
  expect_complete();
  EXPECT_NE(log(2, "train").find("user 3 is -1.5"), std::string::npos) << log(2, "train");
  EXPECT_TRUE(fs::exists(output("pass-00000/MANIFEST")));
}

TEST_F(KubernetesJob, AnEvictedPodIsMadeAnewAndTheJobEndsWithTheSameBits) {
  job_.write_ngram(3, 400);
  load_volume();
  cluster_->apply(render(kManyPasses));
  ASSERT_TRUE(has_trained(5));
  const std::string victim = pod(1);
  cluster_->fault("evict", fmt::format(R"({{"pod": "{}"}})", victim));
  expect_complete();
  EXPECT_NE(log(0, "train").find("paddlectl: start 2"), std::string::npos) << "it was in the midst";
  EXPECT_NE(log(0, "train").find("Loading parameters from"), std::string::npos);
  EXPECT_NE(log(1, "train").find("paddlectl: start 2"), std::string::npos);
  EXPECT_TRUE(values(59) == values_here(kManyPasses, 59));
}

TEST_F(KubernetesJob, AFailedOrDeletedJobContinuesWhenItIsAppliedAgain) {
  job_.write_ngram(3, 400);
  load_volume();
  const std::string manifest = render(kManyPasses);
  cluster_->apply(manifest);
  ASSERT_TRUE(has_trained(3));
  cluster_->fault("kill", fmt::format(R"({{"pod": "{}"}})", pod(2)));
  cluster_->must({"wait", "--for=condition=failed", fmt::format("job/{}", kJob), "--timeout=60s"});
  for (int i = 0; i < 3; ++i) {  // those of the pods that the Job removes too
    EXPECT_NE(log(i, "server").find("READY pserver"), std::string::npos) << i;
    EXPECT_NE(log(i, "train").find(fmt::format("trainer {} of 3", i)), std::string::npos) << i;
  }
  EXPECT_FALSE(fs::exists(output("pass-0059"))) << "it failed in the midst";

  const auto apply_again = [&] {
    cluster_->must({"delete", "job", kJob, "--timeout=60s"});
    cluster_->apply(manifest);
  };
  apply_again();
  ASSERT_TRUE(comes([&] {
    return log(0, "train").find("Loading parameters from") != std::string::npos &&
           !cluster_->kubectl({"get", "pods"}).second.empty();
  }));
  ASSERT_TRUE(has_trained(20));
  apply_again();  // deleted while it trains: all pods save, and end with 75
  expect_complete();
  EXPECT_NE(log(0, "train").find("stopped on request"), std::string::npos) << log(0, "train");
  EXPECT_TRUE(values(59) == values_here(kManyPasses, 59));
}

TEST_F(KubernetesJob, AnEmptyVolumeIsFilledByTheCommandsOfTheManifestAndADataJob) {
  job_.write_ngram(1, 60);
  fs::rename(job_.folder() / "data", job_.folder() / "raw");
  job_.folder().write("prepare",
                      "#!/bin/sh\nset -eu\nmkdir -p data\ncp raw/* data/\nrm data/*-0*\n"
                      "split -d -a 5 -n r/$SPLIT_COUNT raw/*-00000 data/train.txt-\n");
  fs::permissions(job_.folder() / "prepare", fs::perms::all);
  const std::string manifest = render({"--prepare", "--set=train.passes=2"});
  cluster_->apply(manifest);
  std::string commands = "set -e\n";
  std::istringstream lines(manifest);
  for (std::string line; std::getline(lines, line) && line.starts_with('#');) {
    if (line.starts_with("#   ") && line.find("kubectl apply") == line.npos &&
        line.find("kubectl delete") == line.npos && line.find("kubectl logs") == line.npos)
      commands += line.substr(1) + "\n";
  }
  const auto [code, text] = cluster_->run({"/bin/sh", "-c", commands});
  ASSERT_EQ(code, 0) << commands << text;
  expect_complete();
  cluster_->must({"get", fmt::format("job/{}-data", kJob)});
  EXPECT_EQ(TemporaryFolder::read(volume_ + "/.prepared"), "3\n");
  EXPECT_TRUE(fs::exists(volume_ + "/data/train.txt-00002"));
  EXPECT_FALSE(values(1).empty());
}

}  // namespace
}  // namespace paddle::test

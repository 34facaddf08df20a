// Pods as the nodes of a cluster: real kubectl and pods of the stand-in for Kubernetes. `up` makes
// them, every command works on them, and `teardown` leaves nothing.
#include <chrono>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/kubernetes_standin.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr auto kCommandDeadline = std::chrono::seconds(150);

class KubernetesProvider : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = KubernetesStandin::obstacle();
    if (!why.empty()) GTEST_SKIP() << why;
    kubernetes_ = std::make_unique<KubernetesStandin>();
  }

  // Writes pods.toml with these further keys of [provider].
  void write_cluster(const std::string& keys, int nodes = 3) {
    folder_.write("pods.toml", fmt::format("name = \"pods\"\n[provider]\nkind = \"kubernetes\"\n"
                                           "nodes = {}\ntimeout = {}\n{}",
                                           nodes, timeout_s_, keys));
  }
  std::vector<std::string> environment() const {
    std::vector<std::string> variables = kubernetes_->environment();
    variables[0].insert(5, path_ + fs::path(PADDLECTL_PROGRAM).parent_path().string() + ":");
    return variables;
  }
  Process start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "-C", folder_.path(), PADDLECTL_PROGRAM});
    return Process(std::move(arguments), folder_ / fmt::format("run-{}.txt", runs_++),
                   environment());
  }
  Outcome run(const std::vector<std::string>& arguments) {
    Process process = start(arguments);
    const int code = process.wait(kCommandDeadline).value_or(-1);
    return {code, process.output()};
  }
  // From now on, kubectl is a script that writes its arguments to `kubectl-arguments` first.
  void record_arguments_of_kubectl() {
    const std::string script = folder_.write(
        "bin/kubectl", fmt::format("#!/bin/sh\nprintf '%s\\n' \"$*\" >> {}\nPATH=${{PATH#*:}}\n"
                                   "exec kubectl \"$@\"\n",
                                   folder_ / "kubectl-arguments"));
    fs::permissions(script, fs::perms::owner_all);
    path_ = folder_ / "bin" + ":";
  }
  void expect_nothing_left() const {
    EXPECT_EQ(kubernetes_->must({"get", "all,pvc,pv", "-o", "name"}), "");
  }

  TemporaryFolder folder_;
  std::unique_ptr<KubernetesStandin> kubernetes_;
  std::string path_;     // in front of PATH
  int timeout_s_ = 100;  // of [provider]; short where something is waited for in vain
  int runs_ = 0;
};

// The files below the folder that contain the text.
std::vector<std::string> files_with(const std::string& folder, const std::string& text) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    if (TemporaryFolder::read(entry.path()).find(text) != std::string::npos)
      found.push_back(entry.path());
  }
  return found;
}

// The text of every file of a snapshot that holds values.
std::string values_of(const std::string& snapshot) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(snapshot)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('_')) files[name] = TemporaryFolder::read(entry.path());
  }
  EXPECT_GT(files.size(), 2U) << snapshot;
  std::string all;
  for (const auto& [name, text] : files) all += name + "\n" + text;
  return all;
}

TEST_F(KubernetesProvider, TrainsTheBitsOfALocalClusterAndLeavesNothing) {
  LocalCluster local(4);
  local.copy_template("word2vec");
  ASSERT_EQ(local.prepare("word2vec", {"--minimum", "0"}, chained_sentences(400)).code, 0);
  const std::vector<std::string> train{"train",      "--name", "words", "--trainers",    "4",
                                       "--pservers", "2",      "--set", "train.passes=2"};
  std::vector<std::string> here = train;
  here.insert(here.end(), {"word2vec"});
  const Outcome up_here = local.run({"up", "cluster.toml"});
  ASSERT_EQ(up_here.code, 0) << up_here.output;
  const Outcome trained_here = local.run(here);
  ASSERT_EQ(trained_here.code, 0) << trained_here.output;

  write_cluster("cpu = \"1\"\nmemory = \"1Gi\"\n");
  record_arguments_of_kubectl();
  fs::copy(local.folder() / "word2vec", folder_ / "word2vec", fs::copy_options::recursive);
  const Outcome up = run({"up", "pods.toml"});
  ASSERT_EQ(up.code, 0) << up.output;
  EXPECT_TRUE(up.says("3 nodes ready")) << up.output;
  const Outcome trained = run(here);
  ASSERT_EQ(trained.code, 0) << trained.output;
  const Outcome logs = run({"logs", "words"});
  EXPECT_TRUE(logs.code == 0 && logs.says("pods-1/pserver-1 | ")) << logs.output;
  const Outcome taken = run({"teardown", "--yes"});
  EXPECT_EQ(taken.code, 0) << taken.output;
  expect_nothing_left();
  EXPECT_EQ(values_of(folder_ / "output/words/pass-00001"),
            values_of(local.folder() / "output/words/pass-00001"));

  // The login is known to kubectl alone.
  const std::string login = TemporaryFolder::read(kubernetes_->kubeconfig());
  const std::size_t token = login.find("token: ");
  ASSERT_NE(token, std::string::npos);
  const std::string secret = login.substr(token + 7, login.find('\n', token) - token - 7);
  ASSERT_GT(secret.size(), 16U);
  EXPECT_EQ(files_with(folder_.path(), secret), std::vector<std::string>{});
  EXPECT_EQ(files_with(kubernetes_->folder() / ".local", secret), std::vector<std::string>{});
  EXPECT_NE(TemporaryFolder::read(folder_ / "kubectl-arguments").find("exec -i pods-2"),
            std::string::npos);
}

TEST_F(KubernetesProvider, UpKeepsWhatIsThereAndAddsWhatIsMissing) {
  write_cluster("", 1);
  ASSERT_EQ(run({"up", "pods.toml"}).code, 0);
  const auto id = [&](const std::string& pod) {
    return kubernetes_->must(
        {"get", "pod", pod, "-o", "jsonpath={.metadata.uid} {.metadata.labels.paddlectl-id}"});
  };
  const std::string first = id("pods-0");
  write_cluster("", 2);
  const Outcome more = run({"up", "pods.toml"});
  EXPECT_TRUE(more.code == 0 && more.says("2 nodes ready")) << more.output;
  EXPECT_EQ(id("pods-0"), first);
  EXPECT_EQ(id("pods-1").substr(id("pods-1").find(' ')), first.substr(first.find(' ')));
  write_cluster("", 1);
  const Outcome fewer = run({"up", "pods.toml"});
  EXPECT_EQ(fewer.code, 2);
  EXPECT_TRUE(fewer.says("the cluster has 2 nodes; up takes none away")) << fewer.output;
  // From another folder with the same file, as on another machine.
  folder_.make("elsewhere");
  const Outcome taken = run({"teardown", "--cluster", "elsewhere/../pods.toml", "--yes"});
  EXPECT_EQ(taken.code, 0) << taken.output;
  expect_nothing_left();
}

TEST_F(KubernetesProvider, ObjectsOfOthersStay) {
  const std::string foreign = R"(
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: pods, labels: {app: theirs}}
spec:
  serviceName: pods
  replicas: 1
  selector: {matchLabels: {app: theirs}}
  template:
    metadata: {labels: {app: theirs}}
    spec:
      containers: [{name: node, image: "debian:12-slim", command: [sleep, "1000"]}]
)";
  kubernetes_->apply(foreign);
  write_cluster("", 1);
  const Outcome up = run({"up", "pods.toml"});
  EXPECT_EQ(up.code, 2);
  EXPECT_TRUE(up.says("StatefulSet pods is there already and is not paddlectl's")) << up.output;
  EXPECT_TRUE(up.says("give the cluster another name")) << up.output;
  const Outcome taken = run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(taken.code, 0) << taken.output;
  EXPECT_EQ(kubernetes_->must({"get", "statefulset", "-o", "name"}), "statefulset.apps/pods\n");
}

// A pod that is evicted, and one whose container runs out of memory, while a job trains.
TEST_F(KubernetesProvider, APodThatIsTakenAwayIsNamedWithItsReasonAndReplaced) {
  LocalCluster local(3);
  local.copy_template("digits");
  ASSERT_EQ(kubernetes_->run({local.folder() / "digits/prepare", "--shards", "3"}).first, 0);
  const std::vector<std::string> train{"train",      "--name", "d",     "--trainers",     "3",
                                       "--pservers", "2",      "--set", "train.passes=80"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = train;
    all.insert(all.end(), more);
    return all;
  };
  ASSERT_EQ(local.run({"up", "cluster.toml"}).code, 0);
  const Outcome undisturbed = local.run(with({"digits"}));
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.output;
  fs::copy(local.folder() / "digits", folder_ / "digits", fs::copy_options::recursive);

  write_cluster("");
  ASSERT_EQ(run({"up", "pods.toml"}).code, 0);
  Process trained = start(with({"--restarts", "3", "digits"}));
  ASSERT_TRUE(trained.prints("pass 4 of 80")) << trained.output();
  kubernetes_->fault("evict", R"({"pod": "pods-1", "message": "The node was low on memory."})");
  ASSERT_TRUE(trained.prints("Evicted: The node was low on memory.")) << trained.output();
  EXPECT_EQ(trained.wait(kCommandDeadline), 0) << trained.output();
  EXPECT_EQ(values_of(folder_ / "output/d/pass-00079"),
            values_of(local.folder() / "output/d/pass-00079"));

  ASSERT_EQ(run({"rm", "d", "--yes", "--discard"}).code, 0);
  fs::remove_all(folder_ / "output");
  Process ended = start(with({"digits"}));
  ASSERT_TRUE(ended.prints("pass 4 of 80")) << ended.output();
  kubernetes_->fault("kill", R"({"pod": "pods-2", "reason": "OOMKilled"})");
  EXPECT_EQ(ended.wait(kCommandDeadline), 1) << ended.output();
  EXPECT_NE(ended.output().find("OOMKilled"), std::string::npos) << ended.output();
  EXPECT_NE(ended.output().find("--resume"), std::string::npos) << ended.output();
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}).code, 0);
  expect_nothing_left();
}

struct FaultCase {
  std::string name, fault, json, message, hint;
};

TEST_F(KubernetesProvider, APodThatDoesNotComeHasKubernetesOwnCause) {
  timeout_s_ = 5;
  write_cluster("");
  const FaultCase cases[] = {
      {"image", "image",
       R"({"match": "pods-1", "message": "Failed to pull image \"debian:12-slim\": not found"})",
       "pods-1: ImagePullBackOff: Back-off pulling image", "run paddlectl up again"},
      {"room", "unschedulable",
       R"({"match": "pods-2", "message": "0/3 nodes are available: 3 Insufficient cpu."})",
       "pods-2: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.",
       "paddlectl teardown removes what was made"},
      {"quota", "quota", R"({"hard": {"pods": 2}})", "exceeded quota", "run paddlectl up again"},
  };
  for (const FaultCase& one : cases) {
    SCOPED_TRACE(one.name);
    kubernetes_->fault(one.fault, one.json);
    const Outcome up = run({"up", "pods.toml"});
    EXPECT_EQ(up.code, 4);
    EXPECT_TRUE(up.says("error: " + one.message) || up.says(one.message)) << up.output;
    EXPECT_TRUE(up.says(one.hint)) << up.output;
    const Outcome taken = run({"teardown", "--yes"});
    EXPECT_EQ(taken.code, 0) << taken.output;
    expect_nothing_left();
    kubernetes_->fault("clear");
  }
}

TEST_F(KubernetesProvider, APodWhoseMachineIsGoneIsNamedByTeardown) {
  write_cluster("", 2);
  ASSERT_EQ(run({"up", "pods.toml"}).code, 0);
  kubernetes_->fault("lose", R"({"pod": "pods-1"})");
  timeout_s_ = 5;
  write_cluster("", 2);
  const Outcome waits = run({"teardown", "--yes", "--discard"});
  EXPECT_EQ(waits.code, 4);
  EXPECT_TRUE(waits.says("timed out waiting for the condition on pods/pods-1")) << waits.output;
  const std::string step = "kubectl delete pods -l ";
  const std::size_t begin = waits.output.find(step);
  ASSERT_NE(begin, std::string::npos) << waits.output;
  const std::string command =
      waits.output.substr(begin, waits.output.find("--force", begin) + 7 - begin);
  EXPECT_EQ(kubernetes_->run({"/bin/sh", "-c", command}).first, 0) << command;
  const Outcome taken = run({"teardown", "--cluster", "pods.toml", "--yes", "--discard"});
  EXPECT_EQ(taken.code, 0) << taken.output;
  expect_nothing_left();
}

TEST_F(KubernetesProvider, LoginContextAndNamespaceThatAreWrongAreNamed) {
  write_cluster("");
  kubernetes_->fault("token", R"({"valid": false})");
  for (const char* const command : {"up", "status", "teardown"}) {
    const Outcome expired = run({command, "--cluster", "pods.toml"});
    EXPECT_EQ(expired.code, 5) << command << expired.output;
    EXPECT_TRUE(expired.says("You must be logged in to the server")) << expired.output;
    EXPECT_TRUE(expired.says("log in again")) << expired.output;
  }
  kubernetes_->fault("clear");
  write_cluster("context = \"lab\"\n");
  const Outcome context = run({"up", "pods.toml"});
  EXPECT_TRUE(context.code == 2 && context.says("lab")) << context.output;
  EXPECT_TRUE(context.says("kubectl config get-contexts")) << context.output;
  write_cluster("namespace = \"train\"\n");
  const Outcome space = run({"up", "pods.toml"});
  EXPECT_TRUE(space.code == 2 && space.says("namespaces \"train\" not found")) << space.output;
  EXPECT_TRUE(space.says("kubectl create namespace")) << space.output;
}

TEST_F(KubernetesProvider, KubectlThatIsMissingOrTooOldIsNamed) {
  write_cluster("");
  const auto up_with_path = [&](const std::string& path) {
    Process up({"/usr/bin/env", "-C", folder_.path(), PADDLECTL_PROGRAM, "up", "pods.toml"},
               folder_ / fmt::format("path-{}.txt", runs_++), {"PATH=" + path});
    const int code = up.wait().value_or(-1);
    return Outcome{code, up.output()};
  };
  const Outcome missing = up_with_path("/nonexistent");
  EXPECT_TRUE(missing.code == 2 && missing.says("cannot start kubectl")) << missing.output;
  EXPECT_TRUE(missing.says("install kubectl")) << missing.output;
  const std::string old =
      folder_.write("old/kubectl",
                    "#!/bin/sh\ncase $* in *apply*) echo 'Error: unknown flag: --server-side' >&2\n"
                    "exit 1;; esac\n");
  fs::permissions(old, fs::perms::owner_all);
  const Outcome too_old = up_with_path(folder_ / "old" + ":/usr/bin:/bin");
  EXPECT_TRUE(too_old.code == 3 && too_old.says("unknown flag: --server-side")) << too_old.output;
  EXPECT_TRUE(too_old.says("install 1.20 or later")) << too_old.output;
}

// `up` and `teardown` are killed at random moments; the next teardown finds everything.
TEST_F(KubernetesProvider, KilledAnywhereTeardownFindsEverything) {
  write_cluster("", 2);
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < 6; ++i) {
    if (i % 2 == 1) {
      ASSERT_EQ(run({"up", "pods.toml"}).code, 0);
    }
    const int delay_ms = std::uniform_int_distribution<int>(10, 2000)(random);
    {
      Process killed = i % 2 == 1
                           ? start({"teardown", "--cluster", "pods.toml", "--yes", "--discard"})
                           : start({"up", "pods.toml"});
      std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
      killed.signal(SIGKILL);
    }
    const Outcome taken = run({"teardown", "--cluster", "pods.toml", "--yes", "--discard"});
    EXPECT_EQ(taken.code, 0) << delay_ms << " ms\n" << taken.output;
    expect_nothing_left();
  }
}

// The folders of prepared data on the volume.
std::vector<fs::path> prepared_folders(const std::string& volume) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(volume + "/paddlectl-prepared")) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  return folders;
}

// `prepare` runs once, on the volume; this machine gets what the network needs, and no data.
TEST_F(KubernetesProvider, PreparesDataOnceOnTheVolume) {
  LocalCluster local(3);
  local.copy_template("word2vec");
  fs::copy(local.folder() / "word2vec", folder_ / "word2vec", fs::copy_options::recursive);
  const std::string text = chained_sentences(400);
  ASSERT_EQ(local.prepare("word2vec", {"--minimum", "0", "--shards", "3"}, text).code, 0);
  const std::vector<std::string> train{"train", "--name", "words", "--set", "train.passes=2"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = train;
    all.insert(all.end(), more);
    return all;
  };
  ASSERT_EQ(local.run({"up", "cluster.toml"}).code, 0);
  const Outcome here = local.run(with({"--trainers", "3", "--pservers", "2", "word2vec"}));
  ASSERT_EQ(here.code, 0) << here.output;
  const Outcome no_volume = local.run(with({"--prepare", "--trainers", "3", "word2vec"}));
  EXPECT_EQ(no_volume.code, 2);
  EXPECT_TRUE(no_volume.says("--prepare needs a folder that all nodes share")) << no_volume.output;

  const std::string volume = kubernetes_->state() + "/nfs/fs-1";
  fs::create_directories(volume);
  ASSERT_EQ(::chown(volume.c_str(), 1000, 1000), 0);
  write_cluster("nfs = \"fs-1:/\"\n");
  fs::rename(folder_ / "word2vec/prepare", folder_ / "word2vec/make_data");
  folder_.write("word2vec/text", text);
  const auto write_program = [&](const std::string& lines) {
    fs::permissions(folder_.write("word2vec/prepare", "#!/bin/sh\n" + lines),
                    fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read);
  };
  ASSERT_EQ(run({"up", "pods.toml"}).code, 0);
  struct Mistake {
    std::string program;
    std::vector<std::string> more;
    int code;
    std::string message;
  };
  const Mistake mistakes[] = {
      {"echo began\necho 'no room for it' >&2\nexit 3\n",
       {},
       1,
       "node pods-0: prepare exited with code 3; its last lines:\nbegan\nno room for it"},
      {"kill -KILL $$\n", {}, 1, "prepare was killed by signal 9"},
      {"mkdir -p data\n: >data/train.txt-0\necho x >data/other\n",
       {},
       6,
       "prepare made no data for data/train.txt-* and data/test.txt"},
      {"exit 91\n", {}, 1, "prepare exited with code 1"},
      {"", {"--set", "data.train=/data/train-*"}, 2, "'/data/train-*' is not in the workspace"},
      {"", {"--set", "data.train=../train-*"}, 2, "'../train-*'"},
      {"", {"--set", "data.train="}, 2, "no pattern for them in [data] train"},
  };
  for (const Mistake& one : mistakes) {
    write_program(one.program);
    std::vector<std::string> command = with({"--prepare", "word2vec"});
    command.insert(command.end(), one.more.begin(), one.more.end());
    const Outcome refused = run(command);
    EXPECT_EQ(refused.code, one.code) << refused.output;
    EXPECT_TRUE(refused.says(one.message)) << one.message << "\n" << refused.output;
  }
  write_program("echo began\nexec sleep 1000\n");
  Process interrupted = start(with({"--prepare", "word2vec"}));
  ASSERT_TRUE(interrupted.prints("prepare: began")) << interrupted.output();
  interrupted.signal(SIGINT);
  EXPECT_EQ(interrupted.wait(kCommandDeadline), 130) << interrupted.output();
  fs::remove(folder_ / "word2vec/prepare");
  const Outcome absent = run(with({"--prepare", "word2vec"}));
  EXPECT_EQ(absent.code, 2);
  EXPECT_TRUE(absent.says("has no program 'prepare'")) << absent.output;

  // It also changes files of the workspace, and makes others: none of them is for this machine.
  const std::string program =
      "set -e\n./make_data --minimum 0 text\necho >>job.toml\necho >>make_data\n"
      "mkdir -p output/words\necho >output/words/settings.jsonl\necho >data/more\n";
  write_program(program);
  const std::string job_file = TemporaryFolder::read(folder_ / "word2vec/job.toml");
  const Outcome trained = run(with({"--prepare", "--pservers", "2", "word2vec"}));
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_TRUE(trained.says("fetched into the workspace: data/dictionary.txt")) << trained.output;
  EXPECT_EQ(values_of(folder_ / "output/words/pass-00001"),
            values_of(local.folder() / "output/words/pass-00001"));
  EXPECT_EQ(TemporaryFolder::read(folder_ / "word2vec/job.toml"), job_file);
  EXPECT_TRUE(fs::exists(folder_ / "word2vec/data/dictionary.txt"));
  for (const char* const name : {"data/train.txt-00000", "data/more", "output"})
    EXPECT_FALSE(fs::exists(fs::path(folder_ / "word2vec") / name)) << name;
  const auto has_shard = [](const fs::path& folder, int number) {
    return fs::exists(folder / fmt::format("data/train.txt-{:05}", number));
  };
  std::vector<fs::path> made;
  for (const fs::path& folder : prepared_folders(volume)) {
    if (fs::exists(folder / ".made")) made.push_back(folder);
  }
  ASSERT_EQ(made.size(), 1U);
  EXPECT_TRUE(has_shard(made[0], 2) && !has_shard(made[0], 3));
  // A name that is taken costs no run of `prepare`.
  write_program("echo begins in vain\n");
  const Outcome taken = run(with({"--prepare", "word2vec"}));
  EXPECT_EQ(taken.code, 2) << taken.output;
  EXPECT_TRUE(taken.says("words") && taken.says("choose another --name")) << taken.output;
  EXPECT_FALSE(taken.says("preparing data") || taken.says("begins in vain")) << taken.output;
  write_program(program);
  // A dictionary of other data is not replaced, nor used.
  folder_.write("word2vec/data/dictionary.txt", "mine\n<unk>\n");
  const Outcome differs = run({"train", "--name", "mine", "--prepare", "word2vec"});
  EXPECT_EQ(differs.code, 6);
  EXPECT_TRUE(differs.says("dictionary.txt is not the file that belongs to the data in ") &&
              differs.says("remove it to take that one"))
      << differs.output;
  EXPECT_EQ(TemporaryFolder::read(folder_ / "word2vec/data/dictionary.txt"), "mine\n<unk>\n");

  // From a clone without the dictionary, and with one that is there.
  fs::remove_all(folder_ / "word2vec/data");
  for (const char* const name : {"again", "third"}) {
    const Outcome again = run({"train", "--name", name, "--prepare", "--pservers", "1", "--set",
                               "train.passes=1", "word2vec"});
    EXPECT_EQ(again.code, 0) << again.output;
    EXPECT_TRUE(again.says("the data is there already")) << again.output;
  }
  // Data that was removed by hand is made again.
  fs::remove(made[0] / "data/test.txt");
  const Outcome repaired = run({"train", "--name", "repaired", "--prepare", "--pservers", "1",
                                "--set", "train.passes=1", "word2vec"});
  EXPECT_EQ(repaired.code, 0) << repaired.output;
  EXPECT_FALSE(repaired.says("the data is there already")) << repaired.output;
  // The data is named by the job, so that a resumed one finds it.
  const Outcome resumed =
      run({"train", "--resume", "--name", "words", "--set", "train.passes=3", "word2vec"});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  // Another text, and another number of trainers, are other data.
  folder_.write("word2vec/text", text + text);
  const Outcome other = run({"train", "--name", "other", "--prepare", "--trainers", "2",
                             "--pservers", "1", "--set", "train.passes=1", "word2vec"});
  EXPECT_EQ(other.code, 0) << other.output;
  EXPECT_FALSE(other.says("the data is there already")) << other.output;
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_TRUE(fs::exists(made[0] / ".made"));
  expect_nothing_left();
}

// Types every command of docs/kubernetes.md.
TEST_F(KubernetesProvider, EveryCommandOfThePageWorksAsTyped) {
  std::istringstream page(TemporaryFolder::read(KUBERNETES_PAGE));
  std::string script = "set -eux\n";
  std::size_t commands = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("    ")) continue;
    script += line.substr(4) + "\n";
    ++commands;
  }
  ASSERT_GT(commands, 30U);
  const std::string exported =
      kubernetes_->state() + "/nfs/fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com";
  fs::create_directories(exported);
  ASSERT_EQ(::chown(exported.c_str(), 1000, 1000), 0);
  folder_.write("page.sh", script);
  Process typed({"/usr/bin/env", "-C", folder_.path(), "sh", "page.sh"}, folder_ / "typed.txt",
                environment());
  ASSERT_EQ(typed.wait(std::chrono::seconds(400)), 0) << typed.output();
  const std::string shown = typed.output();
  for (const char* const said :
       {"StatefulSet/pods: 3 pods", "3 nodes ready", "held-out cost", "pods-2/trainer-2 | ",
        "pass 4 of 4", "pass-00002", "server.log", "train.log", "preparing data for 3 trainers",
        "No resources found"})
    EXPECT_NE(shown.find(said), std::string::npos) << said << "\n" << shown;
  EXPECT_TRUE(fs::exists(exported + "/paddlectl") || fs::exists(exported)) << shown;
  EXPECT_EQ(kubernetes_->must({"get", "all,pvc,pv", "-A", "-o", "name"}), "");
}

}  // namespace
}  // namespace paddle::test

// Two people with the same cluster file on one machine: neither can see, use or end what the other
// has there.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/free_ports.h"
#include "tests/support/probes.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSetpriv = "/usr/bin/setpriv";
constexpr std::uint16_t kPorts = 2;  // of a pserver
constexpr int kExamples = 40000;     // more than is read while the test looks

constexpr const char* kJob = R"(name = "tiny"
seed = 1
[data]
train = "data/train.txt-*"
format = "bow"
dictionary = "data/dictionary.txt"
[[layer]]
name = "score"
type = "embedding"
input = ["words"]
pooling = "sum"
size = 2
weight = { sparse = true }
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["score"]
label = "label"
[optimizer]
method = "sgd"
learning_rate = 0.1
[train]
passes = 100
batch_size = 2
)";

struct Said {
  int code = -1;
  std::string text;
};

class TwoUsersTest : public ::testing::Test {
 protected:
  // Users of this process alone: tests at the same time must not take each other's processes for
  // theirs.
  const unsigned first_ = 20000 + 2 * (static_cast<unsigned>(::getpid()) % 20000);
  const unsigned second_ = first_ + 1;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be two other users";
    if (::access(kSetpriv, X_OK) != 0) GTEST_SKIP() << "no setpriv";
    ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
    // Copies, for the build folder may be where others cannot look.
    for (const char* program : {"paddlectl", "paddlectl-agent", "paddle"}) {
      fs::create_directories(folder_ / "bin");
      fs::copy_file(std::string(BUILD_FOLDER) + "/bin/" + program,
                    folder_ / ("bin/" + std::string(program)));
    }
    port_ = free_ports(2 * kPorts);
    ASSERT_GT(port_, 0);
    for (const unsigned user : {first_, second_}) {
      std::string examples;
      for (int i = 0; i < kExamples; ++i) examples += i % 2 == 0 ? "1\tgood\n" : "0\tbad\n";
      folder_.write(home_name(user) + "/job/job.toml", kJob);
      folder_.write(home_name(user) + "/job/data/train.txt-00000", examples);
      folder_.write(home_name(user) + "/job/data/dictionary.txt", "good\nbad\n<unk>\n");
      write_cluster(user, "~/.paddlectl", port_);
    }
  }
  void TearDown() override {
    if (IsSkipped()) return;
    for (const unsigned user : {first_, second_}) run(user, {"teardown", "--yes", "--discard"});
  }

  static std::string home_name(unsigned user) { return fmt::format("home-{}", user); }
  std::string home(unsigned user) const { return folder_ / home_name(user); }

  void write_cluster(unsigned user, const std::string& workdir, int port) {
    folder_.write(home_name(user) + "/lab.toml",
                  fmt::format("name = \"lab\"\nworkdir = \"{}\"\nport = {}\n[[node]]\n"
                              "launcher = \"local\"\n",
                              workdir, port));
    own(user, home(user));
    for (const auto& entry : fs::recursive_directory_iterator(home(user)))
      own(user, entry.path().string());
    ASSERT_EQ(::chmod(home(user).c_str(), 0700), 0);
  }
  static void own(unsigned user, const std::string& path) {
    ASSERT_EQ(::lchown(path.c_str(), user, user), 0) << path;
  }

  Said run(unsigned user, const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {kSetpriv,
                                        fmt::format("--reuid={}", user),
                                        fmt::format("--regid={}", user),
                                        "--clear-groups",
                                        "/usr/bin/env",
                                        "-C",
                                        home(user),
                                        "HOME=" + home(user),
                                        folder_ / "bin/paddlectl"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Process process(std::move(command), folder_ / fmt::format("said-{}", said_++));
    const int code = process.wait().value_or(-1);
    return {code, process.output()};
  }

  static std::vector<pid_t> engines_of(unsigned user) {
    std::vector<pid_t> found = processes_of(user);
    std::erase_if(found, [](pid_t pid) {
      const std::string command = TemporaryFolder::read(fmt::format("/proc/{}/cmdline", pid));
      return command.find("/bin/paddle-") == std::string::npos;
    });
    return found;
  }

  TemporaryFolder folder_;
  int port_ = 0;
  int said_ = 0;
};

TEST_F(TwoUsersTest, ShareNoFolderPortNameOrProcess) {
  const Said first_up = run(first_, {"up", "lab.toml"});
  ASSERT_EQ(first_up.code, 0) << first_up.text;
  const Said first_train = run(first_, {"train", "--name", "mine", "--detach", "job"});
  ASSERT_EQ(first_train.code, 0) << first_train.text;
  EXPECT_EQ(fs::status(home(first_) + "/.paddlectl/lab").permissions(), fs::perms::owner_all);

  const Said same_port = run(second_, {"up", "lab.toml"});
  EXPECT_EQ(same_port.code, 7) << same_port.text;
  EXPECT_NE(same_port.text.find(fmt::format("port {} on 127.0.0.1 is taken", port_)),
            std::string::npos)
      << same_port.text;
  write_cluster(second_, "~/.paddlectl", port_ + kPorts);
  const Said second_up = run(second_, {"up", "lab.toml"});
  ASSERT_EQ(second_up.code, 0) << second_up.text;
  const Said nothing = run(second_, {"status"});
  EXPECT_EQ(nothing.code, 2) << "the other's job is not there for this one: " << nothing.text;
  const Said second_train = run(second_, {"train", "--name", "mine", "--detach", "job"});
  ASSERT_EQ(second_train.code, 0) << second_train.text;

  const Said torn_down = run(second_, {"teardown", "--yes", "--discard"});
  EXPECT_EQ(torn_down.code, 0) << torn_down.text;
  EXPECT_FALSE(fs::exists(home(second_) + "/.paddlectl"));
  const Said still = run(first_, {"status", "--json"});
  EXPECT_EQ(still.code, 0) << still.text;
  EXPECT_NE(still.text.find("\"state\": \"running\""), std::string::npos) << still.text;
  const Said stopped = run(first_, {"stop"});
  EXPECT_EQ(stopped.code, 0) << stopped.text;
}

TEST_F(TwoUsersTest, AFolderOfTheOtherIsRefusedAndLeftAsItIs) {
  fs::create_directory(folder_ / "scratch");
  ASSERT_EQ(::chmod((folder_ / "scratch").c_str(), 01777), 0);
  write_cluster(first_, folder_ / "scratch", port_);
  ASSERT_EQ(run(first_, {"up", "lab.toml"}).code, 0);
  for (const std::string& workdir : {folder_ / "scratch", home(first_) + "/.paddlectl"}) {
    write_cluster(second_, workdir, port_ + kPorts);
    const Said refused = run(second_, {"up", "lab.toml"});
    EXPECT_NE(refused.code, 0) << workdir;
    EXPECT_NE(refused.text.find("hint: "), std::string::npos) << refused.text;
    const Said torn_down =
        run(second_, {"teardown", "--cluster", "lab.toml", "--yes", "--discard"});
    EXPECT_NE(torn_down.code, 0) << "what may not be read is not known to be clean";
    EXPECT_EQ(torn_down.text.find("clean"), std::string::npos) << torn_down.text;
    EXPECT_NE(torn_down.text.find(" cannot be read by this user"), std::string::npos)
        << torn_down.text;
  }
  // Even one that others may look into.
  for (const char* part : {"scratch/lab", "scratch/lab/node", "scratch/lab/node/bin"})
    ASSERT_EQ(::chmod((folder_ / part).c_str(), 0755), 0) << part;
  write_cluster(second_, folder_ / "scratch", port_ + kPorts);
  EXPECT_NE(run(second_, {"up", "lab.toml"}).code, 0);
  EXPECT_NE(run(second_, {"teardown", "--cluster", "lab.toml", "--yes", "--discard"}).code, 0);
  EXPECT_FALSE(fs::is_empty(folder_ / "scratch/lab/node/bin"));
  const Said again = run(first_, {"up", "lab.toml"});
  EXPECT_EQ(again.code, 0) << again.text;
}

// Reads, signals and connections, tried at every file, process and port of a running job.
TEST_F(TwoUsersTest, NothingOfAJobIsReadSignalledOrJoinedByTheOther) {
  ASSERT_EQ(run(first_, {"up", "lab.toml"}).code, 0);
  const Said trained = run(
      first_, {"train", "--name", "mine", "--restarts", "3", "--pservers", "1", "--detach", "job"});
  ASSERT_EQ(trained.code, 0) << trained.text;
  std::vector<Probe> probes;
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(home(first_) + "/.paddlectl")) {
    if (!entry.is_regular_file()) continue;
    std::ranges::copy(probes_of_file(entry.path()), std::back_inserter(probes));
    ++files;
  }
  EXPECT_GT(files, 10U);
  const std::vector<pid_t> all = processes_of(first_);
  const std::vector<pid_t> engines = engines_of(first_);
  EXPECT_EQ(engines.size(), 2U);
  EXPECT_GE(all.size(), 6U) << "trainer and pserver, their supervisors and guards";
  for (const pid_t pid : all) std::ranges::copy(probes_of_process(pid), std::back_inserter(probes));
  // Its command line, which all may read, names the key's file; that file is not theirs.
  for (std::uint16_t i = 0; i < kPorts; ++i) {
    const auto port = static_cast<std::uint16_t>(port_ + i);
    for (const std::string& bytes :
         {std::string(64, '\0'), std::string("GET / HTTP/1.0\r\n\r\n") + std::string(64, 'x')}) {
      probes.push_back({fmt::format("connect to {}", port), [port, bytes] {
                          const std::string answer = answer_of(port, bytes);
                          return answer.find("mine") != std::string::npos ||
                                 answer.find("score") != std::string::npos;
                        }});
    }
  }
  EXPECT_GT(probes.size(), 100U);
  EXPECT_EQ(succeeded(second_, probes), "");

  // A trainer of the other's own, with a key of its own.
  folder_.write(home_name(second_) + "/own.key", std::string(32, 'k'));
  own(second_, home(second_) + "/own.key");
  ASSERT_EQ(::chmod((home(second_) + "/own.key").c_str(), 0600), 0);
  Process joins({kSetpriv, fmt::format("--reuid={}", second_), fmt::format("--regid={}", second_),
                 "--clear-groups", "/usr/bin/env", "-C", home(second_) + "/job",
                 folder_ / "bin/paddle", "train", "--config=job.toml", "--pservers=127.0.0.1",
                 fmt::format("--port={}", port_), "--num_gradient_servers=1", "--trainer_id=0",
                 "--ports_num=1", "--ports_num_for_sparse=1", "--key_file=../own.key"},
                folder_ / "joins");
  const auto joined = joins.wait();
  ASSERT_TRUE(joined) << joins.output();
  EXPECT_EQ(*joined, 5) << "not for its key: " << joins.output();

  const Said still = run(first_, {"status", "--json"});
  EXPECT_EQ(still.code, 0) << still.text;
  EXPECT_NE(still.text.find("\"state\": \"running\""), std::string::npos) << still.text;
  EXPECT_EQ(engines_of(first_), engines) << "none of them was ended";
  EXPECT_EQ(run(first_, {"stop"}).code, 0);
}

}  // namespace
}  // namespace paddle::test

// Two people with the same cluster file on one machine: neither can see, use or end what the other
// has there.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/free_ports.h"
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
  static constexpr unsigned kFirst = 40001;
  static constexpr unsigned kSecond = 40002;

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
    for (const unsigned user : {kFirst, kSecond}) {
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
    for (const unsigned user : {kFirst, kSecond}) run(user, {"teardown", "--yes", "--discard"});
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

  TemporaryFolder folder_;
  int port_ = 0;
  int said_ = 0;
};

TEST_F(TwoUsersTest, ShareNoFolderPortNameOrProcess) {
  const Said first_up = run(kFirst, {"up", "lab.toml"});
  ASSERT_EQ(first_up.code, 0) << first_up.text;
  const Said first_train = run(kFirst, {"train", "--name", "mine", "--detach", "job"});
  ASSERT_EQ(first_train.code, 0) << first_train.text;
  EXPECT_EQ(fs::status(home(kFirst) + "/.paddlectl/lab").permissions(), fs::perms::owner_all);

  const Said same_port = run(kSecond, {"up", "lab.toml"});
  EXPECT_EQ(same_port.code, 7) << same_port.text;
  EXPECT_NE(same_port.text.find(fmt::format("port {} on 127.0.0.1 is taken", port_)),
            std::string::npos)
      << same_port.text;
  write_cluster(kSecond, "~/.paddlectl", port_ + kPorts);
  const Said second_up = run(kSecond, {"up", "lab.toml"});
  ASSERT_EQ(second_up.code, 0) << second_up.text;
  const Said nothing = run(kSecond, {"status"});
  EXPECT_EQ(nothing.code, 2) << "the other's job is not there for this one: " << nothing.text;
  const Said second_train = run(kSecond, {"train", "--name", "mine", "--detach", "job"});
  ASSERT_EQ(second_train.code, 0) << second_train.text;

  const Said torn_down = run(kSecond, {"teardown", "--yes", "--discard"});
  EXPECT_EQ(torn_down.code, 0) << torn_down.text;
  EXPECT_FALSE(fs::exists(home(kSecond) + "/.paddlectl"));
  const Said still = run(kFirst, {"status", "--json"});
  EXPECT_EQ(still.code, 0) << still.text;
  EXPECT_NE(still.text.find("\"state\": \"running\""), std::string::npos) << still.text;
  const Said stopped = run(kFirst, {"stop"});
  EXPECT_EQ(stopped.code, 0) << stopped.text;
}

TEST_F(TwoUsersTest, AFolderOfTheOtherIsRefusedAndLeftAsItIs) {
  fs::create_directory(folder_ / "scratch");
  ASSERT_EQ(::chmod((folder_ / "scratch").c_str(), 01777), 0);
  write_cluster(kFirst, folder_ / "scratch", port_);
  ASSERT_EQ(run(kFirst, {"up", "lab.toml"}).code, 0);
  for (const std::string& workdir : {folder_ / "scratch", home(kFirst) + "/.paddlectl"}) {
    write_cluster(kSecond, workdir, port_ + kPorts);
    const Said refused = run(kSecond, {"up", "lab.toml"});
    EXPECT_NE(refused.code, 0) << workdir;
    EXPECT_NE(refused.text.find("hint: "), std::string::npos) << refused.text;
    const Said torn_down =
        run(kSecond, {"teardown", "--cluster", "lab.toml", "--yes", "--discard"});
    EXPECT_NE(torn_down.code, 0) << "what may not be read is not known to be clean";
    EXPECT_EQ(torn_down.text.find("clean"), std::string::npos) << torn_down.text;
    EXPECT_NE(torn_down.text.find(" may not be read by this user"), std::string::npos)
        << torn_down.text;
  }
  // Even one that others may look into.
  for (const char* part : {"scratch/lab", "scratch/lab/node", "scratch/lab/node/bin"})
    ASSERT_EQ(::chmod((folder_ / part).c_str(), 0755), 0) << part;
  write_cluster(kSecond, folder_ / "scratch", port_ + kPorts);
  EXPECT_NE(run(kSecond, {"up", "lab.toml"}).code, 0);
  EXPECT_NE(run(kSecond, {"teardown", "--cluster", "lab.toml", "--yes", "--discard"}).code, 0);
  EXPECT_FALSE(fs::is_empty(folder_ / "scratch/lab/node/bin"));
  const Said again = run(kFirst, {"up", "lab.toml"});
  EXPECT_EQ(again.code, 0) << again.text;
}

}  // namespace
}  // namespace paddle::test

// scripts/deps forbids services to start while it installs, and must not forbid it any longer. A
// folder of the test is mounted over /usr/sbin, where the file that forbids it lies, and a file
// over the one that names the system.
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/process.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnshare = "/usr/bin/unshare";

class DepsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can mount";
    if (::access(kUnshare, X_OK) != 0) GTEST_SKIP() << "no unshare";
    fs::create_directories(folder_ / "sbin");
    set_system("ID=debian\nVERSION_ID=\"12\"\n");
    program("dpkg-query", "exit 1");
    program("apt-get", "case $1 in update) exit ;; esac\necho installs\nexec sleep 0.3");
    Process tried({kUnshare, "--mount", "/bin/true"}, folder_ / "tried");
    if (tried.wait() != 0) GTEST_SKIP() << "namespaces cannot be made here";
  }
  void program(const std::string& name, const std::string& script) {
    folder_.write("bin/" + name, "#!/bin/sh\n" + script + "\n");
    fs::permissions(folder_ / ("bin/" + name), fs::perms::owner_all);
  }
  void set_system(const std::string& os_release) { folder_.write("os-release", os_release); }
  Process deps(const std::string& output, const std::string& sets = "build") {
    const std::string script = "mount --bind " + folder_ / "sbin" + " /usr/sbin && mount --bind " +
                               folder_ / "os-release" + " /etc/os-release && exec " + DEPS_SCRIPT +
                               " " + sets;
    return Process({kUnshare, "--mount", "/bin/sh", "-c", script}, folder_ / output,
                   {"PATH=" + folder_ / "bin" + ":/usr/bin:/bin"});
  }
  bool forbidden() const { return fs::exists(folder_ / "sbin/policy-rc.d"); }

  TemporaryFolder folder_;
};

}  // namespace

TEST_F(DepsTest, ServicesMayStartAgainHoweverItEnds) {
  for (const int signal : {0, SIGHUP, SIGINT, SIGTERM}) {
    Process running = deps("ended-" + std::to_string(signal));
    ASSERT_TRUE(running.prints("installs")) << running.output();
    EXPECT_TRUE(forbidden());
    running.signal(signal);
    EXPECT_EQ(running.wait(), signal == 0 ? 0 : 128 + signal) << running.output();
    EXPECT_FALSE(forbidden()) << "signal " << signal;
  }
}

TEST_F(DepsTest, WhatAKilledOneLeftIsRemoved) {
  Process killed = deps("killed");
  ASSERT_TRUE(killed.prints("installs")) << killed.output();
  killed.signal(SIGKILL);
  killed.wait();
  ASSERT_TRUE(forbidden());
  program("dpkg-query", "printf installed");
  Process next = deps("next");
  EXPECT_EQ(next.wait(), 0) << next.output();
  EXPECT_FALSE(forbidden()) << next.output();
}

TEST_F(DepsTest, AnotherOnesPolicyStays) {
  folder_.write("sbin/policy-rc.d", "#!/bin/sh\nexit 101\n");
  Process running = deps("running");
  EXPECT_EQ(running.wait(), 0) << running.output();
  EXPECT_TRUE(forbidden());
}

// scripts/systems runs all tests with the packages of "test", exported models too.
TEST_F(DepsTest, TestsGetOnnxruntimeWhereTheSystemHasIt) {
  const auto installs = [&](const std::string& name, const std::string& os_release) {
    set_system(os_release);
    Process running = deps(name, "test");
    EXPECT_EQ(running.wait(), 0) << running.output();
    EXPECT_NE(running.output().find(" python3 "), std::string::npos) << running.output();
    return running.output().find(" python3-onnxruntime") != std::string::npos;
  };
  EXPECT_FALSE(installs("debian-12", "ID=debian\nVERSION_ID=\"12\"\n"));
  EXPECT_FALSE(installs("ubuntu", "ID=ubuntu\nVERSION_ID=\"24.04\"\n"));
  EXPECT_TRUE(installs("debian-13", "ID=debian\nVERSION_ID=\"13\"\n"));
  EXPECT_TRUE(installs("debian-testing", "ID=debian\n")) << "Debian testing has no number";
}

}  // namespace paddle::test

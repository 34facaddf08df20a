// A reader of a command's output that is slower than the program of a launcher has patience:
// kubectl ends when its output is not read for a minute. The program here waits two seconds.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

// Passes bytes on between its stdin and stdout and a shell; ends when either is not read for long.
constexpr const char* kImpatient = R"(#!/usr/bin/python3
import os, select, subprocess, sys
shell = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
ways = {0: shell.stdin.fileno(), shell.stdout.fileno(): 1}
for fd in ways.values():
    os.set_blocking(fd, False)
while shell.stdout.fileno() in ways:
    for source in select.select(list(ways), [], [])[0]:
        data = os.read(source, 32768)
        if not data and source == 0:
            shell.stdin.close()
            del ways[0]
            continue
        if not data:
            sys.exit(shell.wait())
        while data:
            if not select.select([], [ways[source]], [], 2)[1]:
                print("not read for 2 s", file=sys.stderr)
                shell.kill()
                sys.exit(1)
            data = data[os.write(ways[source], data):]
)";

class SlowReader : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists("/usr/bin/python3")) GTEST_SKIP() << "not installed: /usr/bin/python3";
    cluster.folder().write("impatient", kImpatient);
    fs::permissions(cluster.folder() / "impatient", fs::perms::owner_all);
    cluster.folder().write("cluster.toml",
                           fmt::format("name = \"t\"\nworkdir = \"{}/nodes\"\n[[node]]\nname = "
                                       "\"n\"\naddress = \"127.0.0.1\"\nlauncher = [\"{}\"]\n",
                                       cluster.folder().path(), cluster.folder() / "impatient"));
    const Outcome up = cluster.run({"up", "cluster.toml"});
    ASSERT_EQ(up.code, 0) << up.output;
  }

  LocalCluster cluster{1};
};

TEST_F(SlowReader, OfExecGetsAllOfTheOutput) {
  constexpr std::size_t kLines = 400'000;
  // As `paddlectl exec ... | less`, where somebody reads the first page for a while.
  const std::string script = fmt::format(
      "{} exec --stream -- seq 1 {} | {{ sleep 6; wc -l; }}; echo \"exit ${{PIPESTATUS[0]}}\"",
      PADDLECTL_PROGRAM, kLines);
  Process shell({"/usr/bin/env", "-C", cluster.folder().path(), "/bin/bash", "-c", script},
                cluster.folder() / "shell.txt");
  EXPECT_EQ(shell.wait(), 0);
  EXPECT_EQ(shell.output(), fmt::format("{}\nexit 0\n", kLines));
}

// The command waits with its output, instead of filling memory.
TEST_F(SlowReader, OfExecHoldsAnEndlessCommandBack) {
  const std::string script = fmt::format(
      "{} exec --stream -- sh -c 'yes | {{ tee {}/copy; }}' | {{ head -c 100; sleep 6; }} | wc -c",
      PADDLECTL_PROGRAM, cluster.folder().path());
  Process shell({"/usr/bin/env", "-C", cluster.folder().path(), "/bin/bash", "-c", script},
                cluster.folder() / "shell.txt");
  EXPECT_EQ(shell.wait(), 0);
  EXPECT_EQ(shell.output(), "100\n");
  EXPECT_LT(fs::file_size(cluster.folder() / "copy"), 16U << 20U);
}

}  // namespace
}  // namespace paddle::test

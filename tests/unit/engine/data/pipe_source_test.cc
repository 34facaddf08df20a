// Tests of pipe_command: the output of the program, its end, and its death with its reader.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/secret.h"
#include "engine/data/byte_source.h"
#include "tests/support/core_limit.h"
#include "tests/unit/engine/data/data_fixture.h"

namespace paddle::data {
namespace {

using Records = std::vector<std::string>;

class PipeTest : public DataTest {
 protected:
  PipeTest() {
    for (const char* name : {"a", "b", "c"}) {
      options_.share.files.push_back(folder_.write(name, fmt::format("1,{0}\n2,{0} {0}\n", name)));
    }
  }
  void command(const std::string& script) { options_.data.pipe_command = {"sh", "-c", script}; }
  std::string mistake() {
    const Outcome outcome = read();
    if (outcome.status) return "none";
    EXPECT_EQ(outcome.status.error().code, Errc::kData);
    std::string message = outcome.status.error().message;
    message.replace(message.find(folder_.path()), folder_.path().size() + 1, "");
    return message;
  }
};

TEST_F(PipeTest, TheProgramReadsTheFileAndPrintsRecords) {
  options_.data.pipe_command = {"tr", ",", "\t"};
  const Records expected{"2|1", "2 2|2", "3|1", "3 3|2", "4|1", "4 4|2"};
  EXPECT_EQ(read_all(), expected);
  options_.data.threads = 4;
  options_.data.files_at_once = 3;
  EXPECT_EQ(read_all(), (Records{"2|1", "2 2|2", "3|1", "3 3|2", "4|1", "4 4|2"}));
}

TEST_F(PipeTest, ItRunsInTheFolderAndWithoutAShell) {
  options_.share.files.resize(1);
  folder_.write("table", "7\tc\n");
  options_.data.pipe_command = {"cat", "table"};
  EXPECT_EQ(read_all(), Records{"4|7"});
  options_.data.pipe_command = {"printf", "%s\\t%s\\n", "3", "a $HOME `a`"};
  EXPECT_EQ(read_all(), Records{"2 5 5|3"});
}

TEST_F(PipeTest, ItMayLeaveACoreFileThoughItsReaderMayNot) {
  const test::RaisedCoreLimit raised;
  turn_off_cores();
  command("test `ulimit -S -c` = `ulimit -H -c` && tr , '\t'");
  EXPECT_EQ(mistake(), "none");
}

TEST_F(PipeTest, ItsFailureIsNamed) {
  command("tr , '\\t'; exit 3");
  EXPECT_EQ(mistake(), "pipe_command 'sh -c tr , '\\t'; exit 3' on a: ended with 3");
  command("kill -9 $$");
  EXPECT_EQ(mistake(), "pipe_command 'sh -c kill -9 $$' on a: killed by signal 9 (Killed)");
  options_.data.pipe_command = {"/no/such/program"};
  EXPECT_EQ(mistake(),
            "pipe_command '/no/such/program' on a: cannot start: No such file or directory");
}

// Not only once pipe_timeout has passed.
// Its output closes before it ends: what it does in between is up to the machine.
TEST_F(PipeTest, ItMayEndAtAnyTimeAfterItsOutput) {
  options_.share.files.resize(1);
  options_.data.pipe_command = {"false"};
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(mistake(), "pipe_command 'false' on a: ended with 1");
}

TEST_F(PipeTest, ItsFailureIsNamedThoughAChildHoldsItsOutput) {
  command("echo '1\ta'; sleep 1000 & exit 5");
  EXPECT_TRUE(mistake().ends_with(" on a: ended with 5"));
  command("sleep 1000 & kill -9 $$");
  EXPECT_TRUE(mistake().ends_with(" on a: killed by signal 9 (Killed)"));
  // One that ends well may leave the rest to a child.
  command("(sleep 0.1; tr , '\t' <&3) 3<&0 & exit 0");
  EXPECT_EQ(mistake(), "none");
}

// A trainer ignores SIGPIPE; programs expect to die of it.
TEST_F(PipeTest, ItDiesOfABrokenPipe) {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  command("kill -PIPE $$; echo '1\ta'");
  EXPECT_TRUE(mistake().find("killed by signal 13") != std::string::npos);
  ::signal(SIGPIPE, before);
}

TEST_F(PipeTest, WhatItPrintedIsCheckedLikeAFile) {
  command("echo 1; cat");
  EXPECT_EQ(mistake(), "a:1: not of the form label<TAB>words");
}

TEST_F(PipeTest, AHangingProgramIsNamedAndEnded) {
  options_.data.pipe_timeout = std::chrono::seconds(1);
  command("sleep 1000 & echo $! > child; wait");
  EXPECT_TRUE(mistake().ends_with(" on a: has printed nothing for 1 s"));
  // The processes that it has started are killed too.
  const int child = std::stoi(test::TemporaryFolder::read(folder_ / "child"));
  for (int i = 0; i < 1000 && ::kill(child, 0) == 0; ++i) {
    if (test::TemporaryFolder::read(fmt::format("/proc/{}/stat", child)).find(") Z") !=
        std::string::npos) {
      break;  // dead, but not yet reaped
    }
    std::this_thread::yield();
  }
  EXPECT_EQ(test::TemporaryFolder::read(fmt::format("/proc/{}/cmdline", child)), "");
  command("exec >&-; sleep 1000");
  EXPECT_TRUE(mistake().ends_with(" on a: has closed its output but has not ended for 1 s"));
}

TEST_F(PipeTest, LeavingDoesNotWaitForIt) {
  command("echo $$ > program; echo '1\ta'; sleep 1000");
  {
    options_.batch_size = 1;
    const auto stream = open_pass(options_, dictionary_, 0);
    while (test::TemporaryFolder::read(folder_ / "program").empty()) std::this_thread::yield();
  }
  const int program = std::stoi(test::TemporaryFolder::read(folder_ / "program"));
  EXPECT_EQ(::kill(program, 0), -1);
}

TEST_F(PipeTest, ItDiesWithItsReader) {
  command("echo $$ > program; exec sleep 1000");
  const pid_t reader = ::fork();
  ASSERT_GE(reader, 0);
  if (reader == 0) {
    read();
    ::_exit(0);
  }
  while (test::TemporaryFolder::read(folder_ / "program").empty()) std::this_thread::yield();
  const int program = std::stoi(test::TemporaryFolder::read(folder_ / "program"));
  EXPECT_EQ(::kill(program, 0), 0);
  ::kill(reader, SIGKILL);
  ::waitpid(reader, nullptr, 0);
  const auto runs = [&] {
    return !test::TemporaryFolder::read(fmt::format("/proc/{}/cmdline", program)).empty();
  };
  while (runs()) std::this_thread::yield();
}

}  // namespace
}  // namespace paddle::data

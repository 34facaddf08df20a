// The process `paddle client`: its start, its signals, and its end.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/fd.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

constexpr const char* kHello =
    R"({"op":"hello","version":1,"job":"[[table]]\nname = \"user\"\nwidth = 2\n[optimizer]\n)"
    R"(method = \"sgd\"\nlearning_rate = 1\n"})";

class ClientCommand : public testing::Test {
 protected:
  ClientCommand() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    program_ = UniqueFd(ends[0]);
    sidecar_ = UniqueFd(ends[1]);
    ::fcntl(program_.get(), F_SETFD, FD_CLOEXEC);
    memory_ = UniqueFd(::memfd_create("program", MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(memory_.get(), 4096), 0);
  }
  void seal() const {
    EXPECT_EQ(::fcntl(memory_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  }
  std::vector<std::string> command() const {
    return {PADDLE_PROGRAM, "client", "--local", fmt::format("--channel_fd={}", sidecar_.get()),
            fmt::format("--memory_fd={}", memory_.get())};
  }
  Process start(std::vector<std::string> arguments,
                std::vector<std::string> environment = {"PATH=/usr/bin:/bin"}) {
    Process process(std::move(arguments), folder_ / "output", std::move(environment));
    sidecar_.reset();  // the end of the channel is that of the process
    return process;
  }
  // Sends a request and returns the answer; "": the channel has ended.
  std::string call(const std::string& request) {
    std::string frame(16, '\0');
    const std::uint32_t words[] = {0x434c4450, 1, ++last_,
                                   static_cast<std::uint32_t>(request.size())};
    std::memcpy(frame.data(), words, sizeof words);
    frame += request;
    if (::send(program_.get(), frame.data(), frame.size(), MSG_NOSIGNAL) < 0) return "";
    for (;;) {
      std::uint32_t header[4];
      if (::recv(program_.get(), header, sizeof header, MSG_WAITALL) != sizeof header) return "";
      std::string text(header[3], '\0');
      if (::recv(program_.get(), text.data(), text.size(), MSG_WAITALL) !=
          static_cast<ssize_t>(text.size()))
        return "";
      if (header[2] == last_) return text;
    }
  }

  TemporaryFolder folder_;
  UniqueFd program_, sidecar_, memory_;
  std::uint32_t last_ = 0;
};

TEST_F(ClientCommand, LivesThroughSignalsUntilItsChannelEnds) {
  seal();
  Process client = start(command());
  EXPECT_TRUE(call(kHello).starts_with(R"({"ok":true)")) << client.output();
  client.signal(SIGTERM);
  client.signal(SIGINT);
  EXPECT_EQ(call(R"({"op":"alive"})"), R"({"ok":true})");
  program_.reset();
  EXPECT_EQ(client.wait(), 0) << client.output();
}

// A launcher that closes descriptors leaves the variable, and the number becomes that of a file of
// the program's own.
TEST_F(ClientCommand, WritesToNoFileThatIsNotTheSupervisors) {
  seal();
  const std::string path = folder_.write("data.sqlite", "precious");
  const UniqueFd file(::open(path.c_str(), O_RDWR));
  Process client = start(command(), {fmt::format("PADDLECTL_MEMORY_FD={}", file.get())});
  EXPECT_TRUE(call(kHello).starts_with(R"({"ok":true)")) << client.output();
  EXPECT_TRUE(call(R"({"op":"push","samples":1,"tables":[]})").starts_with(R"({"ok":true)"));
  EXPECT_TRUE(call(R"({"op":"finish_pass"})").starts_with(R"({"ok":true)"));
  EXPECT_TRUE(call(R"({"op":"leave"})").starts_with(R"({"ok":true)"));
  program_.reset();
  EXPECT_EQ(client.wait(), 0) << client.output();
  EXPECT_EQ(TemporaryFolder::read(path), "precious");
  EXPECT_NE(client.output().find("PADDLECTL_MEMORY_FD is not the supervisor's"), std::string::npos)
      << client.output();
}

TEST_F(ClientCommand, EndsWithAnErrorOnABrokenChannel) {
  seal();
  Process client = start(command());
  const std::string noise(64, 'x');
  EXPECT_EQ(::send(program_.get(), noise.data(), noise.size(), MSG_NOSIGNAL), 64);
  EXPECT_EQ(client.wait(), 6) << client.output();
  EXPECT_NE(client.output().find("the header of a request is broken"), std::string::npos);
}

TEST_F(ClientCommand, RefusesMemoryThatMayShrink) {
  Process client = start(command());
  EXPECT_EQ(client.wait(), 2);
  EXPECT_NE(client.output().find("F_SEAL_SHRINK"), std::string::npos) << client.output();
}

TEST_F(ClientCommand, EndsWithTheProcessThatStartedIt) {
  seal();
  std::string line;
  for (const std::string& word : command()) line += word + " ";
  Process shell = start({"/bin/sh", "-c", line + "& wait"});
  EXPECT_TRUE(call(kHello).starts_with(R"({"ok":true)")) << shell.output();
  shell.signal(SIGKILL);
  while (!call(R"({"op":"alive"})").empty()) {
  }
}

}  // namespace
}  // namespace paddle::test

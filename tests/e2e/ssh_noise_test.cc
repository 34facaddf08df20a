// Output of sshd and of login shells around the agent, over a real sshd.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/version.h"
#include "proto/agent.pb.h"
#include "proto/frame.h"
#include "remote/client/agent_client.h"
#include "tests/e2e/ssh_fixture.h"

namespace paddle::remote {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFlood = 10U << 20U;
constexpr std::string_view kControls =
    "\x1b[2J\x1b]0;a title\x07\x9b"
    "31m\r\x08\x7f \xe2\x80\xae";

// A whole frame, as an agent's answer to the first question would be.
std::string answer_frame() {
  wire::agent::Facts facts;
  facts.set_hostname("a lie");
  FrameHeader header;
  header.type = wire::agent::AGENT_FACTS;
  header.sender = {Role::kAgent, 0};
  header.sequence = 1;
  const std::string head = facts.SerializeAsString();
  const FrameHeaderBytes bytes = encode_header(header, as_bytes(head), ByteSpan());
  return std::string(as_text(bytes)) + head;
}

class SshNoiseTest : public SshLauncherTest {
 protected:
  void SetUp() override {
    SshLauncherTest::SetUp();
    node_.root = folder_.path() + "/nodes/lab";
    options_.agent_binary = AGENT_BINARY;
    options_.deadline = seconds(40);
  }
  void TearDown() override {
    if (::testing::Test::IsSkipped()) return;
    SshLauncherTest::restart({});
    if (auto client = connect(node_, options_)) (void)(*client)->teardown(false);
    EXPECT_FALSE(fs::exists(node_.root));
  }

  // Before each command of a login, `prints` (a shell's text) runs.
  void restart_with_start_up_file(const std::string& prints) {
    const std::string script = folder_.write(
        "start-up", "#!/bin/sh\n" + prints + "\nexec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n");
    fs::permissions(script, fs::perms::owner_all);
    restart({"ForceCommand=" + script});
  }

  void expect_served() {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const auto client = connect(node_, options_);
    const auto facts = client ? (*client)->facts() : Result<wire::agent::Facts>(client.error());
    const std::string printed =
        ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(facts) << facts.error().message;
    EXPECT_EQ(facts->root(), node_.root);
    EXPECT_NE(facts->hostname(), "a lie");
    EXPECT_EQ(printed, "") << "no host paints the terminal";
  }

  // The reason, without a control character in it.
  Error refused() {
    const auto client = connect(node_, options_);
    const auto facts = client ? (*client)->facts() : Result<wire::agent::Facts>(client.error());
    EXPECT_FALSE(facts);
    if (facts) return {};
    EXPECT_EQ(facts.error().message.find_first_of("\x1b\x07\r\x08"), std::string::npos);
    EXPECT_LT(facts.error().message.size(), 1000U) << "no flood in a message";
    return facts.error();
  }

  test::TemporaryFolder folder_;
  ConnectOptions options_;
};

// A larger one than 256 KiB is over what a packet may have, for ssh too, and sshd sends none over 1
// MiB.
TEST_F(SshNoiseTest, ABannerOfAnyKindIsNotHeard) {
  const std::string agent = fmt::format("\nPADDLECTL-AGENT {}\n", kProgramVersion);
  const std::string hostile = std::string(kControls) + agent + answer_frame();
  for (const std::string& text : {hostile, std::string(200'000, 'x'), std::string(kFlood, 'x')}) {
    const std::string banner = folder_.write("banner", text);
    restart({"Banner=" + banner});
    expect_served();
  }
}

TEST_F(SshNoiseTest, ABannerThatFitsNoPacketIsNamed) {
  restart({"Banner=" + folder_.write("banner", std::string(300'000, 'x'))});
  const Error error = refused();
  EXPECT_EQ(error.code, Errc::kUnreachable) << error.message;
  EXPECT_NE(error.hint.find("Banner"), std::string::npos) << error.message << error.hint;
}

TEST_F(SshNoiseTest, AStartUpFileMayPrintWhatIsNotExactlyTheAgentsLine) {
  folder_.write("noise", std::string(kControls) + "\nPADDLECTL-AGENT\n PADDLECTL-AGENT 1\n" +
                             answer_frame() + "\nxPADDLECTL-PROBE Linux vax /\nno line end");
  restart_with_start_up_file("cat " + (folder_ / "noise"));
  expect_served();
  expect_served();  // and with an agent that is there
}

TEST_F(SshNoiseTest, AFloodOnStderrStopsNothing) {
  restart_with_start_up_file(fmt::format("head -c {} /dev/zero >&2", kFlood));
  expect_served();
}

TEST_F(SshNoiseTest, AFloodOnStdoutIsNamedAsWhatItIs) {
  restart_with_start_up_file(fmt::format("head -c {} /dev/zero | tr '\\0' '\\033'", kFlood));
  const Error error = refused();
  EXPECT_EQ(error.code, Errc::kData) << error.message;
  EXPECT_NE(error.message.find("in the first 65536 bytes"), std::string::npos) << error.message;
  EXPECT_NE(error.hint.find("start-up file"), std::string::npos) << error.hint;
}

TEST_F(SshNoiseTest, AStartUpFileThatSpeaksAsTheAgentIsFoundOut) {
  expect_served();  // the agent is there now
  folder_.write("noise", fmt::format("PADDLECTL-AGENT {}\n", kProgramVersion) +
                             std::string(kControls) + "not a frame at all, and longer than one is");
  restart_with_start_up_file("cat " + (folder_ / "noise"));
  const Error error = refused();
  EXPECT_EQ(error.code, Errc::kData) << error.message;
  EXPECT_NE(error.message.find("not a paddle frame"), std::string::npos) << error.message;
}

// sshd runs a ForceCommand as it runs a login shell: it lets the user in, and nothing else happens.
TEST_F(SshNoiseTest, AShellThatRunsNothingIsNamedWithTheLineThatShowsIt) {
  const std::string silent = "the login shell ended without running a command";
  const std::string said = silent + "; its last output was 'no shell here'";
  const std::pair<const char*, std::string> shells[] = {
      {"/bin/false", silent},
      {"/bin/true", silent},
      {"/bin/sh -c 'kill -9 $$'", silent},
      {"/usr/sbin/nologin",
       silent + "; its last output was 'This account is currently not available.'"},
      {"/bin/sh -c 'echo no shell here'", said},
      {"/bin/sh -c 'printf \"hello\\n\\nno shell here\"'", said},
      {"/bin/sh -c 'echo no shell here >&2'", silent + " (no shell here)"},
  };
  for (const auto& [shell, message] : shells) {
    restart({fmt::format("ForceCommand={}", shell)});
    const Error error = refused();
    EXPECT_EQ(error.code, Errc::kUnreachable) << shell;
    EXPECT_EQ(error.message, "node node-0: " + message) << shell;
    EXPECT_NE(error.hint.find(fmt::format("by hand: ssh -p {} 127.0.0.2 true;", node_.ssh_port)),
              std::string::npos)
        << error.hint;
  }
  const auto beside = folders_beside(node_, options_);
  EXPECT_FALSE(beside) << "no shell, no folders";
}

// A shell that runs nothing is not to blame for a connection that ends.
TEST_F(SshNoiseTest, AConnectionThatEndsBeforeTheFirstAnswerIsNoFaultOfTheShell) {
  // The first command finds no agent; the second one, the probe, ends its connection.
  const std::string script = folder_.write(
      "end", fmt::format("#!/bin/sh\n[ -e {0} ] && kill -9 $PPID && sleep 60\ntouch {0}\n",
                         folder_ / "first"));
  fs::permissions(script, fs::perms::owner_all);
  restart({"ForceCommand=exec " + script});
  const Error error = refused();
  EXPECT_EQ(error.code, Errc::kUnreachable) << error.message;
  EXPECT_TRUE(fs::exists(folder_ / "first"));
  EXPECT_NE(error.message.find("connection lost"), std::string::npos) << error.message;
  EXPECT_EQ(error.message.find("login shell"), std::string::npos) << error.message;
}

TEST_F(SshNoiseTest, AStartUpFileThatWaitsIsNamed) {
  options_.deadline = seconds(5);
  for (const char* const waits : {"exec sh", "read x", "echo hello; cat"}) {
    restart_with_start_up_file(waits);
    const Error error = refused();
    EXPECT_EQ(error.code, Errc::kUnreachable) << error.message;
    EXPECT_NE(error.message.find("logged in, but the login shell does not answer: "),
              std::string::npos)
        << waits << ": " << error.message;
    EXPECT_NE(error.hint.find("may wait for input or start another shell"), std::string::npos)
        << error.hint;
    const bool is_shown = error.message.find("its last output was 'hello'") != std::string::npos;
    EXPECT_EQ(is_shown, std::string_view(waits).starts_with("echo")) << error.message;
  }
}

TEST_F(SshNoiseTest, AStartUpFileThatEmptiesThePathIsNamed) {
  for (const char* const text : {"PATH=; export PATH", "PATH=/nonexistent; export PATH; unset HOME",
                                 "PATH=/nonexistent; HOME='/home/my user'; export PATH HOME"}) {
    restart_with_start_up_file(text);
    const Error error = refused();
    EXPECT_EQ(error.code, Errc::kFailed) << error.message;
    EXPECT_NE(error.message.find("does not find the program uname"), std::string::npos)
        << text << ": " << error.message;
    EXPECT_NE(error.hint.find("check PATH"), std::string::npos) << error.hint;
  }
}

TEST_F(SshNoiseTest, AStartUpFileThatLimitsTheSizeOfFilesIsNamed) {
  for (const char* const text : {"ulimit -f 100", "trap '' XFSZ; ulimit -f 100"}) {
    restart_with_start_up_file(text);
    const Error error = refused();
    EXPECT_EQ(error.code, Errc::kResource) << error.message;
    EXPECT_NE(error.hint.find("allow larger files: ulimit -f, on the node"), std::string::npos)
        << text << ": " << error.message << error.hint;
    EXPECT_EQ(error.hint.find("disk"), std::string::npos) << error.hint;
  }
}

}  // namespace
}  // namespace paddle::remote

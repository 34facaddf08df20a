// Hostile answers of a node, none of which may harm paddlectl.
#include <fcntl.h>

#include <filesystem>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/version.h"
#include "proto/agent.pb.h"
#include "proto/frame_stream.h"
#include "tests/unit/remote/agent_fixture.h"

namespace paddle::remote {
namespace {

using namespace wire::agent;  // NOLINT: the messages are what this file is about

// An agent that says what the test wrote down, whatever it is asked.
class HostileAgentTest : public AgentTest {
 protected:
  HostileAgentTest()
      : answers_(::open((folder_ + "/answers").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {}
  ~HostileAgentTest() override { options_.agent_binary = AGENT_BINARY; }

  void answer(AgentKind kind, const google::protobuf::MessageLite& head, std::uint16_t flags = 0,
              const std::string& tail = "") {
    FrameHeader header;
    header.type = static_cast<std::uint8_t>(kind);
    header.flags = flags;
    header.sender = {Role::kAgent, 0};
    ASSERT_TRUE(write_frame(answers_.get(), header, as_bytes(head.SerializeAsString()),
                            as_bytes(tail), TimePoint::max()));
  }

  std::unique_ptr<AgentClient> connect_hostile() {
    options_.agent_binary = write_file(
        folder_ + "/hostile", "#!/bin/sh\nprintf 'PADDLECTL-AGENT " + std::string(kProgramVersion) +
                                  "\\n'; cat " + folder_ + "/answers; exec cat >/dev/null\n");
    return connect_agent();
  }

  UniqueFd answers_;
};

TEST_F(HostileAgentTest, AnAgentThatDoesNotAnswerIsLeftAfterTheTimeout) {
  answer(AGENT_FACTS, Facts());
  options_.agent_binary = write_file(
      folder_ + "/slow", "#!/bin/sh\nprintf 'PADDLECTL-AGENT " + std::string(kProgramVersion) +
                             "\\n'; sleep 3; cat " + folder_ + "/answers; exec cat >/dev/null\n");
  const auto patient = connect_agent();
  EXPECT_TRUE(patient->facts());
  node_.timeout = std::chrono::seconds(1);
  const auto facts = connect_agent()->facts();
  EXPECT_FALSE(facts) << "its answer came after 3 s";
  node_.timeout = {};
}

TEST_F(HostileAgentTest, AnAgentOfAnotherReleaseIsNamedWithBothVersions) {
  options_.agent_binary =
      write_file(folder_ + "/old", "#!/bin/sh\necho PADDLECTL-AGENT 0.0.9\nexec cat >/dev/null\n");
  const auto agent = connect(node_, options_);
  ASSERT_FALSE(agent);
  EXPECT_EQ(agent.error().code, Errc::kVersion);
  EXPECT_EQ(agent.error().message,
            std::string("node here: paddlectl-agent is 0.0.9, paddlectl is ") + kProgramVersion);
  EXPECT_NE(agent.error().hint.find("one folder: " + folder_ + "/old is the agent"),
            std::string::npos)
      << agent.error().hint;
}

// As a frame of another release would be: whole, with another version byte.
TEST_F(HostileAgentTest, FramesOfAnotherProtocolAreNamedWithBothVersions) {
  FrameHeader header;
  header.type = AGENT_FACTS;
  header.sender = {Role::kAgent, 0};
  FrameHeaderBytes bytes = encode_header(header, ByteSpan(), ByteSpan());
  bytes[4] = std::byte(kFrameVersion + 1);
  constexpr std::size_t kHeaderCrcAt = 12;
  store_le<std::uint32_t>(bytes.data() + kHeaderCrcAt, 0);
  store_le<std::uint32_t>(bytes.data() + kHeaderCrcAt, crc32c(bytes));
  ASSERT_TRUE(write_all(answers_.get(), bytes, TimePoint::max()));
  const auto facts = connect_hostile()->facts();
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Errc::kVersion) << facts.error().message;
  EXPECT_NE(facts.error().message.find(fmt::format("peer speaks protocol {}, this program {}",
                                                   kFrameVersion + 1, kFrameVersion)),
            std::string::npos)
      << facts.error().message;
  EXPECT_NE(facts.error().hint.find("same paddlectl release"), std::string::npos);
}

TEST_F(HostileAgentTest, AnErrorCannotChooseTheExitCode) {
  ErrorReply reply;
  reply.set_message("all is well\x1b[2J");
  for (const int code : {0, 256, -1, 130}) {
    reply.set_code(code);
    answer(AGENT_ERROR, reply);
  }
  const auto agent = connect_hostile();
  for (int i = 0; i < 4; ++i) {
    const auto facts = agent->facts();
    ASSERT_FALSE(facts);
    EXPECT_EQ(facts.error().code, Errc::kFailed);
    EXPECT_EQ(facts.error().message, "node here: all is well\\x1b[2J");
  }
}

TEST_F(HostileAgentTest, AListWithoutEndIsLeft) {
  answer(AGENT_LIST, ListReply(), kAgentFlagMore);
  auto agent = connect_hostile();
  const auto files = agent->list("output");
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code, Errc::kData) << files.error().message;
  EXPECT_FALSE(agent->facts()) << "nothing more is believed";
}

TEST_F(HostileAgentTest, AListOfProcessesHasABound) {
  ProcessesReply reply;
  for (int i = 0; i < 500; ++i) reply.add_processes();
  for (int i = 0; i < 30; ++i) answer(AGENT_PROCESSES, reply, kAgentFlagMore);
  const auto processes = connect_hostile()->processes("");
  ASSERT_FALSE(processes);
  EXPECT_EQ(processes.error().code, Errc::kData) << processes.error().message;
}

TEST_F(HostileAgentTest, AFileEndsWhereItWasSaidToEnd) {
  GetReply reply;
  reply.set_size(5);
  for (int i = 0; i < 3; ++i) answer(AGENT_GET, reply, kAgentFlagMore, "1234");
  const auto got = connect_hostile()->fetch("log", folder_ + "/log");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::kData) << got.error().message;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/log"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/log.part"));
}

TEST_F(HostileAgentTest, AHostileListingIsRefusedWhole) {
  const std::vector<std::vector<std::string>> listings = {{"../x"},
                                                          {"/x"},
                                                          {".."},
                                                          {"a/../x"},
                                                          {""},
                                                          {"a//b"},
                                                          {"./x"},
                                                          {std::string("a\0b", 3)},
                                                          {"new\nline"},
                                                          {"\x1b[2Jx"},
                                                          {"bell\a"},
                                                          {"del\x7f"},
                                                          {"tab\tx"},
                                                          {"cr\rx"},
                                                          {"fine", "../x"},
                                                          {"same", "same"},
                                                          {"f", "f/inside"},
                                                          {"f/inside", "f"},
                                                          {std::string(256, 'n')},
                                                          {std::string(5000, 'n')}};
  for (const auto& listing : listings) {
    ListReply reply;
    for (const std::string& name : listing) reply.add_files()->set_path(name);
    answer(AGENT_LIST, reply);
  }
  auto agent = connect_hostile();
  for (const auto& listing : listings) {
    const auto files = agent->list("output");
    ASSERT_FALSE(files) << listing.back();
    EXPECT_EQ(files.error().code, Errc::kData);
    EXPECT_EQ(files.error().message.find('\x1b'), std::string::npos);
  }
}

TEST_F(HostileAgentTest, BytesThatAreNoFrameAreNamed) {
  ASSERT_TRUE(write_all(answers_.get(), Bytes(1000, std::byte{'x'}), TimePoint::max()));
  const auto facts = connect_hostile()->facts();
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Errc::kData);
  EXPECT_TRUE(facts.error().message.starts_with("node here: lost the agent"))
      << facts.error().message;
}

TEST_F(HostileAgentTest, AnEndlessFrameIsRefusedBeforeItIsRead) {
  answer(AGENT_FACTS, Facts(), 0, std::string(kAgentPayloadBytesMax + 1, 'x'));
  const auto facts = connect_hostile()->facts();
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Errc::kData) << facts.error().message;
}

}  // namespace
}  // namespace paddle::remote

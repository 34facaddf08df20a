// Hostile answers of a node, none of which may harm paddlectl.
#include <fcntl.h>

#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"
#include "proto/agent.pb.h"
#include "proto/agent_channel.h"
#include "proto/content.h"
#include "tests/unit/remote/client/agent_fixture.h"

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
  for (int i = 0; i < 500; ++i) {
    reply.add_processes()->set_job("j");
    reply.mutable_processes(i)->set_name("trainer-0");
  }
  for (int i = 0; i < 30; ++i) answer(AGENT_PROCESSES, reply, kAgentFlagMore);
  const auto processes = connect_hostile()->processes("");
  ASSERT_FALSE(processes);
  EXPECT_EQ(processes.error().code, Errc::kData) << processes.error().message;
}

TEST_F(HostileAgentTest, AListOfLongNamesHasABound) {
  ListReply reply;
  for (int i = 0; i < 15; ++i) reply.add_files()->set_path(std::string(4096, 'x'));
  for (int i = 0; i < 1200; ++i) answer(AGENT_LIST, reply, kAgentFlagMore);
  const auto files = connect_hostile()->list("output");
  ASSERT_FALSE(files);
  EXPECT_NE(files.error().message.find("a list that is too long"), std::string::npos)
      << files.error().message;
}

TEST_F(HostileAgentTest, AProcessHasANameOfOurs) {
  for (const char* const name :
       {"", "a\nerror: fake", "$(id)", "-rf", ".hidden", "a/b", "\x1b[2J"}) {
    for (const bool is_job : {false, true}) {
      answers_ = UniqueFd(::open((folder_ + "/answers").c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
      ProcessesReply reply;
      reply.add_processes()->set_job(is_job ? name : "j");
      reply.mutable_processes(0)->set_name(is_job ? "trainer-0" : name);
      answer(AGENT_PROCESSES, reply);
      const auto processes = connect_hostile()->processes("");
      ASSERT_FALSE(processes) << name;
      EXPECT_EQ(processes.error().code, Errc::kData);
      EXPECT_EQ(processes.error().message.find('\n'), std::string::npos);
    }
  }
}

// Each process comes in time, and the list never ends.
TEST_F(HostileAgentTest, AListOfProcessesThatDripsIsLeftAfterTheTimeout) {
  ProcessesReply reply;
  reply.add_processes()->set_job("j");
  reply.mutable_processes(0)->set_name("trainer-0");
  answer(AGENT_PROCESSES, reply, kAgentFlagMore);
  options_.agent_binary = write_file(
      folder_ + "/drip", "#!/bin/sh\nprintf 'PADDLECTL-AGENT " + std::string(kProgramVersion) +
                             "\\n'; while cat " + folder_ + "/answers; do sleep 0.2; done\n");
  node_.timeout = std::chrono::seconds(2);
  const auto processes = connect_agent()->processes("");
  ASSERT_FALSE(processes);
  EXPECT_EQ(processes.error().code, Errc::kUnreachable) << processes.error().message;
}

TEST_F(HostileAgentTest, ACommandThatGoesOnToSendIsLeftAfterItsTimeout) {
  RunReply reply;
  answer(AGENT_RUN, reply, kAgentFlagMore, "more");
  options_.agent_binary = write_file(
      folder_ + "/endless", "#!/bin/sh\nprintf 'PADDLECTL-AGENT " + std::string(kProgramVersion) +
                                "\\n'; while cat " + folder_ + "/answers; do sleep 0.02; done\n");
  const auto agent = connect_agent();
  const auto ended = agent->run(
      {.arguments = {"/bin/true"}, .timeout = std::chrono::milliseconds(100)},
      [](std::string_view, bool) {}, [] { return false; });
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::kUnreachable) << ended.error().message;
}

TEST_F(HostileAgentTest, AFileEndsWhereItWasListedToEnd) {
  const std::string hash = to_hex(sha256_of(as_bytes("12345")));
  const FetchItem item{"log", folder_ + "/log", 5, hash};
  const auto fetch = [&](const std::string& first, const std::string& last, std::uint32_t raw) {
    answers_ = UniqueFd(::open((folder_ + "/answers").c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    GetReply reply;
    reply.set_raw_bytes(raw);
    if (!first.empty()) answer(AGENT_GET, reply, kAgentFlagMore, first);
    answer(AGENT_GET, reply, 0, last);
    return connect_hostile()->fetch({item});
  };
  ASSERT_TRUE(fetch("", "12345", 0));
  ASSERT_TRUE(fetch("123", "45", 0));
  const std::string zeros(1U << 20U, '\0');
  const auto packed = compress(as_bytes(zeros));
  ASSERT_TRUE(packed);
  const std::string bomb(as_text(*packed));
  const auto many = static_cast<std::uint32_t>(zeros.size());
  for (const auto& got : {fetch("1234", "1234", 0), fetch("12345", "", 0), fetch("", "1234", 0),
                          fetch("", "", 0), fetch("", zeros, 0), fetch("", bomb, many)}) {
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Errc::kData) << got.error().message;
    EXPECT_NE(got.error().message.find("log does not have the listed size of 5 bytes"),
              std::string::npos)
        << got.error().message;
  }
  const auto other = fetch("", "12346", 0);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message,
            "node here: log: the 5 bytes received do not match the listed hash");
  EXPECT_EQ(file_content(folder_ + "/log"), "12345") << "nothing unverified has the name";
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_FALSE(is_part_of_fetch(entry.path().filename().string())) << entry.path();
}

TEST_F(HostileAgentTest, AnAnswerOfALogIsNoLongerThanAsked) {
  answer(AGENT_READ_FILE, ReadFileReply(), 0, std::string(11, 'x'));
  const auto read = connect_hostile()->read_file("log", 0, 10);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::kData) << read.error().message;
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

// Every request of a client, whose answers may be anything.
void ask_everything(AgentClient& agent, const std::string& folder) {
  static_cast<void>(agent.facts());
  static_cast<void>(agent.list("output"));
  static_cast<void>(agent.list_sizes("output"));
  static_cast<void>(agent.list_own_files("output"));
  static_cast<void>(agent.fetch({{"log", folder + "/fetched/log", 5, std::string(64, 'a')}}));
  static_cast<void>(agent.check_ports("127.0.0.1", 7164, 4));
  static_cast<void>(agent.claim_ports("127.0.0.1", 7164, 4));
  static_cast<void>(agent.leftovers());
  static_cast<void>(agent.probe("127.0.0.1", 7164,
                                *Secret::from_bytes(as_bytes(std::string(kSecretBytes, 'k'))), 0));
  static_cast<void>(agent.processes(""));
  static_cast<void>(agent.status("j"));
  static_cast<void>(agent.read_file("log", 0, 4096));
  static_cast<void>(agent.run(
      {.arguments = {"/bin/true"}}, [](std::string_view, bool) {}, [] { return false; }));
  CopyTree tree;
  static_cast<void>(agent.export_to(tree, "inside", "/outside"));
  static_cast<void>(agent.import_from("/outside", "inside", tree));
  static_cast<void>(agent.teardown(false));
}

// Answers of every kind, with fields that are random, to requests of another kind.
TEST_F(HostileAgentTest, AnswersOfAnyKindAndContentHarmNothing) {
  Rng rng(20261127);
  const auto text = [&] {
    constexpr std::array<std::string_view, 8> kTexts{
        "",        "trainer-0", "../../etc/passwd", "/dev/null", std::string_view("a\0b", 3),
        "\x1b[2J", "a\nb",      "jobs/j/x"};
    return rng.below(4) == 0 ? std::string(rng.below(300), static_cast<char>(rng.below(128)))
                             : std::string(kTexts[rng.below(kTexts.size())]);
  };
  const auto number = [&] {
    constexpr std::array<std::uint64_t, 7> kNumbers{0,           1,           65536, ~0U,
                                                    1ULL << 40U, 1ULL << 63U, ~0ULL};
    return kNumbers[rng.below(kNumbers.size())];
  };
  std::filesystem::create_directory(folder_ + "/fetched");
  node_.timeout = std::chrono::seconds(1);
  for (int round = 0; round < 25; ++round) {
    answers_ = UniqueFd(::open((folder_ + "/answers").c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    for (int i = 0; i < 24; ++i) {
      const auto kind = static_cast<AgentKind>(rng.below(80));
      const auto flags = static_cast<std::uint16_t>(rng.below(4) == 0 ? rng.next() : 0);
      ProcessesReply processes;
      for (std::uint64_t left = rng.below(4); left > 0; --left) {
        auto* const one = processes.add_processes();
        one->set_job(text());
        one->set_name(text());
        one->set_pid(static_cast<std::int32_t>(number()));
      }
      ListReply files;
      for (std::uint64_t left = rng.below(4); left > 0; --left) {
        auto* const one = files.add_files();
        one->set_path(text());
        one->set_size(number());
      }
      Facts facts;
      facts.set_address(text());
      facts.set_architecture(text());
      facts.set_cores(static_cast<std::uint32_t>(number()));
      facts.set_memory_bytes(number());
      std::string noise(rng.below(200), '\0');
      for (char& c : noise) c = static_cast<char>(rng.next());
      ErrorReply raw;  // its unknown fields are the noise
      static_cast<void>(raw.ParsePartialFromString(noise));
      const std::array<const google::protobuf::MessageLite*, 4> heads{&processes, &files, &facts,
                                                                      &raw};
      answer(kind, *heads[rng.below(heads.size())], flags, rng.below(2) == 0 ? "" : text());
    }
    // It ends behind its answers, so that no request waits for more.
    options_.agent_binary = write_file(
        folder_ + "/hostile", "#!/bin/sh\nprintf 'PADDLECTL-AGENT " + std::string(kProgramVersion) +
                                  "\\n'; cat " + folder_ + "/answers\n");
    const auto agent = connect_agent();
    ASSERT_TRUE(agent);
    ask_everything(*agent, folder_);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/fetched"));
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

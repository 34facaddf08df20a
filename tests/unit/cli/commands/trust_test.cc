// trust, of servers that a test plays: how it asks, and what it prints and adds.
#include <mutex>
#include <optional>
#include <sstream>

#include <gtest/gtest.h>

#include "cli/command_line.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

constexpr const char* kFingerprint = "SHA256:0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";

class TrustTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write(
        "lab.toml",
        "[ssh]\ndirectory = \"ssh\"\n[[node]]\nhost = \"10.0.0.1\"\nname = \"gpu-node-1\"\n"
        "[[node]]\nhost = \"2001:db8::1\"\n");
    folder_.make("ssh");
  }

  int run(std::vector<std::string> arguments, std::vector<std::optional<std::string>> answers) {
    out_.str("");
    err_.str("");
    questions_.clear();
    Console console(out_, err_, {.columns = 80});
    Context context{console,
                    clock_,
                    {},
                    [](Duration) {},
                    [] { return false; },
                    [] { return std::int64_t{1}; },
                    "",
                    folder_.path()};
    context.host_key = [this](const remote::NodeSpec& node) -> Result<remote::ShownHostKey> {
      const std::lock_guard lock(mutex_);
      asked_.push_back(node);
      remote::ShownHostKey key;
      key.label = node.host + ":22";
      key.fingerprint = std::string("ssh-ed25519 ") + kFingerprint;
      key.known_hosts = folder_ / "known_hosts";
      key.line = node.host + " ssh-ed25519 AAAA";
      key.known = known_;
      return key;
    };
    context.ask = [&, next = std::size_t{0}](std::string_view question,
                                             bool) mutable -> std::optional<std::string> {
      questions_.emplace_back(question);
      return next < answers.size() ? answers[next++] : std::nullopt;
    };
    arguments.insert(arguments.begin(), {"trust", "--cluster", "lab.toml"});
    return run_app(context, std::move(arguments));
  }
  std::string added() const { return test::TemporaryFolder::read(folder_ / "known_hosts"); }

  test::TemporaryFolder folder_;
  SteadyClock clock_;
  std::ostringstream out_, err_;
  std::vector<std::string> questions_;
  std::mutex mutex_;
  std::vector<remote::NodeSpec> asked_;
  bool known_ = false;
};

TEST_F(TrustTest, AsksAgainUntilTheAnswerIsYesOrNo) {
  EXPECT_EQ(run({}, {"y", "", "sure", " Yes "}), 0) << err_.str();
  ASSERT_EQ(questions_.size(), 4U);
  EXPECT_EQ(questions_[0], "trust 2 new host keys? Type yes or no: ");
  EXPECT_EQ(questions_[1], "Type yes in full, no, or the fingerprint: ");
  EXPECT_EQ(added(), "10.0.0.1 ssh-ed25519 AAAA\n2001:db8::1 ssh-ed25519 AAAA\n");
}

TEST_F(TrustTest, NoAndNonsenseAddNothing) {
  for (const auto& answers :
       std::vector<std::vector<std::optional<std::string>>>{{"no"},
                                                            {"NO"},
                                                            {"a", "b", "c", "d", "e", "yes"},
                                                            {std::nullopt},
                                                            {"SHA256:other", "no"}}) {
    EXPECT_EQ(run({}, answers), static_cast<int>(Errc::kAuth));
    EXPECT_EQ(added(), "");
    EXPECT_NE(err_.str().find("--fingerprint"), std::string::npos) << err_.str();
  }
  EXPECT_EQ(run({}, {"no"}), static_cast<int>(Errc::kAuth));
  EXPECT_NE(err_.str().find("error: no key was added"), std::string::npos) << err_.str();
}

TEST_F(TrustTest, TheFingerprintIsAYes) {
  EXPECT_EQ(run({}, {kFingerprint}), 0) << err_.str();
  EXPECT_NE(added(), "");
}

TEST_F(TrustTest, ItsTableFitsInEightyColumns) {
  known_ = true;
  ASSERT_EQ(run({}, {}), 0) << err_.str();
  std::istringstream lines(out_.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_NE(out_.str().find(kFingerprint), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("gpu-node-1"), std::string::npos) << out_.str();
  ASSERT_EQ(run({"--json"}, {}), 0) << err_.str();
  EXPECT_NE(out_.str().find(std::string("\"host_key\": \"ssh-ed25519 ") + kFingerprint),
            std::string::npos)
      << out_.str();
}

TEST_F(TrustTest, AHostOfTheClusterMayBeWrittenInBracketsAndWithAPort) {
  known_ = true;
  for (const auto& [word, host] :
       std::vector<std::pair<std::string, std::string>>{{"gpu-node-1", "10.0.0.1"},
                                                        {"10.0.0.1:22", "10.0.0.1"},
                                                        {"2001:db8::1", "2001:db8::1"},
                                                        {"[2001:db8::1]", "2001:db8::1"},
                                                        {"2001-db8--1", "2001:db8::1"}}) {
    asked_.clear();
    ASSERT_EQ(run({word}, {}), 0) << word << err_.str();
    ASSERT_EQ(asked_.size(), 1U) << word;
    EXPECT_EQ(asked_[0].host, host);
  }
  EXPECT_EQ(run({"other:x"}, {}), static_cast<int>(Errc::kUsage));
}

}  // namespace
}  // namespace paddle::cli

#include "remote/agent/process/claims.h"

#include <sys/stat.h>

#include <filesystem>

#include "base/secret.h"
#include "remote/agent/process/key_files.h"
#include "tests/support/free_ports.h"
#include "tests/support/small_disk.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/remote/agent_fixture.h"

namespace paddle::remote {
namespace {

class ClaimsTest : public AgentTest {
 protected:
  Status claim(AgentClient& agent, const std::string& job, bool again = false) {
    return agent.claim_job(job, again);
  }
  std::string key(const std::string& job) {
    return file_content(node_.root + "/jobs/" + job + "/keys/trainer-0");
  }
};

TEST_F(ClaimsTest, SecretIsReadableByNobodyElse) {
  auto agent = connect_agent();
  const auto secret = Secret::generate();
  EXPECT_FALSE(agent->write_keys("job-1", "trainer-0", secret->reveal()))
      << "somebody else may be starting it";
  ASSERT_TRUE(claim(*agent, "job-1"));
  ASSERT_TRUE(agent->write_keys("job-1", "trainer-0", secret->reveal()));
  const std::string path = node_.root + "/jobs/job-1/keys/trainer-0";
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  ASSERT_EQ(::stat((node_.root + "/jobs/job-1").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0700U);
  EXPECT_EQ(file_content(path), std::string(as_text(secret->reveal())));
}

TEST(Claims, TheKeysOfAJobThatEndsOnAFullDiskAreWiped) {
  const test::TemporaryFolder folder;
  const auto work = [&] {
    const auto root = agent::open_root(folder.path());
    ASSERT_TRUE(root) << root.error().message;
    ASSERT_TRUE(agent::write_key_file(*root, "job", "trainer-0", as_bytes("secret")));
    const std::string key = folder / "jobs/job/keys/trainer-0";
    ASSERT_EQ(file_content(key), "secret");
    test::fill(folder / "full");
    agent::wipe_unneeded_keys(*root, "job", {});
    EXPECT_FALSE(std::filesystem::exists(key));
  };
  if (!test::on_small_disk(folder.path(), "256k", work))
    GTEST_SKIP() << "nothing can be mounted here";
}

TEST(Claims, AReleaseSparesTheClaimOfAJobThatWasRemovedAndStartedAgain) {
  const test::TemporaryFolder folder;
  const auto root = agent::open_root(folder.make("root"));
  ASSERT_TRUE(root);
  agent::Claims first(*root);
  agent::Claims second(*root);
  agent::Claims third(*root);
  ASSERT_TRUE(first.job("job", false, {}));
  EXPECT_FALSE(second.job("job", false, {})) << "it is claimed";
  std::filesystem::remove_all(folder.path() + "/root/jobs/job");
  ASSERT_TRUE(second.job("job", false, {}));
  first.release();
  EXPECT_FALSE(third.job("job", false, {})) << "the second session has it";
  second.release();
  EXPECT_TRUE(third.job("job", false, {}));
}

TEST(Claims, AreSeenByEverybodyUntilTheyAreReleased) {
  const test::TemporaryFolder folder;
  const auto root = agent::open_root(folder.make("root"));
  ASSERT_TRUE(root);
  agent::Claims first(*root);
  agent::Claims second(*root);
  EXPECT_FALSE(agent::is_claimed(*root, "job"));
  ASSERT_TRUE(first.job("job", false, {}));
  EXPECT_TRUE(agent::is_claimed(*root, "job"));
  EXPECT_FALSE(agent::is_claimed(*root, "other"));
  first.release();
  EXPECT_FALSE(agent::is_claimed(*root, "job"));
  EXPECT_TRUE(second.job("job", false, {})) << "to look is to hold nothing";
}

TEST_F(ClaimsTest, AJobIsStartedByOneAtATime) {
  auto first = connect_agent();
  auto second = connect_agent();
  ASSERT_TRUE(claim(*first, "job-1"));
  ASSERT_TRUE(first->write_keys("job-1", "trainer-0", Secret::generate()->reveal()));
  const std::string secret = key("job-1");
  const Status refused = claim(*second, "job-1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUsage);
  EXPECT_NE(refused.error().message.find("another paddlectl is starting a job named 'job-1'"),
            std::string::npos);
  const std::string holder = file_content(node_.root + "/jobs/job-1/claim");
  ASSERT_FALSE(holder.empty());
  EXPECT_NE(refused.error().hint.find("(pid " + holder + ")"), std::string::npos)
      << refused.error().hint;
  EXPECT_FALSE(second->write_keys("job-1", "trainer-0", Secret::generate()->reveal()));
  EXPECT_EQ(key("job-1"), secret) << "the loser wrote over the winner's secret";
  EXPECT_TRUE(claim(*second, "job-2"));
  ASSERT_TRUE(first->started());
  EXPECT_FALSE(std::filesystem::exists(node_.root + "/jobs/job-1")) << "nothing ran";
  EXPECT_TRUE(claim(*second, "job-1")) << "nothing was started in between";
}

TEST_F(ClaimsTest, AClaimEndsWithItsSessionAndNotWithWhatItStarted) {
  auto first = connect_agent();
  push_script(*first, "sleeper", "exec sleep 1000");
  ASSERT_TRUE(claim(*first, "job-1"));
  ASSERT_TRUE(first->start(script("sleeper", "p")));
  first.reset();
  auto second = connect_agent();
  const Status refused = claim(*second, "job-1", true);
  ASSERT_FALSE(refused) << "it runs";
  EXPECT_NE(refused.error().message.find("already exists"), std::string::npos)
      << refused.error().message;
  ASSERT_TRUE(second->stop("job-1", {}, std::chrono::seconds(5)));
  EXPECT_FALSE(claim(*second, "job-1")) << "a new one, over what the old one left";
  EXPECT_TRUE(claim(*second, "job-1", true));
}

TEST_F(ClaimsTest, APortIsClaimedOnceOnAMachine) {
  const auto port = static_cast<std::uint16_t>(test::free_ports(3));
  ASSERT_GT(port, 0);
  auto first = connect_agent();
  NodeSpec other = node_;
  other.root += "-other";
  auto second = *connect(other, options_);
  ASSERT_TRUE(first->claim_ports("127.0.0.1", port, 2)->at(1).free);
  EXPECT_TRUE(first->claim_ports("127.0.0.1", port, 2)->at(1).free) << "its own";
  const auto refused = second->claim_ports("127.0.0.1", static_cast<std::uint16_t>(port + 1), 2);
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_FALSE(refused->at(0).free);
  EXPECT_TRUE(refused->at(0).claimed);
  EXPECT_TRUE(refused->at(1).free);
  EXPECT_TRUE(second->check_ports("127.0.0.1", port, 1)->at(0).free) << "nobody listens there";
  EXPECT_TRUE(second->claim_ports("127.0.0.77", port, 1)->at(0).free) << "another address";
  ASSERT_TRUE(first->started());
  EXPECT_TRUE(second->claim_ports("127.0.0.1", port, 2)->at(0).free);
  EXPECT_TRUE(second->teardown(false));
}

}  // namespace
}  // namespace paddle::remote

#include "remote/agent/process/claims.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/secret.h"
#include "remote/agent/process/key_files.h"
#include "tests/support/free_ports.h"
#include "tests/support/small_disk.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

class ClaimsTest : public AgentTest {
 protected:
  Status claim(AgentClient& agent, const std::string& job, bool again = false) {
    return claim_to_start(agent, job, again);
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
    agent::wipe_unneeded_keys(*root, "job");
    EXPECT_FALSE(std::filesystem::exists(key));
  };
  if (!test::on_small_disk(folder.path(), "256k", work))
    GTEST_SKIP() << "nothing can be mounted here";
}

// The claims of one session in this process, with a name of its own.
class Claimant {
 public:
  Claimant(const agent::Root& root, std::string who) : claims_(root), who_(std::move(who)) {}

  // The claims in the way, "" when there are none, or the error.
  std::string claim(JobCommand command, const std::string& phase = "") {
    wire::agent::ClaimRequest request;
    request.set_job("job");
    request.mutable_claim()->set_command(static_cast<std::uint32_t>(command));
    request.mutable_claim()->set_who(who_);
    request.mutable_claim()->set_phase(phase);
    const auto others = claims_.claim(request, {});
    if (!others) return others.error().message;
    std::string text;
    for (const auto& other : *others) text += other.who() + " " + other.phase() + ";";
    return text;
  }
  agent::Claims& claims() { return claims_; }

 private:
  agent::Claims claims_;
  std::string who_;
};

class ClaimsOfOneNode : public ::testing::Test {
 protected:
  bool is_started(const std::string& job) const {
    return agent::has_starter(agent::claims_of(root_, job));
  }

  test::TemporaryFolder folder_;
  agent::Root root_ = *agent::open_root(folder_.make("root"));
};

TEST_F(ClaimsOfOneNode, TwoCommandsAreOrderedAsTheTableHasIt) {
  for (const JobCommand holder : all_job_commands()) {
    for (const JobCommand newcomer : all_job_commands()) {
      Claimant first(root_, "alice");
      Claimant second(root_, "bob");
      ASSERT_EQ(first.claim(holder), "");
      const Order order = order_of(holder, newcomer);
      const bool goes_on = order == Order::kBeside || order == Order::kOver;
      EXPECT_EQ(second.claim(newcomer), goes_on ? "" : "alice ;")
          << name_of(holder) << ", then " << name_of(newcomer);
      EXPECT_EQ(static_cast<bool>(first.claims().check("job")), order != Order::kOver);
      first.claims().release();
      EXPECT_EQ(second.claim(newcomer), "");
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "root")) << "claims leave nothing";
}

TEST_F(ClaimsOfOneNode, WhatWasRevokedStartsNothingAndNamesWho) {
  Claimant train(root_, "alice@laptop, pid 12");
  Claimant stop(root_, "bob@desk, pid 7");
  ASSERT_EQ(train.claim(JobCommand::kTrain), "");
  EXPECT_TRUE(train.claims().may_start("job"));
  ASSERT_EQ(stop.claim(JobCommand::kStopNow), "");
  EXPECT_FALSE(train.claims().may_start("job"));
  EXPECT_EQ(train.claims().check("job").error().message,
            "job job was ended by paddlectl stop --now of bob@desk, pid 7");
  EXPECT_NE(train.claim(JobCommand::kTrain, "goes on").find("bob@desk"), std::string::npos);
  EXPECT_FALSE(is_started("job")) << "nobody starts it";
  train.claims().release();
  Claimant third(root_, "carol");
  EXPECT_EQ(third.claim(JobCommand::kTrain), "bob@desk, pid 7 ;") << "the stop goes on";
  // It may still end and fetch what it began.
  EXPECT_EQ(train.claim(JobCommand::kFinish), "");
}

TEST_F(ClaimsOfOneNode, WhatIsStartedWhileAStopNowRevokesTheClaimIsEndedAgain) {
  Claimant restart(root_, "alice");
  Claimant stop(root_, "bob");
  ASSERT_EQ(restart.claim(JobCommand::kRestartProcess), "");
  std::string done;
  const auto note = [&](const char* what) { return [&done, what] { done += what; }; };
  const auto works = [&] {
    done += "started ";
    return Status();
  };
  EXPECT_TRUE(restart.claims().start("job", works, note("ended ")));
  EXPECT_EQ(done, "started ");
  done.clear();
  const Status revoked = restart.claims().start(
      "job",
      [&] {
        EXPECT_EQ(stop.claim(JobCommand::kStopNow), "");
        return works();
      },
      note("ended "));
  ASSERT_FALSE(revoked);
  EXPECT_NE(revoked.error().message.find("was ended by"), std::string::npos);
  EXPECT_EQ(done, "started ended ");
  EXPECT_NE(restart.claims().revoker("job").find("bob"), std::string::npos);
  done.clear();
  EXPECT_FALSE(restart.claims().start("job", works, note("ended ")));
  EXPECT_EQ(done, "") << "nothing is started any more";
}

TEST_F(ClaimsOfOneNode, AnotherCommandOfOneSessionTakesThePlaceOfTheFirst) {
  Claimant first(root_, "alice");
  Claimant second(root_, "bob");
  ASSERT_EQ(first.claim(JobCommand::kRestart), "");
  ASSERT_EQ(first.claim(JobCommand::kRestart, "waits for its trainers to save"), "");
  EXPECT_EQ(second.claim(JobCommand::kStop), "alice waits for its trainers to save;");
  ASSERT_EQ(first.claim(JobCommand::kFetch), "");
  EXPECT_EQ(second.claim(JobCommand::kStop), "");
  EXPECT_EQ(first.claims().holder("job"), "paddlectl fetch of alice");
}

// A paddlectl that was killed leaves its file, without the lock on it.
TEST_F(ClaimsOfOneNode, AClaimWithoutAHolderCountsForNothing) {
  Claimant first(root_, "alice");
  {
    Claimant holder(root_, "bob");
    ASSERT_EQ(holder.claim(JobCommand::kStop), "");
    std::filesystem::copy_file(
        std::filesystem::directory_iterator(folder_ / "root/claims/job")->path(),
        folder_ / "root/claims/job/9-9");
    EXPECT_EQ(first.claim(JobCommand::kTrain), "bob ;");
  }
  EXPECT_EQ(first.claim(JobCommand::kTrain), "");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "root/claims/job/9-9"));
}

TEST_F(ClaimsOfOneNode, ATeardownTakesThemAndSparesThoseThatCome) {
  Claimant first(root_, "alice");
  Claimant second(root_, "bob");
  Claimant third(root_, "carol");
  ASSERT_EQ(first.claim(JobCommand::kTrain), "");
  EXPECT_EQ(second.claim(JobCommand::kTrain), "alice ;");
  std::filesystem::remove_all(folder_ / "root/claims");
  ASSERT_EQ(second.claim(JobCommand::kTrain), "");
  first.claims().release();
  EXPECT_EQ(third.claim(JobCommand::kTrain), "bob ;");
  second.claims().release();
  EXPECT_EQ(third.claim(JobCommand::kTrain), "");
}

TEST_F(ClaimsOfOneNode, AreSeenByEverybodyUntilTheyAreReleased) {
  Claimant first(root_, "alice");
  Claimant second(root_, "bob");
  EXPECT_FALSE(is_started("job"));
  ASSERT_EQ(first.claim(JobCommand::kTrain), "");
  EXPECT_TRUE(is_started("job"));
  EXPECT_FALSE(is_started("other"));
  first.claims().release();
  EXPECT_FALSE(is_started("job"));
  EXPECT_EQ(second.claim(JobCommand::kStop), "") << "to look is to hold nothing";
  EXPECT_FALSE(is_started("job")) << "a stop starts nothing";
}

TEST_F(ClaimsTest, AJobIsStartedByOneAtATime) {
  auto first = connect_agent();
  auto second = connect_agent();
  ASSERT_TRUE(claim(*first, "job-1"));
  ASSERT_TRUE(first->write_keys("job-1", "trainer-0", Secret::generate()->reveal()));
  const std::string secret = key("job-1");
  const Status refused = claim(*second, "job-1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "claimed by alice@laptop, pid 12");
  EXPECT_FALSE(second->write_keys("job-1", "trainer-0", Secret::generate()->reveal()));
  EXPECT_EQ(key("job-1"), secret) << "the loser wrote over the winner's secret";
  EXPECT_TRUE(claim(*second, "job-2"));
  ASSERT_TRUE(first->started());
  EXPECT_FALSE(std::filesystem::exists(node_.root + "/jobs/job-1")) << "nothing ran";
  EXPECT_TRUE(claim(*second, "job-1")) << "nothing was started in between";
}

TEST_F(ClaimsTest, AStopNowEndsWhatAnotherOneIsStarting) {
  auto train = connect_agent();
  auto stop = connect_agent();
  push_script(*train, "sleeper", "exec sleep 1000");
  ASSERT_TRUE(claim(*train, "job-1"));
  ASSERT_TRUE(train->start(script("sleeper", "pserver-0")));
  ASSERT_TRUE(stop->claim_job({"job-1", {JobCommand::kStopNow, "bob@desk, pid 7"}}));
  ASSERT_TRUE(stop->stop("job-1", {}, std::chrono::seconds(5)));
  const Status refused = train->start(script("sleeper", "trainer-0"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("ended by paddlectl stop --now of bob@desk, pid 7"),
            std::string::npos)
      << refused.error().message;
  const auto left = stop->processes("job-1");
  ASSERT_TRUE(left);
  ASSERT_EQ(left->size(), 1U);
  EXPECT_EQ(left->at(0).stopped_by, "paddlectl stop --now of bob@desk, pid 7");
  EXPECT_TRUE(left->at(0).stop_ordered);
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
  EXPECT_NE(refused.error().message.find("job job-1 still runs"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(refused.error().hint,
            "follow it: paddlectl attach --job job-1; or end it: paddlectl stop --job job-1");
  ASSERT_TRUE(second->stop("job-1", {}, std::chrono::seconds(5)));
  EXPECT_FALSE(claim(*second, "job-1")) << "a new one, over what the old one left";
  EXPECT_TRUE(claim(*second, "job-1", true));
}

// One that runs as another user, and has every abstract name of a port's claim that it can bind.
class Squatter {
 public:
  Squatter(std::uint16_t port, int type) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const bool is_other = ::setgid(12345) == 0 && ::setuid(12345) == 0;
      for (int i = 0; is_other && i < 8; ++i) {
        std::string name = "paddlectl port 127.0.0.1:" + std::to_string(port);
        if (i > 0) name += " " + std::to_string(i);
        sockaddr_un own{};
        own.sun_family = AF_UNIX;
        std::memcpy(own.sun_path + 1, name.data(), name.size());
        const int fd = ::socket(AF_UNIX, type, 0);
        (void)::bind(fd, reinterpret_cast<const sockaddr*>(&own),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
        (void)::listen(fd, 0);
      }
      if (::write(ready[1], "r", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char none;
    EXPECT_EQ(::read(ready[0], &none, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Squatter() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Squatter(const Squatter&) = delete;
  Squatter& operator=(const Squatter&) = delete;

 private:
  pid_t pid_ = -1;
};

TEST_F(ClaimsTest, NamesOfOtherUsersCountForNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user too";
  for (const int type : {SOCK_DGRAM, SOCK_STREAM, SOCK_SEQPACKET}) {
    const auto port = static_cast<std::uint16_t>(test::free_ports(1));
    ASSERT_GT(port, 0);
    const Squatter squatter(port, type);
    auto first = connect_agent();
    const auto claimed = first->claim_ports("127.0.0.1", port, 1);
    ASSERT_TRUE(claimed) << claimed.error().message;
    EXPECT_TRUE(claimed->at(0).free) << "type " << type;
  }
}

// As of any user; the holder accepts none. Whether one more was not taken, because there is no
// room.
bool connect_until_full(std::uint16_t port, std::vector<UniqueFd>& held) {
  const std::string name = "paddlectl port 127.0.0.1:" + std::to_string(port);
  sockaddr_un own{};
  own.sun_family = AF_UNIX;
  std::memcpy(own.sun_path + 1, name.data(), name.size());
  for (int i = 0; i < 1000; ++i) {
    held.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(held.back().get(), reinterpret_cast<const sockaddr*>(&own),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) != 0)
      return errno == EAGAIN;
  }
  return false;
}

TEST_F(ClaimsTest, NamesOfOtherUsersCountForNothingWhenTheyTakeNoConnection) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user too";
  const auto port = static_cast<std::uint16_t>(test::free_ports(1));
  ASSERT_GT(port, 0);
  const Squatter squatter(port, SOCK_STREAM);
  std::vector<UniqueFd> held;
  ASSERT_TRUE(connect_until_full(port, held));
  auto first = connect_agent();
  const auto claimed = first->claim_ports("127.0.0.1", port, 1);
  ASSERT_TRUE(claimed) << claimed.error().message;
  EXPECT_TRUE(claimed->at(0).free);
}

TEST_F(ClaimsTest, APortStaysClaimedHoweverOftenOthersLookAtIt) {
  const auto port = static_cast<std::uint16_t>(test::free_ports(1));
  ASSERT_GT(port, 0);
  NodeSpec other = node_;
  other.root += "-other";
  auto second = *connect(other, options_);
  enum class Look { kClaims, kConnections, kConnectionsThatStay };
  std::vector<UniqueFd> held;
  for (const Look look : {Look::kClaims, Look::kConnections, Look::kConnectionsThatStay}) {
    const std::string which = "look " + std::to_string(static_cast<int>(look));
    auto first = connect_agent();
    ASSERT_TRUE(first->claim_ports("127.0.0.1", port, 1)->at(0).free) << which;
    const std::string owner = second->claim_ports("127.0.0.1", port, 1)->at(0).owner;
    EXPECT_TRUE(owner.starts_with("paddlectl-agent, pid ")) << owner;
    if (look != Look::kClaims) {
      ASSERT_TRUE(connect_until_full(port, held)) << which;
    }
    if (look == Look::kConnections) held.clear();
    for (int i = 0; i < 70; ++i) {
      const auto refused = second->claim_ports("127.0.0.1", port, 1);
      ASSERT_TRUE(refused) << refused.error().message;
      ASSERT_TRUE(refused->at(0).claimed) << which << ", " << i;
      ASSERT_EQ(refused->at(0).owner, owner) << which << ", " << i;
    }
    ASSERT_TRUE(first->started());
    EXPECT_TRUE(second->claim_ports("127.0.0.1", port, 1)->at(0).free) << which;
    ASSERT_TRUE(second->started());
  }
  EXPECT_TRUE(second->teardown(false));
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
  EXPECT_TRUE(refused->at(0).owner.starts_with("paddlectl-agent, pid ")) << refused->at(0).owner;
  EXPECT_TRUE(refused->at(1).free);
  EXPECT_TRUE(second->check_ports("127.0.0.1", port, 1)->at(0).free) << "nobody listens there";
  EXPECT_TRUE(second->claim_ports("127.0.0.77", port, 1)->at(0).free) << "another address";
  ASSERT_TRUE(first->started());
  EXPECT_TRUE(second->claim_ports("127.0.0.1", port, 2)->at(0).free);
  EXPECT_TRUE(second->teardown(false));
}

}  // namespace
}  // namespace paddle::remote

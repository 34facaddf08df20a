#include "remote/agent/process/key_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/secret.h"
#include "proto/agent.pb.h"
#include "tests/support/small_disk.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::agent {
namespace {

namespace fs = std::filesystem;

class KeyFilesTest : public ::testing::Test {
 protected:
  KeyFilesTest() : root_(*open_root(folder_.make("root"))) { fs::create_directories(memory_); }
  Status write(const std::string& process, const std::string& memory) {
    return write_key_file(root_, "job", process, as_bytes("secret"), memory);
  }
  static unsigned mode(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
  }

  test::TemporaryFolder folder_;
  std::string memory_ = folder_.path() + "/memory";
  std::string keys_ = folder_.path() + "/root/jobs/job/keys";
  Root root_;
};

TEST_F(KeyFilesTest, LieInMemoryBehindALinkAndAreWipedWithTheirFolder) {
  ASSERT_TRUE(write("trainer-0", memory_));
  ASSERT_TRUE(write("trainer-1", memory_));
  ASSERT_TRUE(write("trainer-1", memory_)) << "a second time";
  ASSERT_TRUE(fs::is_symlink(keys_));
  EXPECT_EQ(fs::read_symlink(keys_).parent_path(), memory_);
  EXPECT_EQ(mode(keys_), 0700U);
  EXPECT_EQ(mode(keys_ + "/trainer-1"), 0600U);
  const auto read = read_secret_file(keys_ + "/trainer-0", 100);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(as_text(*read), "secret");
  // Another name of the same file shows what became of its bytes.
  fs::create_hard_link(keys_ + "/trainer-0", folder_.path() + "/kept");
  wipe_key_files(root_, "job");
  EXPECT_FALSE(fs::exists(fs::symlink_status(keys_)));
  EXPECT_TRUE(fs::is_empty(memory_));
  EXPECT_EQ(test::TemporaryFolder::read(folder_.path() + "/kept"), std::string(6, '\0'));
}

TEST_F(KeyFilesTest, LieOnDiskWhereMemoryDoesNotKeepThem) {
  for (const std::string& memory : {std::string(), folder_.path() + "/missing"}) {
    ASSERT_TRUE(write("trainer-0", memory));
    EXPECT_FALSE(fs::is_symlink(keys_));
    EXPECT_EQ(mode(keys_), 0700U);
    EXPECT_EQ(mode(keys_ + "/trainer-0"), 0600U);
    fs::create_hard_link(keys_ + "/trainer-0", folder_.path() + "/kept");
    wipe_key_files(root_, "job");
    EXPECT_FALSE(fs::exists(keys_));
    EXPECT_EQ(test::TemporaryFolder::read(folder_.path() + "/kept"), std::string(6, '\0'));
    fs::remove(folder_.path() + "/kept");
  }
}

TEST_F(KeyFilesTest, AFolderOrLinkThatIsNotOursIsNeitherUsedNorWiped) {
  fs::create_directories(folder_.path() + "/root/jobs/job");
  const std::string other = memory_ + "/paddlectl-other";
  fs::create_directories(other);
  fs::create_symlink(other, memory_ + "/paddlectl-link");
  ASSERT_EQ(::chmod(other.c_str(), 0755), 0);  // open to others
  for (const char* name : {"paddlectl-other", "paddlectl-link", "paddlectl-gone"}) {
    { std::ofstream(other + "/file") << "mine"; }
    fs::create_symlink(memory_ + "/" + name, keys_);
    wipe_key_files(root_, "job");
    EXPECT_EQ(test::TemporaryFolder::read(other + "/file"), "mine") << name;
    fs::create_symlink(memory_ + "/" + name, keys_);
    ASSERT_TRUE(write("trainer-0", memory_));
    EXPECT_NE(fs::read_symlink(keys_), memory_ + "/" + name);
    EXPECT_FALSE(fs::exists(other + "/trainer-0"));
    wipe_key_files(root_, "job");
  }
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chmod(other.c_str(), 0700), 0);
  ASSERT_EQ(::chown(other.c_str(), 40001, 40001), 0);
  fs::create_symlink(other, keys_);
  wipe_key_files(root_, "job");
  EXPECT_EQ(test::TemporaryFolder::read(other + "/file"), "mine") << "another user's";
}

TEST_F(KeyFilesTest, MoveToDiskWhereMemoryIsFull) {
  const auto work = [&] {
    ASSERT_TRUE(write("trainer-0", memory_));
    ASSERT_TRUE(fs::is_symlink(keys_));
    test::fill(memory_ + "/full");
    for (const char* const name : {"trainer-1", "pserver-0"}) {
      const Status written = write(name, memory_);
      ASSERT_TRUE(written) << written.error().message;
    }
    EXPECT_FALSE(fs::is_symlink(keys_));
    for (const char* const name : {"trainer-0", "trainer-1", "pserver-0"}) {
      EXPECT_EQ(mode(keys_ + "/" + name), 0600U);
      EXPECT_EQ(test::TemporaryFolder::read(keys_ + "/" + name), "secret") << name;
    }
    fs::remove(memory_ + "/full");
    EXPECT_TRUE(fs::is_empty(memory_));
    wipe_key_files(root_, "job");
    EXPECT_FALSE(fs::exists(keys_));
    test::fill(memory_ + "/full");
    ASSERT_TRUE(write("trainer-0", memory_)) << "full from the start";
    EXPECT_EQ(mode(keys_), 0700U);
    wipe_key_files(root_, "job");
  };
  if (!test::on_small_disk(memory_, "64k", work)) GTEST_SKIP() << "nothing can be mounted here";
}

TEST_F(KeyFilesTest, ThoseOfAJobWhoseFolderIsGoneAreWiped) {
  ASSERT_TRUE(write("trainer-0", memory_));
  ASSERT_TRUE(write_key_file(root_, "other", "trainer-0", as_bytes("secret"), memory_));
  const Root strange = *open_root(folder_.make("strange"));
  ASSERT_TRUE(write_key_file(strange, "job", "trainer-0", as_bytes("secret"), memory_));
  fs::create_directory(memory_ + "/paddlectl-nobodys");
  fs::permissions(memory_ + "/paddlectl-nobodys", fs::perms::owner_all);
  fs::remove_all(folder_.path() + "/root/jobs/job");
  wipe_stray_key_files(root_, memory_);
  EXPECT_TRUE(fs::exists(folder_.path() + "/root/jobs/other/keys/trainer-0"));
  EXPECT_TRUE(fs::exists(folder_.path() + "/strange/jobs/job/keys/trainer-0"));
  EXPECT_EQ(std::distance(fs::directory_iterator(memory_), fs::directory_iterator()), 3);
  wipe_key_files(root_, "other");
  wipe_key_files(strange, "job");
  EXPECT_EQ(std::distance(fs::directory_iterator(memory_), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace paddle::agent

namespace paddle::remote {
namespace {

class WipedKeysTest : public AgentTest {
 protected:
  void SetUp() override {
    agent_ = connect_agent();
    push_script(*agent_, "sleeper", "exec sleep 1000");
    ASSERT_TRUE(claim_to_start(*agent_, "job-1"));
    for (const char* name : {"trainer-0", "trainer-1"}) {
      ASSERT_TRUE(agent_->write_keys("job-1", name, Secret::generate()->reveal()));
      ASSERT_TRUE(agent_->start(script("sleeper", name)));
    }
  }
  bool have_keys() const {
    return std::filesystem::exists(node_.root + "/jobs/job-1/keys/trainer-0");
  }
  Status stop(const std::vector<std::string>& names) {
    return agent_->stop("job-1", names, std::chrono::seconds(5));
  }

  std::unique_ptr<AgentClient> agent_;
};

TEST_F(WipedKeysTest, TheyGoWithTheLastProcessAndNotBefore) {
  ASSERT_TRUE(agent_->started());
  ASSERT_TRUE(stop({"trainer-0"}));
  EXPECT_TRUE(have_keys()) << "trainer-1 runs";
  ASSERT_TRUE(agent_->claim_job({"job-1", {JobCommand::kRestartProcess}}));
  ASSERT_TRUE(agent_->restart("job-1", {"trainer-0"}));
  EXPECT_TRUE(have_keys());
  ASSERT_TRUE(agent_->release_job("job-1"));
  ASSERT_TRUE(stop({}));
  EXPECT_FALSE(have_keys());
  EXPECT_FALSE(
      std::filesystem::exists(std::filesystem::symlink_status(node_.root + "/jobs/job-1/keys")));
}

TEST_F(WipedKeysTest, TheSupervisorOfTheLastOneWipesThemByItself) {
  ASSERT_TRUE(agent_->started());
  const auto processes = agent_->processes("job-1");
  ASSERT_TRUE(processes);
  agent_.reset();
  for (const ProcessStatus& process : *processes) ::kill(process.pid, SIGKILL);
  for (int i = 0; i < 1000 && have_keys(); ++i) ::usleep(20'000);
  EXPECT_FALSE(have_keys());
}

class StrayKeysTest : public WipedKeysTest {
 protected:
  void SetUp() override {
    if (agent::folder_in_memory().empty()) GTEST_SKIP() << "keys are on disk here";
    WipedKeysTest::SetUp();
    ASSERT_EQ(folders(), 1) << "the keys of job-1 are in memory";
  }
  // In memory, with keys of jobs of this node.
  int folders() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(agent::folder_in_memory())) {
      if (entry.path().filename().string().starts_with("paddlectl-") &&
          file_content(entry.path() / ".of").starts_with(node_.root + "\n"))
        ++count;
    }
    return count;
  }
  void kill_supervisors_too() {
    const auto processes = agent_->processes("job-1");
    ASSERT_TRUE(processes);
    std::vector<int> pids;
    for (const ProcessStatus& process : *processes) {
      wire::agent::PidRecord record;
      ASSERT_TRUE(record.ParseFromString(
          file_content(node_.root + "/jobs/job-1/proc/" + process.name + "/pid")));
      pids.push_back(record.supervisor());
      pids.push_back(record.pid());
    }
    for (const int pid : pids) ::kill(pid, SIGKILL);
  }
  void tear_down() {
    const auto report = agent_->teardown(false);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->remaining().empty());
  }
};

TEST_F(StrayKeysTest, OfAJobWhoseFolderWasRemovedGoWithATeardown) {
  std::filesystem::remove_all(node_.root + "/jobs/job-1");
  tear_down();
  EXPECT_EQ(folders(), 0);
}

TEST_F(StrayKeysTest, OfAJobWhoseSupervisorsWereKilledTooGoWithATeardown) {
  kill_supervisors_too();
  std::filesystem::remove_all(node_.root + "/jobs/job-1");
  tear_down();
  EXPECT_EQ(folders(), 0);
}

TEST_F(StrayKeysTest, OfANodeWhoseFolderWasRemovedGoWithItsNextAgent) {
  kill_supervisors_too();
  std::filesystem::remove_all(node_.root);
  agent_.reset();
  EXPECT_EQ(folders(), 1);
  agent_ = connect_agent();
  ASSERT_TRUE(agent_->facts()) << "it serves now";
  EXPECT_EQ(folders(), 0);
}

TEST_F(StrayKeysTest, OfAJobWithItsFolderGoWithATeardown) {
  tear_down();
  EXPECT_EQ(folders(), 0);
}

TEST_F(WipedKeysTest, WhoStartsTheJobKeepsThemUntilItIsReleased) {
  ASSERT_TRUE(stop({}));
  EXPECT_TRUE(have_keys()) << "it is claimed";
  ASSERT_TRUE(agent_->started());
  EXPECT_FALSE(have_keys());
}

}  // namespace
}  // namespace paddle::remote

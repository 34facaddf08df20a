// A large file that changed: what of the old one is shared, written into or left alone.
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>

#include <csignal>

#include "tests/unit/remote/client/push_fixture.h"

namespace paddle::remote {
namespace {

bool file_system_shares(const std::string& folder) {
  const std::string from = write_file(folder + "/shares-from", test::noise(1U << 16U, 1));
  const UniqueFd source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd target(
      ::open((folder + "/shares-to").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return ::ioctl(target.get(), FICLONE, source.get()) == 0;
}

bool has_shared_blocks(const std::string& path) {
  constexpr std::uint32_t kExtents = 1000;
  std::vector<std::uint64_t> space((sizeof(fiemap) + kExtents * sizeof(fiemap_extent)) / 8);
  auto* const map = reinterpret_cast<fiemap*>(space.data());
  map->fm_length = FIEMAP_MAX_OFFSET;
  map->fm_flags = FIEMAP_FLAG_SYNC;
  map->fm_extent_count = kExtents;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(::ioctl(file.get(), FS_IOC_FIEMAP, map), 0);
  for (std::uint32_t i = 0; i < map->fm_mapped_extents; ++i) {
    if ((map->fm_extents[i].fe_flags & FIEMAP_EXTENT_SHARED) != 0) return true;
  }
  return false;
}

TEST_F(PushTest, AChangedFileSharesWhatStayedWithTheOneBefore) {
  if (!file_system_shares(folder_))
    GTEST_SKIP() << "the file system below TMPDIR shares no blocks; XFS and Btrfs do";
  auto agent = connect_agent();
  std::string content = test::noise(4U << 20U, 7);
  const std::string local = write_file(folder_ + "/large", content);
  ASSERT_TRUE(push(*agent, {{local, "jobs/a/large"}}));
  const std::string before = content;
  content.replace(1U << 20U, 100, test::noise(100, 8));
  write_file(local, content);
  ASSERT_TRUE(push(*agent, {{local, "jobs/b/large"}}));
  EXPECT_TRUE(file_content(at("jobs/a/large")) == before);
  EXPECT_TRUE(file_content(at("jobs/b/large")) == content);
  EXPECT_TRUE(has_shared_blocks(at("jobs/b/large")));
}

// The job's folder and the store have the large file, and the local one was changed in the middle.
class ChangedPushTest : public PushTest {
 protected:
  void SetUp() override {
    if (file_system_shares(folder_)) GTEST_SKIP() << "blocks are shared here, files never taken";
    agent_ = connect_agent();
    local_ = write_file(folder_ + "/large", content_);
    ASSERT_TRUE(push(*agent_, {{local_, "jobs/a/large"}}));
    before_ = inode_of(at("jobs/a/large"));
    content_.replace(7U << 20U, 1U << 20U, test::noise(1U << 20U, 22));
    write_file(local_, content_);
  }

  std::unique_ptr<AgentClient> agent_;
  std::string content_ = test::noise(16U << 20U, 21);
  const std::string old_content_ = content_;
  std::string local_;
  ino_t before_ = 0;
};

TEST_F(ChangedPushTest, WritesIntoTheFileThatItReplaces) {
  ASSERT_TRUE(push(*agent_, {{local_, "jobs/a/large"}}));
  EXPECT_EQ(inode_of(at("jobs/a/large")), before_) << "it was copied";
  EXPECT_TRUE(file_content(at("jobs/a/large")) == content_);
  EXPECT_EQ(files_below(objects()), 1U);
  EXPECT_EQ(files_below(at("store/chunks")), 1U);
  EXPECT_EQ(files_below(at("store/partial")), 0U);
  EXPECT_EQ(fs::status(at("jobs/a/large")).permissions() & fs::perms::owner_write, fs::perms{});
  const auto unchanged = push(*connect_agent(), {{local_, "jobs/b/large"}});
  ASSERT_TRUE(unchanged) << unchanged.error().message;
  EXPECT_EQ(unchanged->bytes_on_wire, 0U) << "the store believes what it wrote";
}

TEST_F(ChangedPushTest, AGrownAndACutFileArrive) {
  for (const std::size_t size : {content_.size() + (3U << 20U), std::size_t{12} << 20U}) {
    content_.resize(size, 'x');
    write_file(local_, content_);
    ASSERT_TRUE(push(*agent_, {{local_, "jobs/a/large"}}));
    EXPECT_EQ(inode_of(at("jobs/a/large")), before_);
    EXPECT_TRUE(file_content(at("jobs/a/large")) == content_);
  }
}

TEST_F(ChangedPushTest, LeavesAnotherJobsFileAlone) {
  const std::string again = write_file(folder_ + "/old", old_content_);
  ASSERT_TRUE(push(*agent_, {{again, "jobs/b/large"}}));
  ASSERT_TRUE(push(*agent_, {{local_, "jobs/a/large"}}));
  EXPECT_TRUE(file_content(at("jobs/a/large")) == content_);
  EXPECT_TRUE(file_content(at("jobs/b/large")) == old_content_);
}

TEST_F(ChangedPushTest, LeavesAFileAloneThatThePushMoves) {
  const std::string again = write_file(folder_ + "/old", old_content_);
  const auto moved = push(*agent_, {{local_, "jobs/a/large"}, {again, "jobs/a/moved"}});
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_TRUE(file_content(at("jobs/a/large")) == content_);
  EXPECT_TRUE(file_content(at("jobs/a/moved")) == old_content_);
}

TEST_F(ChangedPushTest, LeavesAFileAloneThatSomebodyReads) {
  const UniqueFd reader(::open(at("jobs/a/large").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(push(*agent_, {{local_, "jobs/a/large"}}));
  EXPECT_TRUE(file_content(at("jobs/a/large")) == content_);
  std::string read(old_content_.size(), '\0');
  ASSERT_EQ(::pread(reader.get(), read.data(), read.size(), 0),
            static_cast<ssize_t>(old_content_.size()));
  EXPECT_TRUE(read == old_content_) << "it changed below a reader";
}

TEST_F(ChangedPushTest, WhileAnotherPushIsOnItsWayTheFileIsCopied) {
  const UniqueFd lock(::open(at("store/lock").c_str(), O_RDWR | O_CLOEXEC));
  struct flock shared {};
  shared.l_type = F_RDLCK;
  ASSERT_EQ(::fcntl(lock.get(), F_OFD_SETLK, &shared), 0);
  ASSERT_TRUE(push(*agent_, {{local_, "jobs/a/large"}}));
  EXPECT_NE(inode_of(at("jobs/a/large")), before_);
  EXPECT_TRUE(file_content(at("jobs/a/large")) == content_);
}

TEST_F(ChangedPushTest, APushThatBreaksOffLeavesTheOldFile) {
  const auto broken = push(*agent_, {{local_, "jobs/a/large"}}, [&](std::uint64_t, std::uint64_t) {
    for (const int pid : processes_using(folder_)) ::kill(pid, SIGKILL);
    return true;
  });
  ASSERT_FALSE(broken);
  EXPECT_TRUE(file_content(at("jobs/a/large")) == old_content_);
  ASSERT_TRUE(push(*connect_agent(), {{local_, "jobs/a/large"}}));
  EXPECT_TRUE(file_content(at("jobs/a/large")) == content_);
}

TEST_F(ChangedPushTest, WhatANodeThatDiedHadHalfWrittenIsFinished) {
  ASSERT_TRUE(push(*agent_, {{local_, "jobs/a/large"}}));
  const fs::path object = fs::directory_iterator(objects())->path();
  const std::string partial = at("store/partial/" + object.filename().string());
  fs::remove(at("jobs/a/large"));
  fs::rename(object, partial);
  fs::permissions(partial, fs::perms::owner_read | fs::perms::owner_write);
  write_file(partial, std::string(content_).replace(7U << 20U, 1U << 20U, 1U << 20U, '?'));
  const auto rest = push(*connect_agent(), {{local_, "jobs/a/large"}});
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_LE(rest->bytes_sent, 3U << 20U);
  EXPECT_TRUE(file_content(at("jobs/a/large")) == content_);
}

}  // namespace
}  // namespace paddle::remote

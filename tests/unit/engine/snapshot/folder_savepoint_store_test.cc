// Stores that write at once, and those that share a thread.
#include "engine/snapshot/folder_savepoint_store.h"

#include <cerrno>
#include <future>

#include "tests/support/temporary_folder.h"
#include "tests/unit/engine/snapshot/savepoint_fixture.h"

namespace paddle::snapshot {
namespace {

using Numbers = std::vector<std::uint64_t>;

class FolderSavepointStoreTest : public SavepointFixture {
 protected:
  // Keeps `thread` from all work until the promise is set.
  static void hold(SavepointThread& thread, std::promise<void>& until) {
    thread.run([held = until.get_future().share()] { held.wait(); });
  }
  // Waits for all that the store was given.
  static void settle(SavepointStore& store) {
    static_cast<void>(store.read(~0ULL, [](auto, auto) { return Status(); }));
  }

  test::MemoryFiles files_;
};

TEST_F(FolderSavepointStoreTest, WhatTheThreadWritesIsWhatIsWrittenAtOnce) {
  test::MemoryFiles other;
  {
    SavepointThread thread;
    const Store at_once = open(files_);
    const Store later = open(other, kFingerprint, &thread);
    for (SavepointStore* const store :
         {static_cast<SavepointStore*>(at_once.get()), static_cast<SavepointStore*>(later.get())}) {
      write(*store, 10, true);
      write(*store, 20, false);
      store->begin(30, false);
      write(*store, 40, true);
      store->forget_before(40);
      write(*store, 50, false);
      write(*store, 60, false);
      EXPECT_TRUE(store->forget_after(50));
      write(*store, 70, false);
    }
    settle(*later);
    EXPECT_EQ(contents(*later), contents(*at_once));
    EXPECT_EQ(contents(*later).rbegin()->second, text_of(40) + text_of(50) + text_of(70));
  }
  EXPECT_EQ(other.now().text(), files_.now().text());
}

TEST_F(FolderSavepointStoreTest, CallsReturnWhileTheDiskIsBusy) {
  SavepointThread thread;
  std::promise<void> until;
  const Store store = open(files_, kFingerprint, &thread);
  hold(thread, until);
  write(*store, 10, true);
  store->begin(20, false);
  store->add(1, Bytes(1000));
  EXPECT_EQ(store->whole(), Numbers());
  std::size_t text_bytes = 0;
  for (const std::string& record : records_of(10, 0)) text_bytes += record.size();
  EXPECT_EQ(store->backlog(), 1000 + text_bytes);
  EXPECT_FALSE(store->has_failed());
  until.set_value();
  store->end();
  settle(*store);
  EXPECT_EQ(store->backlog(), 0U);
  EXPECT_EQ(store->whole(), (Numbers{10, 20}));
}

TEST_F(FolderSavepointStoreTest, ASavepointThatIsDroppedIsNotWrittenAnyMore) {
  SavepointThread thread;
  std::promise<void> until;
  const Store store = open(files_, kFingerprint, &thread);
  hold(thread, until);
  store->begin(10, true);
  store->add(1, Bytes(1000));
  write(*store, 20, true);
  until.set_value();
  settle(*store);
  EXPECT_EQ(store->backlog(), 0U);
  EXPECT_EQ(store->whole(), Numbers{20});
  for (const test::Operation& operation : files_.operations()) {
    EXPECT_EQ(operation.what.find("savepoint-000000000010"), std::string::npos) << operation.what;
  }
}

TEST_F(FolderSavepointStoreTest, TheEndKeepsSavepointsThatHaveTheirEnd) {
  SavepointThread thread;
  std::promise<void> until;
  Store store = open(files_, kFingerprint, &thread);
  hold(thread, until);
  write(*store, 10, true);
  store->begin(20, false);
  store->add(1, Bytes(1000));
  until.set_value();
  store = nullptr;
  EXPECT_EQ(*files_.list(kFolder), std::vector<std::string>{"savepoint-000000000010.full"});
  EXPECT_EQ(open(files_)->whole(), Numbers{10});
}

// The first savepoint fails while a delta of it waits: the shard could not know.
TEST_F(FolderSavepointStoreTest, ADeltaOfASavepointThatFailsIsNotWritten) {
  SavepointThread thread;
  std::promise<void> until;
  const Store store = open(files_, kFingerprint, &thread);
  hold(thread, until);
  files_.fail(3, ENOSPC, false);
  write(*store, 10, true);
  write(*store, 20, false);
  ::testing::internal::CaptureStderr();
  until.set_value();
  settle(*store);
  EXPECT_TRUE(store->has_failed());
  store->begin(25, false);
  settle(*store);
  EXPECT_TRUE(store->has_failed());
  store->add(0, Bytes(1000));
  EXPECT_EQ(store->backlog(), 0U);
  EXPECT_EQ(store->whole(), Numbers());
  write(*store, 30, true);
  write(*store, 40, false);
  settle(*store);
  EXPECT_FALSE(store->has_failed());
  EXPECT_EQ(store->whole(), (Numbers{30, 40}));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("savepoint 10 was not saved: write "
                     "/job/savepoints/savepoint-000000000010.full: No space left "
                     "on device; training continues, and a lost pserver resumes from a snapshot"),
            log.npos)
      << log;
  EXPECT_NE(log.find("savepoint 30 is complete"), log.npos) << log;
  EXPECT_EQ(std::ranges::count(log, '\n'), 2) << log;
}

TEST_F(FolderSavepointStoreTest, StoresOfManyShardsShareAThread) {
  constexpr std::uint64_t kShards = 3;
  constexpr std::uint64_t kSavepoints = 60;
  const test::TemporaryFolder root;
  SavepointThread thread;
  std::vector<Store> stores;
  for (std::uint64_t shard = 0; shard < kShards; ++shard) {
    stores.push_back(
        open(kernel_file_system(), shard, &thread, root / fmt::format("shard-{}", shard)));
  }
  std::atomic<bool> is_over = false;
  std::thread watcher([&] {
    while (!is_over) {
      for (const Store& store : stores) {
        const Numbers numbers = store->whole();
        EXPECT_TRUE(std::ranges::is_sorted(numbers));
      }
    }
  });
  std::vector<std::thread> shards;
  for (std::uint64_t shard = 0; shard < kShards; ++shard) {
    shards.emplace_back([&, shard] {
      SavepointStore& store = *stores[shard];
      std::string text;
      for (std::uint64_t number = 1; number <= kSavepoints; ++number) {
        const bool is_full = number % 7 == 1;
        write(store, number, is_full, static_cast<int>(shard));
        text = (is_full ? "" : text) + text_of(number, static_cast<int>(shard));
        if (number % 10 == 0) {
          EXPECT_EQ(read_text(store, number), text);
        }
        if (number % 9 == 0) store.forget_before(number);
        static_cast<void>(store.backlog());
      }
      EXPECT_TRUE(store.forget_after(kSavepoints - 1));
      EXPECT_EQ(store.whole().back(), kSavepoints - 1);
    });
  }
  for (std::thread& each : shards) each.join();
  is_over = true;
  watcher.join();
}

TEST_F(FolderSavepointStoreTest, AFolderThatCannotBeMadeIsNamed) {
  const test::TemporaryFolder root;
  root.write("file", "");
  const auto opened = FolderSavepointStore::open(root / "file/savepoints", 1);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kResource);
  EXPECT_NE(opened.error().message.find("file/savepoints"), std::string::npos);
}

using FolderSavepointStoreDeath = FolderSavepointStoreTest;

TEST_F(FolderSavepointStoreDeath, ADeltaThatCannotFollowAnythingIsABug) {
  const Store store = open(files_);
  EXPECT_DEATH(store->begin(10, false), "check failed");
  store->begin(10, true);
  EXPECT_DEATH(store->begin(20, false), "check failed");  // it would drop savepoint 10
  store->end();
  files_.fail(0, EIO, false);
  write(*store, 20, false);
  ASSERT_TRUE(store->has_failed());
  EXPECT_DEATH(store->begin(30, false), "check failed");
  EXPECT_DEATH(store->add(0, {}), "check failed");
  EXPECT_DEATH(store->end(), "check failed");
}

}  // namespace
}  // namespace paddle::snapshot

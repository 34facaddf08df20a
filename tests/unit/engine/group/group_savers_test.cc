// Ranks that save at once, in vain, or while the group ends.
#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

TEST(GroupSavers, TwoRanksSaveAtTheSameTime) {
  const test::TemporaryFolder folder;
  as_trainers(set_of("adam", kSliced, 3), [&](Rank& rank) {
    ASSERT_TRUE(rank.push());
    if (rank.rank < 2) {
      const Status saved = rank.client.snapshots().save(folder / std::to_string(rank.rank));
      EXPECT_TRUE(saved) << saved.error().message;
    }
    EXPECT_TRUE(rank.client.leave());
  });
  for (const char* const file : {"MANIFEST", "p0", "p0.state", "p2"}) {
    const std::string first = test::TemporaryFolder::read(folder / "0" + "/" + file);
    EXPECT_FALSE(first.empty()) << file;
    EXPECT_EQ(first, test::TemporaryFolder::read(folder / "1" + "/" + file)) << file;
  }
}

TEST(GroupSavers, ASaverThatCannotWriteGoesOnWithTheOthers) {
  const test::TemporaryFolder folder;
  folder.write("file", "in the way");
  as_trainers(set_of("sgd", kSliced, 2), [&](Rank& rank) {
    ASSERT_TRUE(rank.push());
    if (rank.rank == 0) {
      EXPECT_FALSE(rank.client.snapshots().save(folder / "file/pass-00000"));
    }
    EXPECT_TRUE(rank.push());
    EXPECT_TRUE(rank.client.leave());
  });
}

TEST(GroupSavers, AnAbortEndsASaveWithItsCause) {
  const test::TemporaryFolder folder;
  std::atomic<int> saved = 0;
  as_trainers(set_of("adam", kManyBuckets, 2), [&](Rank& rank) {
    ASSERT_TRUE(rank.push());
    Status ended;
    if (rank.rank == 0) {
      for (int i = 0; ended; ++i) {
        ended = rank.client.snapshots().save(folder / std::to_string(i));
        if (ended) ++saved;
      }
      EXPECT_FALSE(snapshot::SnapshotReader::open(folder / std::to_string(saved)));
    } else {
      std::thread other([&] {
        while (saved < 2) std::this_thread::yield();
        rank.client.interrupt(Error{Errc::kData, "enough"});
      });
      ended = rank.client.leave();
      other.join();
    }
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().message, "rank 1 (node-1): enough");
  });
}

}  // namespace
}  // namespace paddle::strategy

// A shard's savepoints on its disk: chains, what is removed, and damage.
#include "engine/snapshot/savepoint_folder.h"

#include <cerrno>

#include "tests/unit/engine/snapshot/savepoint_fixture.h"

namespace paddle::snapshot {
namespace {

using Numbers = std::vector<std::uint64_t>;

class SavepointFolderTest : public SavepointFixture {
 protected:
  // Two chains: 10, 20, 30 and 40, 50.
  static void write_chains(SavepointStore& store) {
    write(store, 10, true);
    write(store, 20, false);
    write(store, 30, false);
    write(store, 40, true);
    write(store, 50, false);
  }
  void write_chains() { write_chains(*open(files_)); }

  // Whole savepoints in the folder as it is now; `log_` is what opening it wrote.
  Numbers reopened(std::uint64_t fingerprint = kFingerprint) {
    ::testing::internal::CaptureStderr();
    const Store store = open(files_, fingerprint);
    log_ = ::testing::internal::GetCapturedStderr();
    for (const auto& [number, text] : contents(*store)) {
      EXPECT_FALSE(text.starts_with("error")) << text;
    }
    return store->whole();
  }
  bool logged(const std::string& text) const { return log_.find(text) != log_.npos; }
  std::vector<std::string> names() { return *files_.list(kFolder); }

  test::MemoryFiles files_;
  std::string log_;
};

TEST_F(SavepointFolderTest, ADeltaIsReadAfterAllThatItBuildsOn) {
  const Store store = open(files_);
  EXPECT_EQ(store->whole(), Numbers());
  write_chains(*store);
  const std::map<std::uint64_t, std::string> expected = {
      {10, text_of(10)},
      {20, text_of(10) + text_of(20)},
      {30, text_of(10) + text_of(20) + text_of(30)},
      {40, text_of(40)},
      {50, text_of(40) + text_of(50)}};
  EXPECT_EQ(contents(*store), expected);
  EXPECT_EQ(contents(*open(files_)), expected);
  EXPECT_EQ(names(),
            (std::vector<std::string>{"savepoint-000000000010.full", "savepoint-000000000020.delta",
                                      "savepoint-000000000030.delta", "savepoint-000000000040.full",
                                      "savepoint-000000000050.delta"}));
  EXPECT_NE(read_text(*store, 25).find("no complete savepoint 25"), std::string::npos);
}

TEST_F(SavepointFolderTest, ChainsGoOnAfterAnotherOpeningAndOrderIsThatOfSteps) {
  constexpr std::uint64_t kLarge = 12345678901234;  // of more digits than a name has
  write(*open(files_), 10, true);
  write(*open(files_), 999999999999, false);
  write(*open(files_), kLarge, false);
  EXPECT_EQ(reopened(), (Numbers{10, 999999999999, kLarge}));
  EXPECT_EQ(log_, "");
  EXPECT_EQ(read_text(*open(files_), kLarge),
            text_of(10) + text_of(999999999999) + text_of(kLarge));
}

TEST_F(SavepointFolderTest, ReadingStopsAtTheFirstErrorOfTheCaller) {
  write_chains();
  const Store store = open(files_);
  int calls = 0;
  const Status read = store->read(30, [&](std::uint32_t, ByteSpan) -> Status {
    if (++calls < 5) return {};
    return Error{Errc::kResource, "no room"};
  });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "no room");
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(store->whole(), (Numbers{10, 20, 30, 40, 50}));
}

TEST_F(SavepointFolderTest, ForgetBeforeKeepsWhatTheStepBuildsOn) {
  write_chains();
  const Store store = open(files_);
  store->forget_before(5);
  store->forget_before(39);
  EXPECT_EQ(store->whole(), (Numbers{10, 20, 30, 40, 50}));
  store->forget_before(50);
  EXPECT_EQ(store->whole(), (Numbers{40, 50}));
  EXPECT_EQ(reopened(), (Numbers{40, 50}));
  EXPECT_EQ(log_, "");
  EXPECT_EQ(names().size(), 2U);
}

TEST_F(SavepointFolderTest, ForgetAfterLeavesAChainThatGoesOn) {
  const Store store = open(files_);
  write_chains(*store);
  store->begin(60, false);
  ASSERT_TRUE(store->forget_after(20));
  EXPECT_EQ(store->whole(), (Numbers{10, 20}));
  EXPECT_EQ(names().size(), 2U);
  write(*store, 30, false, 1);
  EXPECT_EQ(read_text(*store, 30), text_of(10) + text_of(20) + text_of(30, 1));
  EXPECT_EQ(reopened(), (Numbers{10, 20, 30}));
  ASSERT_TRUE(store->forget_after(0));
  EXPECT_EQ(names(), std::vector<std::string>());
}

TEST_F(SavepointFolderTest, ForgetAfterKeepsAnOpenSavepointOfAnEarlierStep) {
  const Store store = open(files_);
  store->begin(10, true);
  ASSERT_TRUE(store->forget_after(10));
  store->end();
  EXPECT_EQ(store->whole(), Numbers{10});
}

TEST_F(SavepointFolderTest, ASavepointWithoutAnEndIsDroppedByTheNextOneAndAtTheEnd) {
  {
    const Store store = open(files_);
    store->begin(10, true);
    store->add(1, Bytes(100));
    write(*store, 11, true);
    store->begin(12, false);
    store->add(1, Bytes(100));
  }
  EXPECT_EQ(names(), std::vector<std::string>{"savepoint-000000000011.full"});
}

TEST_F(SavepointFolderTest, SavepointsOfAnotherJobAreRemovedWithOneWarning) {
  write_chains();
  EXPECT_EQ(reopened(kFingerprint + 1), Numbers());
  EXPECT_TRUE(logged("removed 5 savepoints of another job, or of other parameters")) << log_;
  EXPECT_EQ(std::ranges::count(log_, '\n'), 1) << log_;
  EXPECT_EQ(names(), std::vector<std::string>());
}

TEST_F(SavepointFolderTest, OtherNamesInTheFolderStay) {
  ASSERT_TRUE(files_.make_directories(kFolder));
  const auto directory = *files_.open_directory(kFolder);
  const std::vector<std::string> others = {"notes", "savepoint-", "savepoint-000000000010",
                                           "savepoint-10.full"};
  for (const std::string& name : others) ASSERT_TRUE(directory->create(name));
  EXPECT_EQ(reopened(), Numbers());
  EXPECT_EQ(names(), others);
  EXPECT_EQ(log_, "");
}

// A disk that fails after the last byte of a savepoint, and then leaves the file where it is.
TEST_F(SavepointFolderTest, ALeftoverOfAFailedSavepointIsInNobodysWay) {
  constexpr std::size_t kChangesOfASavepoint = 15;  // create, 13 writes and fsync
  Store store = open(files_);
  write(*store, 10, true);
  ::testing::internal::CaptureStderr();
  files_.fail(kChangesOfASavepoint, EIO, true);
  write(*store, 20, false);
  files_.stop_failing();
  ASSERT_EQ(files_.failed(), "sync /job/savepoints");
  ASSERT_EQ(names().size(), 2U);
  EXPECT_EQ(store->whole(), Numbers{10});
  const test::Tree left = files_.now();
  write(*store, 20, true, 1);
  EXPECT_EQ(store->whole(), (Numbers{10, 20}));
  EXPECT_EQ(names().back(), "savepoint-000000000020.full");
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(read_text(*open(files_), 20), text_of(20, 1));

  // The shard goes back, and the savepoint does not come again.
  test::MemoryFiles files(left);
  store = open(files);
  ASSERT_TRUE(store->forget_after(10));
  EXPECT_EQ(files.list(kFolder)->size(), 1U);
}

TEST_F(SavepointFolderTest, ASavepointThatComesNoLaterThanTheNewestFails) {
  const Store store = open(files_);
  write(*store, 20, true);
  ::testing::internal::CaptureStderr();
  for (const std::uint64_t number : {20, 15}) {
    write(*store, number, true, 1);
    EXPECT_TRUE(store->has_failed());
  }
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(contents(*store), (std::map<std::uint64_t, std::string>{{20, text_of(20)}}));
}

TEST_F(SavepointFolderTest, OlderSavepointsThatCannotBeRemovedStayWithOneWarning) {
  const Store store = open(files_);
  write_chains(*store);
  ::testing::internal::CaptureStderr();
  files_.fail(0, EIO, true);
  store->forget_before(50);
  store->forget_before(50);
  files_.stop_failing();
  log_ = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(logged("remove /job/savepoints/savepoint-000000000030.delta: Input/output error"))
      << log_;
  EXPECT_EQ(std::ranges::count(log_, '\n'), 1) << log_;
  EXPECT_EQ(store->whole(), (Numbers{10, 20, 30, 40, 50}));
  store->forget_before(50);
  EXPECT_EQ(store->whole(), (Numbers{40, 50}));
}

// Damage at `file`: what is whole then.
struct Damage {
  const char* file;
  Numbers left;
  const char* newest;
};
const std::vector<Damage> kDamages = {
    {"savepoint-000000000010.full", {40, 50}, "savepoint-000000000050.delta"},
    {"savepoint-000000000020.delta", {10, 40, 50}, "savepoint-000000000050.delta"},
    {"savepoint-000000000030.delta", {10, 20, 40, 50}, "savepoint-000000000050.delta"},
    {"savepoint-000000000040.full", {10, 20, 30}, "savepoint-000000000030.delta"},
    {"savepoint-000000000050.delta", {10, 20, 30, 40}, "savepoint-000000000040.full"}};

TEST_F(SavepointFolderTest, EveryTruncationIsFoundAndTheNewestWholeSavepointTaken) {
  write_chains();
  const test::Tree whole = files_.now();
  for (const Damage& damage : kDamages) {
    const std::string text = content(files_, damage.file);
    for (std::size_t size = 0; size < text.size(); ++size) {
      files_ = files_.with(whole);
      files_.write(path_of(damage.file), text.substr(0, size));
      ASSERT_EQ(reopened(), damage.left) << damage.file << " of " << size;
      ASSERT_TRUE(logged(damage.file)) << log_;
      ASSERT_TRUE(logged(fmt::format("the newest complete savepoint is {}", damage.newest)))
          << log_;
      ASSERT_EQ(names().size(), damage.left.size());
    }
    files_ = files_.with(whole);
  }
}

TEST_F(SavepointFolderTest, EveryFlippedBitIsFoundAndTheNewestWholeSavepointTaken) {
  write_chains();
  const test::Tree whole = files_.now();
  Rng rng(5);
  for (const Damage& damage : kDamages) {
    const std::string text = content(files_, damage.file);
    for (std::size_t at = 0; at < text.size(); ++at) {
      std::string flipped = text;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (rng.next() % 8)));
      files_ = files_.with(whole);
      files_.write(path_of(damage.file), flipped);
      ASSERT_EQ(reopened(), damage.left) << damage.file << " at " << at;
      ASSERT_TRUE(logged(damage.file)) << log_;
    }
    files_ = files_.with(whole);
  }
}

TEST_F(SavepointFolderTest, AFileInThePlaceOfAnotherIsFound) {
  write_chains();
  const test::Tree whole = files_.now();
  for (const Damage& damage : kDamages) {
    for (const Damage& other : kDamages) {
      if (&damage == &other) continue;
      files_ = files_.with(whole);
      files_.write(path_of(damage.file), content(files_, other.file));
      EXPECT_EQ(reopened(), damage.left) << other.file << " as " << damage.file;
      EXPECT_TRUE(logged(fmt::format("its header belongs to {}", other.file))) << log_;
    }
  }
}

// Each file is whole by itself, but of another incarnation of the same shard.
TEST_F(SavepointFolderTest, ADeltaIsTakenOnlyAfterTheVeryFileThatItFollowed) {
  write_chains();
  test::MemoryFiles other;
  const Store store = open(other);
  write(*store, 10, true, 1);
  write(*store, 20, false, 1);
  files_.write(path_of("savepoint-000000000010.full"),
               content(other, "savepoint-000000000010.full"));
  EXPECT_EQ(reopened(), (Numbers{10, 40, 50}));
  EXPECT_TRUE(logged("savepoint-000000000020.delta: savepoint 10 with CRC32C")) << log_;
  EXPECT_TRUE(logged("savepoint-000000000030.delta: savepoint 20 with CRC32C")) << log_;
}

TEST_F(SavepointFolderTest, AFileThatIsDamagedAfterOpeningIsNotWholeOnceItWasRead) {
  write_chains();
  const Store store = open(files_);
  std::string text = content(files_, "savepoint-000000000020.delta");
  text.back() = static_cast<char>(text.back() ^ 1);
  files_.write(path_of("savepoint-000000000020.delta"), text);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(store->read(30, [](auto, auto) { return Status(); }).error().code, Errc::kData);
  log_ = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(logged("savepoint-000000000030.delta: it builds on that one")) << log_;
  EXPECT_EQ(store->whole(), (Numbers{10, 40, 50}));
  // Another whole file under the name is not the one that was found at the opening.
  test::MemoryFiles other;
  write(*open(other), 10, true, 1);
  files_.write(path_of("savepoint-000000000010.full"),
               content(other, "savepoint-000000000010.full"));
  const std::string read = read_text(*store, 10);
  EXPECT_NE(read.find("savepoint-000000000010.full: expected to end with CRC32C"), read.npos)
      << read;
}

}  // namespace
}  // namespace paddle::snapshot

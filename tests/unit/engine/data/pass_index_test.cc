#include "engine/data/pass_index.h"

#include <cstring>
#include <filesystem>

#include "tests/unit/engine/data/resume_fixture.h"

namespace paddle::data {
namespace {

constexpr std::uint64_t kKey = 77;
constexpr std::size_t kHeaderBytes = 16;
constexpr std::size_t kEntryBytes = sizeof(IndexedChunk) + 8;

IndexedChunk chunk_of(std::uint64_t number) {
  IndexedChunk chunk;
  chunk.begin.offset = 1000 * number;
  chunk.end.offset = 1000 * (number + 1);
  chunk.first_record = 10 * number;
  chunk.end_record = 10 * (number + 1);
  return chunk;
}

class PassIndexTest : public testing::Test {
 protected:
  void fill(std::uint64_t count) {
    PassIndex index(memory_, kKey);
    for (std::uint64_t i = 0; i < count; ++i) index.add(i, chunk_of(i));
  }
  // Expects the chunks from `first` up to `end`.
  void expect(std::uint64_t first, std::uint64_t end) {
    const PassIndex index(memory_, kKey);
    const auto chunks = index.chunks();
    EXPECT_EQ(index.first(), first);
    ASSERT_EQ(chunks.size(), end - first);
    for (std::uint64_t i = first; i < end; ++i) {
      EXPECT_EQ(chunks[i - first].begin, chunk_of(i).begin);
      EXPECT_EQ(chunks[i - first].end_record, chunk_of(i).end_record);
    }
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(kHeaderBytes + 5 * kEntryBytes + 9);
};

TEST_F(PassIndexTest, OutlivesItsWriter) {
  expect(0, 0);
  fill(3);
  expect(0, 3);
  fill(4);  // adds one
  expect(0, 4);
}

TEST_F(PassIndexTest, HoldsTheNewestChunks) {
  fill(5);
  expect(1, 5);  // the place of the first one is that of the next
  fill(23);
  expect(19, 23);
}

TEST_F(PassIndexTest, TakesNumbersInTurnOnly) {
  PassIndex index(memory_, kKey);
  index.add(1, chunk_of(1));
  expect(0, 0);
  index.add(0, chunk_of(0));
  index.add(0, chunk_of(4));
  expect(0, 1);
}

TEST_F(PassIndexTest, AnEntryOfAWriterThatWasKilledDoesNotCount) {
  for (const std::uint64_t count : {0U, 3U, 5U, 8U}) {
    fill(count);
    std::memset(memory_.data() + kHeaderBytes + count % 5 * kEntryBytes, 0x5a, kEntryBytes / 2);
    expect(count < 5 ? 0 : count - 4, count);
  }
}

TEST_F(PassIndexTest, EveryByteOfItIsChecked) {
  fill(3);
  const auto good = memory_;
  for (std::size_t at = 0; at < kHeaderBytes + 3 * kEntryBytes; ++at) {
    memory_ = good;
    memory_[at] ^= std::byte{0x10};
    expect(0, 0);
  }
}

TEST_F(PassIndexTest, OneOfAnotherKeyIsReplaced) {
  fill(3);
  EXPECT_TRUE(PassIndex(memory_, kKey + 1).chunks().empty());
  expect(0, 0);
}

class WrongIndexTest : public ResumeTest {
 protected:
  WrongIndexTest() {
    write_libsvm();
    options_.shuffle_records = kWindow;
    options_.data.files_at_once = 2;
    whole_ = read_from(0, index_);
    skip_ = whole_.batches.size() - 3;
    EXPECT_LT(read_from(skip_, index_).parsed, whole_.parsed / 2);
  }
  // Expects that the index is not used, and becomes a good one.
  void expect_ignored() {
    const Pass expected = read_from(0, {});
    const Pass resumed = read_from(skip_, index_);
    expect_same_from(skip_, expected, resumed);
    EXPECT_GE(resumed.parsed, expected.parsed);
    const Pass again = read_from(skip_, index_);
    expect_same_from(skip_, expected, again);
    EXPECT_LT(again.parsed, expected.parsed / 2);
  }

  Memory index_ = Memory(kIndexBytes);
  Pass whole_;
  std::uint64_t skip_ = 0;
};

TEST_F(WrongIndexTest, ADamagedOneIsIgnored) {
  const Memory good = index_;
  for (const std::size_t at : {0U, 9U, 16U, 40U, 200U, 333U}) {
    SCOPED_TRACE(at);
    index_ = good;
    index_[at] ^= std::byte{4};
    expect_ignored();
  }
  index_.assign(kIndexBytes, std::byte{0xff});
  expect_ignored();
}

TEST_F(WrongIndexTest, OneOfOtherOptionsIsIgnored) {
  options_.seed = 7;
  expect_ignored();
  options_.shuffle_records = 50;
  expect_ignored();
  options_.data.files_at_once = 1;
  expect_ignored();
  options_.data.buckets = 10;
  expect_ignored();
  options_.trainer_id = 1;
  expect_ignored();
  std::swap(options_.share.files[0], options_.share.files[1]);
  expect_ignored();
}

TEST_F(WrongIndexTest, OneOfAnotherPassIsIgnored) {
  ASSERT_FALSE(PassIndex(index_, pass_key(options_, 1)).chunks().empty());
  EXPECT_TRUE(PassIndex(index_, pass_key(options_, 2)).chunks().empty());
  expect_ignored();
}

TEST_F(WrongIndexTest, OneOfFilesThatHaveChangedIsIgnored) {
  const std::string& file = options_.share.files[0];
  folder_.write("part-0", test::TemporaryFolder::read(file) + "\n1 5:5\n");
  expect_ignored();
  namespace fs = std::filesystem;
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  expect_ignored();
}

TEST_F(WrongIndexTest, LinesThatHaveChangedUnnoticedAreParsedFromTheBegin) {
  for (std::size_t i = 0; i < options_.share.files.size(); ++i) {
    namespace fs = std::filesystem;
    const std::string& file = options_.share.files[i];
    const auto time = fs::last_write_time(file);
    std::string text = test::TemporaryFolder::read(file);
    for (std::size_t at = 0; (at = text.find('#', at)) != text.npos; at += 9000)
      text[at - 1] = '\n';
    folder_.write(fmt::format("part-{}", i), text);
    fs::last_write_time(file, time);
  }
  expect_ignored();
}

TEST_F(WrongIndexTest, NoMemoryIsNoIndex) {
  for (const std::size_t size : {0U, 8U, 16U, 100U, 300U}) {
    expect_same_from(skip_, whole_, read_from(skip_, std::span(index_).first(size)));
  }
}

}  // namespace
}  // namespace paddle::data

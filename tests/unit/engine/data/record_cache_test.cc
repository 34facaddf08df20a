// Passes from memory: the batches of passes that parse.
#include "engine/data/record_cache.h"

#include <filesystem>

#include "tests/unit/engine/data/resume_fixture.h"

namespace paddle::data {
namespace {

class RecordCacheTest : public ResumeTest {
 protected:
  RecordCacheTest() {
    write_libsvm();
    options_.shuffle_records = kWindow;
    options_.data.files_at_once = 2;
  }
  void use_cache(std::uint64_t bytes_max = 1U << 30U) {
    options_.cache = std::make_shared<RecordCache>(bytes_max);
  }
  void remove_files() {
    for (const std::string& file : options_.share.files) std::filesystem::remove(file);
  }
};

TEST_F(RecordCacheTest, LaterPassesHaveTheSameBatchesAndReadNoFile) {
  const std::vector<Outcome> parsed{read(0), read(1), read(2)};
  EXPECT_NE(parsed[0].records, parsed[1].records) << "each pass has a shuffle of its own";
  use_cache();
  EXPECT_EQ(read(0), parsed[0]);
  EXPECT_TRUE(options_.cache->is_whole());
  remove_files();
  EXPECT_EQ(read(1), parsed[1]);
  EXPECT_EQ(read(2), parsed[2]);
  EXPECT_EQ(read(0), parsed[0]);
}

TEST_F(RecordCacheTest, AStreamMayBeginInTheMiddleOfAPassFromMemory) {
  const Pass whole = read_from(0, {});
  use_cache();
  read_all();
  remove_files();
  Memory index(kIndexBytes);
  for (const std::uint64_t skip : {0U, 3U, 11U}) {
    const Pass rest = read_from(skip, index);
    EXPECT_TRUE(std::ranges::equal(rest.batches, std::span(whole.batches).subspan(skip))) << skip;
    EXPECT_EQ(rest.parsed, 0U);
    EXPECT_EQ(rest.bad_records, whole.bad_records);
  }
}

TEST_F(RecordCacheTest, OfAPassThatEndedEarlyNothingIsKept) {
  const std::vector<std::string> all = read_all(2);
  use_cache();
  read_from(0, {}, 2);
  EXPECT_FALSE(options_.cache->is_whole());
  // Nor of one that begins in the middle, after a restart.
  Memory index(kIndexBytes);
  const auto cache = std::exchange(options_.cache, nullptr);
  read_from(0, index);
  options_.cache = cache;
  read_from(9, index);
  EXPECT_EQ(read_all(2), all);
  EXPECT_TRUE(options_.cache->is_whole());
  EXPECT_EQ(read_all(2), all);
}

TEST_F(RecordCacheTest, AnotherStreamAtTheSameTimeParses) {
  const std::vector<std::string> all = read_all();
  use_cache();
  const auto first = open_pass(options_, dictionary_, 0);
  EXPECT_EQ(read_all(), all);
  EXPECT_FALSE(options_.cache->is_whole());
}

TEST_F(RecordCacheTest, AboveItsLimitThePassEndsWithAClearError) {
  use_cache(4000);
  const Outcome outcome = read();
  ASSERT_FALSE(outcome.status);
  EXPECT_EQ(outcome.status.error().code, Errc::kResource);
  EXPECT_NE(outcome.status.error().message.find("exceed the limit of 4000 bytes"),
            std::string::npos)
      << outcome.status.error().message;
  EXPECT_NE(outcome.status.error().hint.find("cache_bytes_max"), std::string::npos);
}

TEST_F(RecordCacheTest, BadRecordsAreCountedInEachPass) {
  options_.share.files.push_back(folder_.write("bad.txt", "1 1:0.5\n?\n1 2:x\n0 3:1\n"));
  options_.data.skip_bad_records = true;
  const Outcome parsed = read(1);
  EXPECT_EQ(parsed.bad_records, 2U);
  use_cache();
  EXPECT_EQ(read(0).bad_records, 2U);
  EXPECT_EQ(read(1), parsed);
}

}  // namespace
}  // namespace paddle::data

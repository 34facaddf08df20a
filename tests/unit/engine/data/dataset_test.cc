#include "engine/data/dataset.h"

#include <algorithm>
#include <set>

#include "engine/data/shuffler.h"
#include "tests/unit/engine/data/data_fixture.h"

namespace paddle::data {
namespace {

class DatasetTest : public DataTest {
 protected:
  // Writes `count` records with the labels from `first` on.
  std::string write_records(const std::string& name, int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i) text += fmt::format("{}\ta b zzz\n", i);
    return folder_.write(name, text);
  }
  // Writes files of several chunks each.
  void write_large_files(int files) {
    options_.data.format = "libsvm";
    for (int file = 0; file < files; ++file) {
      std::string text;
      for (int i = 0; i < 6000 / (file + 1); ++i) {
        text += fmt::format("{} {}:{}.5 {}:1 #{:100}\n", i % 2, file * 1000000 + i, i, i % 97, "");
        if (i % 999 == 0) text += "broken\n\n";
      }
      options_.share.files.push_back(folder_.write(fmt::format("part-{}", file), text));
    }
    options_.data.skip_bad_records = true;
    options_.batch_size = 100;
  }
};

TEST_F(DatasetTest, EveryRecordGoesToOneTrainerOncePerPass) {
  options_.share = {{write_records("a", 0, 50), write_records("b", 50, 51)}, true};
  options_.shuffle_records = 20;
  options_.num_trainers = 3;
  for (const std::uint32_t pass : {0U, 1U}) {
    std::multiset<std::string> found;
    for (options_.trainer_id = 0; options_.trainer_id < 3; ++options_.trainer_id) {
      const auto part = read_all(pass);
      EXPECT_GE(part.size(), 33U);
      found.insert(part.begin(), part.end());
    }
    ASSERT_EQ(found.size(), 101U);
    for (int i = 0; i < 101; ++i) ASSERT_EQ(found.count(fmt::format("2 3 5|{}", i)), 1U);
  }
}

TEST_F(DatasetTest, TheShareGivenRisesToAllOfThePassHoweverTheFilesAreKept) {
  write_large_files(2);
  for (const bool through_a_program : {false, true}) {
    if (through_a_program) options_.data.pipe_command = {"cat"};
    const auto stream = open_pass(options_, dictionary_, 0);
    double last = 0;
    bool was_between = false;
    for (;;) {
      const auto batch = stream->next();
      ASSERT_TRUE(batch) << batch.error().message;
      ASSERT_TRUE(stream->share_given());
      EXPECT_GE(*stream->share_given(), last);
      last = *stream->share_given();
      was_between = was_between || (last > 0.1 && last < 0.9);
      if (!*batch) break;
    }
    EXPECT_EQ(last, 1.0) << through_a_program;
    EXPECT_TRUE(was_between) << through_a_program;
  }
}

TEST_F(DatasetTest, TheShareGivenOfCompressedFilesCountsTheirOwnBytes) {
  const std::string plain = write_records("plain", 0, 200'000);
  ASSERT_EQ(std::system(("gzip -k " + plain).c_str()), 0);
  options_.share = {{plain + ".gz"}, true};
  const auto stream = open_pass(options_, dictionary_, 0);
  ASSERT_TRUE(stream->next());
  EXPECT_GT(stream->share_given(), 0.0);
  EXPECT_LT(stream->share_given(), 0.1);
  while (*stream->next()) continue;
  EXPECT_EQ(stream->share_given(), 1.0);
}

TEST_F(DatasetTest, OfNoFilesNothingIsGiven) {
  EXPECT_EQ(open_pass(options_, dictionary_, 0)->share_given(), 0.0);
}

// All records are read before the first batch leaves the shuffle.
TEST_F(DatasetTest, TheShareGivenIsThatOfTheRecordsWhereTheShuffleHoldsThemAll) {
  options_.share = {{write_records("a-0", 0, 1000)}, true};
  options_.batch_size = 50;
  for (const bool is_cached : {false, true, true}) {
    for (const std::uint64_t window : {1000U, 1'000'000U}) {
      options_.shuffle_records = window;
      if (is_cached && !options_.cache) options_.cache = std::make_shared<RecordCache>(1U << 20U);
      const auto stream = open_pass(options_, dictionary_, 0);
      EXPECT_EQ(stream->share_given(), 0.0);
      for (int batch = 1; batch <= 20; ++batch) {
        const auto given = stream->next();
        ASSERT_TRUE(given && *given);
        // The batches may be taken faster than they are made.
        if (batch > 1) {
          EXPECT_NEAR(stream->share_given().value_or(-1), batch / 20.0, 1e-9) << batch;
        }
      }
    }
  }
}

TEST_F(DatasetTest, TheShareGivenWithinAPassIsUnknownBeforeTheFirstBatchAndThenCountsThoseBefore) {
  options_.share = {{write_records("a-0", 0, 1000)}, true};
  options_.batch_size = 50;
  options_.shuffle_records = 1000;
  const auto stream = open_pass(options_, dictionary_, 0, 10);
  EXPECT_EQ(stream->share_given(), std::nullopt);
  ASSERT_TRUE(stream->next());
  EXPECT_NEAR(stream->share_given().value_or(-1), 0.55, 1e-9);
}

// Trap 10: a global shuffle conserves the records and can be repeated.
TEST_F(DatasetTest, Trap10GlobalShuffleDealsEveryRecordOnceAndAnewInEachPass) {
  options_.share = {{write_records("a-0", 0, 700), write_records("b-1", 700, 300)}, true};
  options_.data.global_shuffle = true;
  options_.num_trainers = 3;
  std::vector<std::vector<std::string>> parts;
  for (const std::uint32_t pass : {0U, 1U, 0U}) {
    std::set<std::string> found;
    for (options_.trainer_id = 0; options_.trainer_id < 3; ++options_.trainer_id) {
      parts.push_back(read_all(pass));
      EXPECT_GT(parts.back().size(), 250U);
      for (const std::string& one : parts.back()) EXPECT_TRUE(found.insert(one).second) << one;
    }
    EXPECT_EQ(found.size(), 1000U);
  }
  for (std::size_t trainer = 0; trainer < 3; ++trainer) {
    const std::set<std::string> first(parts[trainer].begin(), parts[trainer].end());
    EXPECT_NE(first, std::set<std::string>(parts[3 + trainer].begin(), parts[3 + trainer].end()));
    EXPECT_EQ(parts[trainer], parts[6 + trainer]);
  }
  // Which trainer gets a record does not depend on the window of its own shuffle.
  options_.trainer_id = 0;
  options_.shuffle_records = 100;
  const auto shuffled = read_all();
  EXPECT_NE(shuffled, parts[0]);
  EXPECT_EQ(std::set<std::string>(shuffled.begin(), shuffled.end()),
            std::set<std::string>(parts[0].begin(), parts[0].end()));
}

TEST_F(DatasetTest, FilesOfOneLineGoToAllTrainersInTurn) {
  for (int i = 0; i < 6; ++i) {
    options_.share.files.push_back(write_records(fmt::format("file{}", i), i, 1));
  }
  options_.share.records_split = true;
  options_.num_trainers = 3;
  for (options_.trainer_id = 0; options_.trainer_id < 3; ++options_.trainer_id) {
    EXPECT_EQ(read_all().size(), 2U) << options_.trainer_id;
  }
}

TEST_F(DatasetTest, AGlobalShuffleAlsoOrdersTheFilesAnewInEachPassAndTrainer) {
  for (int i = 0; i < 20; ++i) {
    options_.share.files.push_back(write_records(fmt::format("file{}", i), i, 1));
  }
  const auto in_order = read_all();
  options_.data.global_shuffle = true;
  const auto first = read_all();
  EXPECT_NE(first, in_order);
  EXPECT_EQ(first, read_all());
  EXPECT_NE(first, read_all(1));
  options_.trainer_id = 1;
  EXPECT_NE(first, read_all());
  options_.trainer_id = 0;
  options_.seed = 2;
  EXPECT_NE(first, read_all());
}

TEST_F(DatasetTest, AGlobalShuffleDealsByTheSeed) {
  options_.share = {{write_records("a", 0, 200)}, true};
  options_.data.global_shuffle = true;
  options_.num_trainers = 2;
  const auto dealt = read_all();
  options_.seed = 2;
  EXPECT_NE(dealt, read_all());
}

TEST_F(DatasetTest, TheOrderIsAFunctionOfSeedPassAndTrainer) {
  options_.share = {{write_records("a", 0, 200)}, false};
  const auto in_order = read_all();
  options_.shuffle_records = 64;
  const auto shuffled = read_all();
  EXPECT_EQ(shuffled, read_all());
  EXPECT_NE(shuffled, in_order);
  EXPECT_NE(shuffled, read_all(1));
  options_.seed = 2;
  EXPECT_NE(shuffled, read_all());
  options_.seed = 1;
  options_.trainer_id = 1;
  EXPECT_NE(shuffled, read_all());
}

TEST_F(DatasetTest, ThreadsDoNotChangeABatch) {
  write_large_files(5);
  options_.shuffle_records = 500;
  for (const std::uint32_t files_at_once : {1U, 3U}) {
    options_.data.files_at_once = files_at_once;
    options_.data.threads = 1;
    const Outcome one = read();
    EXPECT_EQ(one.records.size(), 6000U + 3000 + 2000 + 1500 + 1200);
    EXPECT_EQ(one.bad_records, 7U + 4 + 3 + 2 + 2);
    for (const std::uint32_t threads : {2U, 4U, 7U}) {
      options_.data.threads = threads;
      EXPECT_TRUE(one == read()) << threads << " threads, " << files_at_once << " files at once";
    }
  }
}

TEST_F(DatasetTest, FilesAtOnceAlternate) {
  write_large_files(3);
  const auto in_order = read_all();
  options_.data.files_at_once = 3;
  const auto alternating = read_all();
  EXPECT_NE(in_order, alternating);
  EXPECT_EQ(std::multiset<std::string>(in_order.begin(), in_order.end()),
            std::multiset<std::string>(alternating.begin(), alternating.end()));
  // The second file's first record comes long before the first file's last one.
  const auto place = [&](const std::string& record) {
    return std::ranges::find(alternating, record) - alternating.begin();
  };
  EXPECT_LT(place("0|1000000:0.5 0:1"), place("1|5999:5999.5 82:1"));
}

TEST_F(DatasetTest, AFirstBadRecordEndsThePassAfterWholeBatches) {
  write_large_files(2);
  options_.data.skip_bad_records = false;
  options_.data.threads = 4;
  const Outcome outcome = read();
  ASSERT_FALSE(outcome.status);
  EXPECT_EQ(outcome.status.error().message,
            options_.share.files[0] +
                ":2: the label 'broken' is not a whole number from 0 to "
                "2^64-1");
  EXPECT_NE(outcome.status.error().hint.find("on_bad_record"), std::string::npos);
  EXPECT_TRUE(outcome.records.empty());
}

TEST_F(DatasetTest, AStreamCanBeLeftInTheMiddle) {
  options_.share = {{write_records("a", 0, 50000)}, false};
  options_.batch_size = 1;
  options_.data.threads = 3;
  const auto stream = open_pass(options_, dictionary_, 0);
  const auto batch = stream->next();
  ASSERT_TRUE(batch);
  EXPECT_EQ((*batch)->size, 1U);
}

TEST_F(DatasetTest, NoFilesAreAnEmptyPass) {
  EXPECT_TRUE(read_all().empty());
}

TEST_F(DatasetTest, AMissingFileIsNamed) {
  EXPECT_EQ(mistake_of(folder_ / "absent"), "open absent: No such file or directory");
}

TEST_F(DatasetTest, DictionariesAreChecked) {
  EXPECT_EQ(dictionary_.id("b"), 3U);
  EXPECT_EQ(dictionary_.id("anything"), 5U);
  const std::string twice = folder_.write("twice", "a\nb\na\n<unk>\n");
  for (const char* const text : {"\xef\xbb\xbfgood\nfilm\n<unk>\n", "good\r\nfilm\r\n<unk>\r\n",
                                 "\xef\xbb\xbfgood\rfilm\r<unk>"}) {
    const auto words = Dictionary::read(folder_.write("foreign", text));
    ASSERT_TRUE(words) << words.error().message;
    EXPECT_EQ(words->size(), 3U);
    EXPECT_EQ(words->id("good"), 0U);
    EXPECT_EQ(words->id("film"), 1U);
  }
  EXPECT_EQ(Dictionary::read(twice).error().message, twice + ":3: 'a' is already on line 1");
  const std::string open_ended = folder_.write("open", "a\nb\n");
  EXPECT_EQ(Dictionary::read(open_ended).error().message,
            open_ended + ": the last line is not <unk>");
}

TEST(Shuffler, TheRestOfItsWindowLeavesInARandomOrder) {
  const auto order = [](std::uint64_t stream) {
    Shuffler shuffler(1000, stream);
    std::vector<std::uint64_t> out;
    const auto take = [&](const RecordView& record) {
      out.push_back(record.ids[0]);
      return Status();
    };
    for (std::uint64_t i = 0; i < 100; ++i) {
      EXPECT_TRUE(shuffler.put({.ids = {&i, 1}, .values = {}, .counts = {}}, take));
    }
    EXPECT_TRUE(shuffler.drain(take));
    EXPECT_EQ(out.size(), 100U);
    return out;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(Shuffler, HoldsNoMoreThanItsWindow) {
  Shuffler shuffler(10, 1);
  std::vector<std::uint64_t> out;
  const auto take = [&](const RecordView& record) {
    out.push_back(record.ids[0]);
    return Status();
  };
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(shuffler.put({.ids = {&i, 1}, .values = {}, .counts = {}}, take));
    ASSERT_EQ(out.size(), i < 10 ? 0 : i - 9);
  }
  ASSERT_TRUE(shuffler.drain(take));
  EXPECT_FALSE(std::ranges::is_sorted(out));
  std::ranges::sort(out);
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(out[i], i);
}

// Passes the numbers of the records from `first` up to `end`, and appends those that leave.
void put_numbers(Shuffler& shuffler, std::uint64_t first, std::uint64_t end,
                 std::vector<std::uint64_t>& out) {
  for (std::uint64_t i = first; i < end; ++i) {
    ASSERT_TRUE(shuffler.put({.ids = {&i, 1}, .values = {}, .counts = {}}, [&](const auto& record) {
      out.push_back(record.ids[0]);
      return Status();
    }));
  }
}

TEST(Shuffler, GoesToAnyRecordWithoutThoseBefore) {
  for (const std::uint64_t window : {0U, 1U, 2U, 10U, 100U}) {
    for (const std::uint64_t count : {0U, 1U, 9U, 10U, 11U, 99U, 100U, 101U, 150U, 5000U}) {
      std::vector<std::uint64_t> before;
      std::vector<std::uint64_t> expected;
      std::vector<std::uint64_t> found;
      Shuffler walked(window, 5);
      put_numbers(walked, 0, count, before);
      put_numbers(walked, count, count + 300, expected);
      Shuffler moved(window, 5);
      const std::vector<std::uint64_t> held = moved.go_to(count);
      EXPECT_EQ(held.size(), window > 1 ? std::min(window, count) : 0);
      EXPECT_TRUE(std::ranges::is_sorted(held));
      for (const std::uint64_t& number : held) {
        moved.restore({.ids = {&number, 1}, .values = {}, .counts = {}});
      }
      put_numbers(moved, count, count + 300, found);
      EXPECT_EQ(found, expected) << window << " " << count;
    }
  }
}

}  // namespace
}  // namespace paddle::data

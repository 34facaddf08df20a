#include "engine/trainer/dataset.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/trainer/line_reader.h"
#include "tests/support/temporary_folder.h"

namespace paddle::trainer {
namespace {

using Example = std::vector<std::uint64_t>;

// Ids of each example, slot after slot.
std::vector<Example> examples(const nn::Batch& batch) {
  std::vector<Example> found(batch.size);
  for (const nn::Slot& slot : batch.slots) {
    for (std::size_t i = 0; i < batch.size; ++i) {
      const std::size_t begin = slot.offsets.empty() ? i : slot.offsets[i];
      const std::size_t end = slot.offsets.empty() ? i + 1 : slot.offsets[i + 1];
      found[i].insert(found[i].end(), slot.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                      slot.ids.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  return found;
}

class DatasetTest : public testing::Test {
 protected:
  DatasetTest()
      : dictionary_(*Dictionary::read(folder_.write("words", "<s>\n<e>\na\nb\nc\n<unk>\n"))) {
    options_.data.format = "bow";
    options_.batch_size = 7;
  }

  // `count` records with the labels from `first` on.
  std::string write_records(const std::string& name, int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i) text += fmt::format("{}\ta b zzz\n", i);
    return folder_.write(name, text);
  }
  std::vector<Example> read_all(std::uint32_t pass = 0) {
    std::vector<Example> all;
    const auto stream = open_pass(options_, dictionary_, pass);
    for (;;) {
      auto batch = stream->next();
      EXPECT_TRUE(batch) << batch.error().message;
      if (!batch || !*batch) return all;
      EXPECT_LE((*batch)->size, options_.batch_size);
      for (Example& one : examples(**batch)) all.push_back(std::move(one));
    }
  }
  std::string mistake(const std::string& text) {
    options_.share.files = {folder_.write("bad.txt", text)};
    const auto stream = open_pass(options_, dictionary_, 0);
    for (;;) {
      auto batch = stream->next();
      if (!batch) {
        EXPECT_EQ(batch.error().code, Errc::kData);
        return batch.error().message.substr(folder_.path().size() + 1);
      }
      if (!*batch) return "none";
    }
  }

  test::TemporaryFolder folder_;
  Dictionary dictionary_;
  DatasetOptions options_;
};

TEST_F(DatasetTest, NgramWindowsSlideOverTheMarkedSentence) {
  options_.data.format = "ngram";
  options_.data.ngram = 4;
  options_.share.files = {folder_.write("text", "a  b\tx\n\n \nc\r\na b")};
  std::vector<std::string> names;
  for (const auto& slot : config::data_slots(options_.data)) names.push_back(slot.name);
  EXPECT_EQ(names, (std::vector<std::string>{"word0", "word1", "word2", "next"}));
  // The second sentence is too short for a window.
  EXPECT_EQ(read_all(), (std::vector<Example>{{0, 2, 3, 5}, {2, 3, 5, 1}, {0, 2, 3, 1}}));
}

TEST_F(DatasetTest, BagsOfWordsKeepTheirLengths) {
  options_.share.files = {folder_.write("text", "1\ta b a\n0\t\n12\tnone c\n")};
  EXPECT_EQ(read_all(), (std::vector<Example>{{2, 3, 2, 1}, {0}, {5, 4, 12}}));
}

TEST_F(DatasetTest, BadRecordsAreNamed) {
  EXPECT_EQ(mistake("1\ta\nno tab\n"), "bad.txt:2: not of the form label<TAB>tokens");
  EXPECT_EQ(mistake("1\ta\n\n-1\ta\n"), "bad.txt:3: the label '-1' is not a whole number from 0");
  EXPECT_EQ(mistake("\ta\n"), "bad.txt:1: the label '' is not a whole number from 0");
  EXPECT_TRUE(
      mistake(std::string(kLineBytesMax + 600000, 'x')).starts_with("bad.txt:1: a line of"));
}

TEST_F(DatasetTest, AMissingFileIsNamed) {
  options_.share.files = {folder_ / "absent"};
  const auto batch = open_pass(options_, dictionary_, 0)->next();
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().message, "open " + folder_ / "absent" + ": No such file or directory");
}

TEST_F(DatasetTest, EveryRecordGoesToOneTrainerOncePerPass) {
  options_.share = {{write_records("a", 0, 50), write_records("b", 50, 51)}, true};
  options_.shuffle_records = 20;
  options_.num_trainers = 3;
  for (const std::uint32_t pass : {0U, 1U}) {
    std::vector<std::uint64_t> labels;
    for (options_.trainer_id = 0; options_.trainer_id < 3; ++options_.trainer_id) {
      for (const Example& one : read_all(pass)) labels.push_back(one.back());
    }
    std::sort(labels.begin(), labels.end());
    ASSERT_EQ(labels.size(), 101U);
    for (std::size_t i = 0; i < labels.size(); ++i) ASSERT_EQ(labels[i], i);
  }
}

TEST_F(DatasetTest, TheOrderIsAFunctionOfSeedPassAndTrainer) {
  options_.share = {{write_records("a", 0, 200)}, false};
  const std::vector<Example> in_order = read_all();
  options_.shuffle_records = 64;
  const std::vector<Example> shuffled = read_all();
  EXPECT_EQ(shuffled, read_all());
  EXPECT_NE(shuffled, in_order);
  EXPECT_NE(shuffled, read_all(1));
  options_.seed = 2;
  EXPECT_NE(shuffled, read_all());
  options_.seed = 1;
  options_.trainer_id = 1;
  EXPECT_NE(shuffled, read_all());
}

TEST_F(DatasetTest, AStreamCanBeLeftInTheMiddle) {
  options_.share = {{write_records("a", 0, 5000)}, false};
  options_.batch_size = 1;
  const auto stream = open_pass(options_, dictionary_, 0);
  const auto batch = stream->next();
  ASSERT_TRUE(batch);
  EXPECT_EQ((*batch)->size, 1U);
}

TEST_F(DatasetTest, NoFilesAreAnEmptyPass) {
  EXPECT_TRUE(read_all().empty());
}

TEST_F(DatasetTest, DictionariesAreChecked) {
  EXPECT_EQ(dictionary_.id("b"), 3U);
  EXPECT_EQ(dictionary_.id("anything"), 5U);
  const std::string twice = folder_.write("twice", "a\nb\na\n<unk>\n");
  EXPECT_EQ(Dictionary::read(twice).error().message, twice + ":3: 'a' is already on line 1");
  const std::string open_ended = folder_.write("open", "a\nb\n");
  EXPECT_EQ(Dictionary::read(open_ended).error().message,
            open_ended + ": the last line is not <unk>");
}

TEST(LineReader, JoinsLinesOverReads) {
  const test::TemporaryFolder folder;
  const std::string long_line(700000, 'y');
  LineReader reader({folder.write("a", "1\n" + long_line + "\n3"), folder.write("b", "4\n")});
  std::vector<std::string> lines;
  for (;;) {
    const auto line = reader.next();
    ASSERT_TRUE(line);
    if (!*line) break;
    lines.emplace_back(**line);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"1", long_line, "3", "4"}));
}

}  // namespace
}  // namespace paddle::trainer

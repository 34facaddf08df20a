// Tests of Split, which chooses the training records that are held out.
#include <algorithm>
#include <map>
#include <set>

#include "base/rng.h"
#include "tests/unit/engine/data/npz_file.h"
#include "tests/unit/engine/data/resume_fixture.h"

namespace paddle::data {
namespace {

constexpr int kRecords = 10'000;
constexpr int kUsers = 500;

// The formula that docs/job.md promises: a change would train what earlier jobs held out.
bool is_held_out(std::uint64_t seed, std::uint64_t place, double fraction) {
  const std::uint64_t hash = hash_combine(hash_combine(seed, stable_hash("held out")), place);
  return static_cast<double>(hash >> 11U) * 0x1.0p-53 < fraction;
}

class SplitTest : public ResumeTest {
 protected:
  SplitTest() {
    options_.data.format = "csv";
    options_.data.columns = {"number", "user"};
    options_.data.slots = {{.name = "number", .columns = {0}}};
    options_.data.test_fraction = 0.1;
    options_.seed = 3;
  }

  // Two files, of which record i has the number i and belongs to one of the users.
  void write_users(const std::function<std::string(int)>& line) {
    std::vector<std::string> texts(2);
    for (int i = 0; i < kRecords; ++i) texts[i < kRecords / 3 ? 0 : 1] += line(i) + "\n";
    options_.share = {};
    for (std::size_t i = 0; i < texts.size(); ++i)
      options_.share.files.push_back(folder_.write(fmt::format("part-{}", i), texts[i]));
  }
  void write_csv() {
    write_users([](int i) { return fmt::format("{},u{}", i, i % kUsers); });
  }

  std::set<int> numbers(bool held_out) {
    options_.held_out = held_out;
    std::set<int> found;
    for (const std::string& text : read_all()) EXPECT_TRUE(found.insert(std::stoi(text)).second);
    return found;
  }
  // The training records of all trainers together.
  std::set<int> numbers_of_trainers(std::uint32_t trainers) {
    options_.num_trainers = trainers;
    options_.share.records_split = trainers > 1;
    std::set<int> all;
    std::size_t sum = 0;
    for (options_.trainer_id = 0; options_.trainer_id < trainers; ++options_.trainer_id) {
      const std::set<int> part = numbers(false);
      sum += part.size();
      all.insert(part.begin(), part.end());
    }
    EXPECT_EQ(sum, all.size());
    options_.trainer_id = 0;
    options_.num_trainers = 1;
    options_.share.records_split = false;
    return all;
  }
  static std::set<int> without(const std::set<int>& some) {
    std::set<int> rest;
    for (int i = 0; i < kRecords; ++i)
      if (!some.contains(i)) rest.insert(i);
    return rest;
  }
};

TEST_F(SplitTest, EachRecordIsTrainedOrHeldOutForAnyNumberOfTrainersAndThreads) {
  write_csv();
  const std::set<int> held = numbers(true);
  // Ten standard deviations of a binomial distribution: 10 * sqrt(10,000 * 0.1 * 0.9).
  EXPECT_NEAR(static_cast<double>(held.size()), 1000, 300);
  for (const std::string split_by : {"", "user"}) {
    options_.data.split_by = split_by;
    const std::set<int> expected = numbers(true);
    EXPECT_EQ(expected == held, split_by.empty());
    for (const std::uint32_t trainers : {1U, 2U, 4U}) {
      for (const std::uint32_t threads : {1U, 4U}) {
        for (const bool global_shuffle : {false, true}) {
          options_.data.threads = threads;
          options_.data.files_at_once = trainers;
          options_.data.global_shuffle = global_shuffle;
          EXPECT_EQ(numbers(true), expected) << trainers << " " << threads;
          EXPECT_EQ(numbers_of_trainers(trainers), without(expected)) << trainers << " " << threads;
        }
      }
    }
  }
}

TEST_F(SplitTest, ARecordsPlaceDecidesInEveryFolderAndPass) {
  write_csv();
  std::set<int> expected;
  for (int i = 0; i < kRecords; ++i) {
    const int file = i < kRecords / 3 ? 0 : 1;
    const std::uint64_t name = stable_hash(fmt::format("part-{}", file));
    const auto line = static_cast<std::uint64_t>(file == 0 ? i : i - kRecords / 3);
    if (is_held_out(3, hash_combine(name, line), 0.1)) expected.insert(i);
  }
  EXPECT_EQ(numbers(true), expected);
  std::ranges::reverse(options_.share.files);
  for (std::string& file : options_.share.files)
    file = folder_.write("elsewhere/" + file.substr(file.rfind('/') + 1),
                         test::TemporaryFolder::read(file));
  EXPECT_EQ(numbers(true), expected);
  options_.held_out = false;
  EXPECT_EQ(read_all(5).size(), kRecords - expected.size());
  options_.seed = 4;
  EXPECT_NE(numbers(true), expected);
}

TEST_F(SplitTest, RecordsWithTheSameTextStayTogether) {
  options_.data.split_by = "user";
  std::set<int> expected;
  for (int i = 0; i < kRecords; ++i) {
    if (is_held_out(3, stable_hash(fmt::format("u{}", i % kUsers)), 0.1)) expected.insert(i);
  }
  // Ten standard deviations of the number of users: 10 * sqrt(500 * 0.1 * 0.9).
  EXPECT_NEAR(static_cast<double>(expected.size()) * kUsers / kRecords, 50, 40);
  write_csv();
  EXPECT_EQ(numbers(true), expected);
  // However the text is written, and in another format.
  write_users([](int i) { return fmt::format("{}, \"u{}\" ", i, i % kUsers); });
  EXPECT_EQ(numbers(true), expected);
  options_.data.format = "jsonl";
  options_.data.columns.clear();
  write_users(
      [](int i) { return fmt::format(R"({{"user": "\u0075{}", "number": {}}})", i % kUsers, i); });
  EXPECT_EQ(numbers(true), expected);
}

TEST_F(SplitTest, AMissingTextIsATextOfItsOwn) {
  options_.data.split_by = "user";
  options_.data.test_fraction = 0.5;
  const auto parts = [&](const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    options_.share.files = {folder_.write("lines", text)};
    return std::pair(numbers(false), numbers(true));
  };
  using Numbers = std::set<int>;
  const Numbers all{1, 2, 3};
  const bool is_empty_held_out = is_held_out(3, stable_hash(""), 0.5);
  const auto expected = is_empty_held_out ? std::pair(Numbers(), all) : std::pair(all, Numbers());
  EXPECT_EQ(parts({"1,", "2,\"\"", "3,  "}), expected);
  options_.data.format = "jsonl";
  EXPECT_EQ(
      parts({R"({"number": 1})", R"({"number": 2, "user": null})", R"({"number": 3, "user": ""})"}),
      expected);
  // A number is the same as its text.
  const bool is_seven_held_out = is_held_out(3, stable_hash("7"), 0.5);
  EXPECT_EQ(parts({R"({"number": 1, "user": 7})", R"({"number": 2, "user": "7"})"}),
            is_seven_held_out ? std::pair(Numbers(), Numbers{1, 2})
                              : std::pair(Numbers{1, 2}, Numbers()));
}

TEST_F(SplitTest, ALineWithoutAReadableTextIsABadTrainingRecord) {
  options_.data.split_by = "user";
  const std::string good = "1,a\n2,b\n3,c\n4,d\n";
  EXPECT_EQ(mistake(good + "5\n"), "bad.txt:5: 1 fields, not 2");
  EXPECT_EQ(mistake(good + "5,\"x\n").substr(0, 25), "bad.txt:5: a quote is not");
  options_.data.format = "jsonl";
  EXPECT_EQ(mistake("{\"number\": 1, \"user\": [1]}\n"),
            "bad.txt:1: 'user' must be a text or a number, because [data] split_by names it");
  options_.held_out = true;
  EXPECT_EQ(mistake("{\"number\": 1, \"user\": [1]}\nno json\n"), "none");
  options_.held_out = false;
  options_.data.skip_bad_records = true;
  EXPECT_EQ(read().bad_records, 2U);
}

TEST_F(SplitTest, EveryFormatCanBeSplit) {
  const auto expect_split = [&](std::size_t records) {
    options_.held_out = true;
    const std::vector<std::string> held = read_all();
    options_.held_out = false;
    EXPECT_GT(held.size(), records / 20);
    EXPECT_LT(held.size(), records / 5);
    EXPECT_EQ(read_all().size() + held.size(), records);
  };
  std::string bow, libsvm;
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 1000; ++i) {
    bow += fmt::format("{}\ta b\n", i % 2);
    libsvm += fmt::format("{} {}:1\n", i % 2, i);
    ids.push_back(static_cast<std::uint64_t>(i));
  }
  options_.data.slots.clear();
  options_.data.format = "bow";
  options_.share.files = {folder_.write("bow", bow)};
  expect_split(1000);
  options_.data.format = "libsvm";
  options_.share.files = {folder_.write("libsvm", libsvm)};
  expect_split(1000);
  options_.data.pipe_command = {"cat"};
  expect_split(1000);
  options_.data.pipe_command.clear();
  options_.data.format = "npz";
  options_.data.slots = {{.name = "number"}};
  const std::string file = folder_ / "x.npz";
  write_zip(file, {{"number.npy", npy_of("<u8", ids)}});
  options_.share.files = {file};
  expect_split(1000);
  for (const int number : numbers(true)) {
    EXPECT_TRUE(is_held_out(
        3, hash_combine(stable_hash("x.npz"), static_cast<std::uint64_t>(number)), 0.1));
  }
}

// A window of a text is no record of its own: one that is tested would share words with one that
// is trained.
TEST_F(SplitTest, AllRecordsOfALineStayTogether) {
  options_.data.format = "ngram";
  options_.data.ngram = 3;
  options_.data.slots.clear();
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a b c a b c\n";  // six windows each
  options_.share.files = {folder_.write("text", text)};
  options_.held_out = true;
  const std::size_t held = read_all().size();
  EXPECT_GT(held, 0U);
  EXPECT_EQ(held % 6, 0U);
}

TEST_F(SplitTest, BatchesAreFullAndResumeWithinAPass) {
  options_.data.slots.push_back({.name = "user", .type = config::SlotType::kHash, .columns = {1}});
  options_.shuffle_records = kWindow;
  write_files([](int i) { return fmt::format("{},{:{}}", i, i % kUsers, 100 + i % 40); });
  for (const std::string split_by : {"", "user"}) {
    options_.data.split_by = split_by;
    for (const bool held_out : {false, true}) {
      options_.held_out = held_out;
      options_.batch_size = held_out ? 20 : 50;
      const Outcome outcome = read();
      for (std::size_t i = 0; i + 1 < outcome.sizes.size(); ++i)
        ASSERT_EQ(outcome.sizes[i], options_.batch_size);
      expect_resumes();
    }
  }
}

TEST_F(SplitTest, TheCacheHasOnlyTheRecordsOfItsPart) {
  write_csv();
  const std::vector<std::string> parsed = read_all();
  options_.cache = std::make_shared<RecordCache>(1U << 24U);
  for (const std::uint32_t pass : {0U, 1U}) EXPECT_EQ(read_all(pass), parsed);
}

TEST_F(SplitTest, ItsKeysArePartOfTheReadersKey) {
  std::set<std::uint64_t> keys{reader_key(options_.data)};
  std::set<std::uint64_t> passes{pass_key(options_, 0)};
  options_.held_out = true;
  EXPECT_TRUE(passes.insert(pass_key(options_, 0)).second);
  options_.data.split_by = "user";
  EXPECT_TRUE(keys.insert(reader_key(options_.data)).second);
  options_.data.test_fraction = 0.2;
  EXPECT_TRUE(keys.insert(reader_key(options_.data)).second);
}

}  // namespace
}  // namespace paddle::data

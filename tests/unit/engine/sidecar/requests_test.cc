// Requests of a program that trains in one process, without pservers: rows, gradients, mistakes.
#include "engine/sidecar/requests.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "tests/unit/engine/sidecar/program.h"

namespace paddle::sidecar {
namespace {

class RequestsTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string answer = program_.call(hello());
    ASSERT_TRUE(says(answer, R"("ok":true)")) << answer;
  }
  void expect_misuse(const std::string& request, const std::string& why) {
    const std::string answer = program_.call(request);
    EXPECT_TRUE(says(answer, R"("ok":false,"code":2,"kind":"usage")")) << answer;
    EXPECT_TRUE(says(answer, why)) << answer;
  }

  Program program_{alone()};
};

TEST_F(RequestsTest, HelloDescribesTheJob) {
  Program other(alone());
  const std::string answer = other.call(hello());
  EXPECT_TRUE(says(answer, R"("trainer":0,"trainers":1,"pass":0,"batch":0,"samples":0)")) << answer;
  EXPECT_TRUE(says(answer, R"("resumed":false,"returned":false,"state_bytes":-1,"is_over":false)"))
      << answer;
  EXPECT_TRUE(says(answer, R"("strategy":"sync")")) << answer;
  EXPECT_TRUE(says(answer, R"("tables":[{"name":"user","width":2},{"name":"item","width":1}])"))
      << answer;
}

TEST_F(RequestsTest, APullHasEachRowOnceByAscendingId) {
  program_.pull("user", {7, 1ULL << 63U, 7, 0}, 2);
  EXPECT_EQ(program_.index, (std::vector<std::uint32_t>{1, 2, 1, 0}));
  ASSERT_EQ(program_.values.size(), 6U);
  const std::vector<float> seven(program_.values.begin() + 2, program_.values.begin() + 4);
  program_.pull("user", {7}, 2);
  EXPECT_EQ(program_.values, seven);
  program_.pull("user", {}, 2);
  EXPECT_TRUE(program_.values.empty());
}

// More ids than nn::TableReads sorts with repeats.
TEST_F(RequestsTest, APullOfManyIdsFindsEachRow) {
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < 40'000; ++i) ids.push_back(i * i % 1009 << 40U);
  program_.pull("item", ids, 1);
  std::vector<std::uint64_t> rows(ids);
  nn::sort_unique(rows);
  ASSERT_EQ(program_.values.size(), rows.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(rows[program_.index[i]], ids[i]);
}

// They are not sorted again; equal neighbours are not ascending.
TEST_F(RequestsTest, APullOfAscendingIdsHasTheirOrder) {
  program_.pull("item", {3, 5, ~std::uint64_t{0}}, 1);
  const std::vector<float> values = program_.values;
  EXPECT_EQ(program_.index, (std::vector<std::uint32_t>{0, 1, 2}));
  program_.pull("item", {3, 5, 5, ~std::uint64_t{0}}, 1);
  EXPECT_EQ(program_.index, (std::vector<std::uint32_t>{0, 1, 1, 2}));
  EXPECT_EQ(program_.values, values);
}

TEST_F(RequestsTest, ATestReadsARowThatNoPushHasMadeAsZeros) {
  program_.pull("user", {3}, 2, true);
  EXPECT_EQ(program_.values, (std::vector<float>{0, 0}));
  const std::uint32_t pulled = program_.pull("user", {3}, 2);
  EXPECT_NE(program_.values, (std::vector<float>{0, 0}));
  program_.push("user", pulled, {0, 0});
  const std::vector<float> values = program_.values;
  program_.pull("user", {3}, 2, true);
  EXPECT_EQ(program_.values, values);
  const std::string totals = program_.call(R"({"op":"finish_pass"})");
  EXPECT_TRUE(says(totals, R"("user":{"rows":1)")) << totals;
  EXPECT_TRUE(says(totals, R"("item":{"rows":0)")) << totals;
}

TEST_F(RequestsTest, APushChangesItsRowsAlone) {
  const std::uint32_t pulled = program_.pull("user", {1, 2}, 2);
  const std::vector<float> before = program_.values;
  const std::string answer = program_.push("user", pulled, {1, 2, 3, 4});
  EXPECT_TRUE(says(answer, R"("batch":1,"stop":false)")) << answer;
  program_.pull("user", {1, 2}, 2);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(program_.values[i], before[i] - static_cast<float>(i + 1));
  }
}

TEST_F(RequestsTest, PullsOfATableAreAddedUpById) {
  const std::uint32_t one = program_.pull("item", {1, 3}, 1);
  const std::uint32_t other = program_.pull("item", {2, 3, 4}, 1);
  const std::uint32_t all = program_.pull("item", {1, 2, 3, 4}, 1);
  const std::vector<float> before = program_.values;
  auto* const gradients = program_.at<float>(kMemoryBytes / 2);
  gradients[0] = 1;
  gradients[1] = 2;
  gradients[16] = 8;  // 64 bytes further
  gradients[17] = 16;
  gradients[18] = 32;
  const std::string answer = program_.call(fmt::format(
      R"({{"op":"push","samples":1,"cost":0,"tables":[{{"table":"item","pulls":[{},{}],"gradients":[{},{}]}}]}})",
      one, other, kMemoryBytes / 2, kMemoryBytes / 2 + 64));
  EXPECT_TRUE(says(answer, R"("batch":1)")) << answer;
  program_.pull("item", {1, 2, 3, 4}, 1);
  EXPECT_EQ(program_.values[0], before[0] - 1);
  EXPECT_EQ(program_.values[1], before[1] - 8);
  EXPECT_EQ(program_.values[2], before[2] - (2 + 16));
  EXPECT_EQ(program_.values[3], before[3] - 32);
  EXPECT_TRUE(says(program_.push("item", one, {1, 1}), "is no pull, or is released"));
  EXPECT_TRUE(says(program_.push("item", all, {0, 0, 0, 0}), R"("batch":2)"));
}

TEST_F(RequestsTest, AReleaseOfANumberThatIsNoRequestReleasesNothing) {
  const std::uint32_t pulled = program_.pull("item", {1}, 1);
  for (const std::uint64_t number :
       {pulled + (1ULL << 32U), pulled + (1ULL << 52U), pulled + 1ULL}) {
    EXPECT_TRUE(says(program_.call(fmt::format(R"({{"op":"release","pulls":[{}]}})", number)),
                     R"("ok":true)"));
  }
  EXPECT_TRUE(says(program_.push("item", pulled, {1}), R"("batch":1)"));
}

TEST_F(RequestsTest, IdsThatChangeDuringAPullAreReadOnce) {
  constexpr std::uint64_t kIds = 40'000;
  constexpr std::uint64_t kOut = kIds * 8;
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    for (std::uint64_t round = 1; !is_over; ++round) {
      for (std::uint64_t i = 0; i < kIds; ++i) {
        std::atomic_ref(program_.at<std::uint64_t>(0)[i]).store(i * 977 * round);
      }
    }
  });
  for (int i = 0; i < 50; ++i) {
    const std::string answer = program_.call(fmt::format(
        R"({{"op":"pull","tables":[{{"table":"item","ids":[0,{}],"out":{}}}]}})", kIds, kOut));
    EXPECT_TRUE(says(answer, R"("ok":true)")) << answer;
    const auto* const index = program_.at<std::uint32_t>(kOut);
    EXPECT_LT(*std::max_element(index, index + kIds), kIds);
  }
  is_over = true;
  other.join();
}

TEST_F(RequestsTest, ReleasedRowsCannotBePushed) {
  const std::uint32_t pulled = program_.pull("item", {1}, 1);
  EXPECT_TRUE(says(program_.call(fmt::format(R"({{"op":"release","pulls":[{}]}})", pulled)),
                   R"("ok":true)"));
  EXPECT_TRUE(says(program_.push("item", pulled, {1}), "is no pull, or is released"));
  const std::uint32_t tested = program_.pull("item", {1}, 1, true);
  EXPECT_TRUE(says(program_.push("item", tested, {1}), "was a test"));
}

TEST_F(RequestsTest, AGradientThatIsNotFiniteIsRefusedBeforeItIsSent) {
  const std::uint32_t pulled = program_.pull("user", {5, 9}, 2);
  const std::vector<float> before = program_.values;
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), 1e30F}) {
    const std::string answer = program_.push("user", pulled, {1, 1, 1, bad});
    EXPECT_TRUE(says(answer, R"("kind":"data")")) << answer;
    EXPECT_TRUE(says(answer,
                     "trainer 0, pass 1 (pass-00000), batch 1: a gradient of row 9 of "
                     "table 'user' is"))
        << answer;
  }
  program_.pull("user", {5, 9}, 2);
  EXPECT_EQ(program_.values, before);
  EXPECT_TRUE(says(program_.push("user", pulled, {1, 1, 1, 1}), R"("batch":1)"))
      << "the channel goes on, and the rows are still there";
}

TEST_F(RequestsTest, RangesOutsideTheMemoryAreRefused) {
  const auto pull = [](const std::string& ids, const std::string& out) {
    return R"({"op":"pull","tables":[{"table":"user","ids":)" + ids + R"(,"out":)" + out + "}]}";
  };
  expect_misuse(pull("[1048576,1]", "0"), "the ids of table 'user'");
  expect_misuse(pull("[0,9007199254740991]", "0"), "the ids of table 'user'");
  expect_misuse(pull("[0,1e300]", "0"), "'ids' must be a whole number");
  expect_misuse(pull("[0,-1]", "0"), "'ids' must be a whole number");
  expect_misuse(pull("[0,1.5]", "0"), "'ids' must be a whole number");
  expect_misuse(pull("[0]", "0"), "'ids' must be [offset, count]");
  expect_misuse(pull("[0,1]", "1048576"), "the rows of table 'user'");
  expect_misuse(pull("[0,1]", "1048512"), "the rows of table 'user'");  // no room for the values
  expect_misuse(pull("[0,8]", "32"), "no multiple of 64");
  expect_misuse(pull("[0,8]", "0"), "share memory");
  const std::uint32_t pulled = program_.pull("user", {1}, 2);
  expect_misuse(
      fmt::format(
          R"({{"op":"push","samples":1,"tables":[{{"table":"user","pulls":[{}],"gradients":[{}]}}]}})",
          pulled, kMemoryBytes),
      "the gradients of table 'user'");
  expect_misuse(R"({"op":"state","offset":0,"data":[0,1048577]})", "the state");
}

TEST_F(RequestsTest, MistakesNameWhatIsWrong) {
  expect_misuse("[]", "request 2");
  expect_misuse("{", "request 3");
  expect_misuse(R"({"o":"pull"})", "unknown field 'o'");
  expect_misuse(R"({"pulls":[]})", "'op' must be a text");
  expect_misuse(R"({"op":"train"})", "unknown op 'train'");
  expect_misuse(R"({"op":"pull"})", "'tables' must be a list");
  expect_misuse(R"({"op":"pull","tables":[1]})", "list of objects");
  expect_misuse(R"({"op":"pull","tables":[{"table":"users","ids":[0,1],"out":64}]})",
                R"(did you mean 'user'?)");
  expect_misuse(R"({"op":"pull","tables":[{"table":"user","id":[0,1],"out":64}]})", "no 'id'");
  const std::string one = R"({"table":"user","ids":[0,1],"out":64})";
  expect_misuse(R"({"op":"pull","tables":[)" + one + "," + one + "]}", "occurs twice");
  expect_misuse(R"({"op":"pull","tables":[{"table":"user","ids":[0,1],"out":64,"test":1}]})",
                "'test' must be true or false");
  expect_misuse(R"({"op":"push","samples":-1,"tables":[]})", "'samples' must be a whole number");
  expect_misuse(R"({"op":"push","samples":1,"cost":"x","tables":[]})", "'cost' must be a finite");
  expect_misuse(
      R"({"op":"push","samples":1,"tables":[{"table":"user","pulls":[1],"gradients":[]}]})",
      "1 pulls and 0 gradients");
  expect_misuse(
      R"({"op":"push","samples":1,"tables":[{"table":"user","pulls":[4294967297],"gradients":[0]}]})",
      "request 4294967297 is no pull");
  expect_misuse(hello(), "hello was answered already");
  EXPECT_TRUE(says(program_.call(R"({"op":"alive"})"), R"("ok":true)")) << "the channel goes on";
}

// The pservers would end the job for it.
TEST_F(RequestsTest, MoreSamplesThanABatchMayHaveAreRefused) {
  const auto push = [](std::uint64_t samples) {
    return fmt::format(R"({{"op":"push","samples":{},"tables":[]}})", samples);
  };
  for (const std::uint64_t samples : {(1ULL << 24U) + 1, 1ULL << 31U, (1ULL << 53U) - 1}) {
    expect_misuse(push(samples),
                  fmt::format("'samples' is {}; a batch has at most 16777216", samples));
  }
  EXPECT_TRUE(says(program_.call(push(1U << 24U)), R"("batch":1)"));
}

TEST_F(RequestsTest, CostsAreRefusedWhoseSumIsNoNumber) {
  const auto push = [](const std::string& cost) {
    return R"({"op":"push","samples":1,"cost":)" + cost + R"(,"tables":[]})";
  };
  for (const char* const cost : {"1.7e308", "-1.7e308", "1.1e300"}) {
    expect_misuse(push(cost), "it cannot be added up");
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(says(program_.call(push("-1e300")), R"("ok":true)"));
  }
  const std::string totals = program_.call(R"({"op":"finish_pass"})");
  EXPECT_TRUE(says(totals, R"("samples":3,"cost":-3e+300)")) << totals;
}

TEST_F(RequestsTest, APushWithoutRowsCountsItsSamples) {
  EXPECT_TRUE(
      says(program_.call(R"({"op":"push","samples":4,"cost":2.5,"tables":[]})"), R"("batch":1)"));
  const std::string totals = program_.call(R"({"op":"finish_pass"})");
  EXPECT_TRUE(says(totals, R"("pass":1,"samples":4,"cost":2.5)")) << totals;
  EXPECT_TRUE(says(totals, R"("paused":false)")) << totals;
}

TEST_F(RequestsTest, StopIsAnsweredAtOnceAndComesWithTheNextPush) {
  EXPECT_TRUE(says(program_.call(R"({"op":"stop"})"), R"("ok":true)"));
  EXPECT_TRUE(says(program_.call(R"({"op":"push","samples":1,"tables":[]})"), R"("stop":true)"));
}

TEST_F(RequestsTest, AfterLeavingThereIsNoJob) {
  EXPECT_TRUE(says(program_.call(R"({"op":"leave"})"), R"("ok":true)"));
  expect_misuse(R"({"op":"push","samples":1,"tables":[]})", "has left the job");
  expect_misuse(R"({"op":"save"})", "has left the job");
  EXPECT_TRUE(program_.end());
}

TEST_F(RequestsTest, ABrokenChannelEndsTheService) {
  program_.write(std::string(16, 'x'));
  const Status ended = program_.end();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::kData);
}

TEST_F(RequestsTest, TheServiceSaysThatItLives) {
  while (program_.events.empty()) {
    ASSERT_TRUE(says(program_.call(R"({"op":"alive"})"), R"("ok":true)"));
  }
  EXPECT_EQ(program_.events[0], R"({"event":"alive","waiting":""})");
}

TEST(Requests, HelloComesFirst) {
  Program program(alone());
  EXPECT_TRUE(says(program.call(R"({"op":"finish_pass"})"), "the first request must be hello"));
  EXPECT_TRUE(says(program.call(R"({"op":"hello","version":2})"), R"("kind":"version")"));
  EXPECT_TRUE(says(program.call(hello("")), "the program gives no table"));
  EXPECT_TRUE(says(program.call(hello()), R"("ok":true)")) << "after a mistake, once more";
}

// Under geo each push begins a new window, in which rows of the earlier pull are fetched again.
TEST(Requests, RowsMayBePulledBeforeTheBatchBeforeIsPushed) {
  for (const std::string strategy : {"sync", "async", "half_async", "geo"}) {
    Program program(alone());
    const std::string more = R"([strategy]\nsparse = \")" + strategy + R"(\"\n)" +
                             (strategy == "geo" ? R"(update_frequency = 1\n)" : "");
    ASSERT_TRUE(says(program.call(hello(kTables + more)), R"("ok":true)")) << strategy;
    program.pull("item", {1, 2, 3}, 1);
    const std::vector<float> start = program.values;
    std::uint32_t pulled = program.pull("item", {1, 2}, 1);
    for (int batch = 0; batch < 4; ++batch) {
      const std::uint32_t next = program.pull("item", {1, 2}, 1);
      EXPECT_TRUE(says(program.push("item", pulled, {1, 2}), R"("ok":true)")) << strategy;
      pulled = next;
    }
    program.call(R"({"op":"finish_pass"})");
    program.pull("item", {1, 2, 3}, 1, true);
    EXPECT_EQ(program.values[0], start[0] - 1 - 1 - 1 - 1) << strategy;
    EXPECT_EQ(program.values[1], start[1] - 2 - 2 - 2 - 2) << strategy;
  }
}

}  // namespace
}  // namespace paddle::sidecar

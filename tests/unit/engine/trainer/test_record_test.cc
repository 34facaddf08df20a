#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "engine/trainer/early_stop.h"
#include "tests/support/temporary_folder.h"

namespace paddle::trainer {
namespace {

const std::vector<nn::Value> kRecordFigures{{"cost", 0}, {"auc", 0, true}};

TEST(TestRecord, TestsOutliveAProcessWithAllTheirBits) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(read_tests(folder.path()));
  EXPECT_TRUE(read_tests(folder.path())->empty());
  const std::vector<PassTest> tests{{0, {{"cost", 1.0 / 3}, {"my = auc", 0.1}}},
                                    {4, {{"cost", -1e-300}, {"my = auc", 5e300}}}};
  ASSERT_TRUE(write_tests(folder.path(), tests));
  const auto read = read_tests(folder.path());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, tests);
  const std::vector<PassTest> without_a_number{{7, {{"cost", std::nan("")}}}};
  ASSERT_TRUE(write_tests(folder.path(), without_a_number));
  EXPECT_TRUE(std::isnan(read_tests(folder.path())->at(0).figures.at(0).value));
}

TEST(TestRecord, AFileOfAnotherKindIsRefusedByItsLine) {
  const test::TemporaryFolder folder;
  for (const char* const text :
       {"pass=0\tcost=1\nhello\n", "pass=0\nfoo=1\n", "pass=0\npass=0\n", "pass=0\npass=x\n",
        "pass=0\npass=1\tcost\n", "pass=0\npass=1\tcost=one\n"}) {
    folder.write("TESTS", text);
    const auto read = read_tests(folder.path());
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, Errc::kData);
    EXPECT_NE(read.error().message.find("/TESTS:2: the line is not the test of a pass"),
              std::string::npos)
        << read.error().message;
  }
}

TEST(TestRecord, TheBestPassHasAFileWhileThereIsOne) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_best(folder.path(), ""));
  ASSERT_TRUE(write_best(folder.path(), "pass-00003"));
  EXPECT_EQ(test::TemporaryFolder::read(folder / "BEST"), "pass-00003\n");
  ASSERT_TRUE(write_best(folder.path(), "pass-00004"));
  EXPECT_EQ(test::TemporaryFolder::read(folder / "BEST"), "pass-00004\n");
  ASSERT_TRUE(write_best(folder.path(), ""));
  EXPECT_FALSE(std::filesystem::exists(folder / "BEST"));
}

TEST(TestRecord, ADecisionArrivesAsItWasSent) {
  const std::vector<nn::Value> figures{{"cost", 1.0 / 3}, {"auc", std::nan("")}};
  for (const EndReason reason : {EndReason::kNone, EndReason::kWorse, EndReason::kReached}) {
    Tally all = encode(Decision{reason, figures}, kRecordFigures);
    for (const double sum : all.sums) EXPECT_TRUE(std::isfinite(sum)) << "a pserver refuses it";
    const Tally of_another = encode(Decision(), kRecordFigures);
    ASSERT_TRUE(all.same_shape(of_another));
    all.add(of_another);
    const auto heard = decode_decision(all, kRecordFigures);
    ASSERT_TRUE(heard);
    EXPECT_EQ(heard->reason, reason);
    ASSERT_EQ(heard->figures.size(), 2U);
    EXPECT_EQ(heard->figures[0].value, 1.0 / 3);
    EXPECT_TRUE(std::isnan(heard->figures[1].value));
    EXPECT_TRUE(heard->figures[1].higher_is_better);
  }
  const auto none = decode_decision(encode(Decision(), kRecordFigures), kRecordFigures);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->figures.empty());
  EXPECT_FALSE(decode_decision({}, kRecordFigures));
  EXPECT_FALSE(decode_decision({{0, 0, 0}, {0, 0, 0}}, kRecordFigures));
}

}  // namespace
}  // namespace paddle::trainer

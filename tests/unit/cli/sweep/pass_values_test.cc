#include "cli/sweep/pass_values.h"

#include <cmath>

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

using Source = PassValues::Source;

std::vector<PassValue> values_of(const std::string& figure, Source source,
                                 const std::vector<std::string>& lines) {
  PassValues values(figure, source);
  for (const std::string& line : lines) {
    const auto parsed = parse_metrics(line);
    EXPECT_TRUE(parsed) << line;
    if (parsed) (void)values.take(*parsed);
  }
  return values.values();
}

TEST(PassValues, ATestWithinAPassDoesNotCount) {
  const auto values = values_of("auc", Source::kTests,
                                {R"({"kind":"test","pass":0,"cost":1,"auc":0.5,"unix_ms":1})",
                                 R"({"kind":"pass","pass":0,"cost":1,"auc":0.6,"unix_ms":2})",
                                 R"({"kind":"test","pass":0,"cost":1,"auc":0.7,"unix_ms":3})",
                                 R"({"kind":"test","pass":1,"cost":1,"auc":0.8,"unix_ms":4})",
                                 R"({"kind":"pass","pass":1,"cost":1,"auc":0.9,"unix_ms":5})",
                                 R"({"kind":"test","pass":1,"cost":1,"auc":null,"unix_ms":6})"});
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0].passes, 1U);
  EXPECT_EQ(values[0].value, 0.7);
  EXPECT_EQ(values[0].rank, -0.7) << "higher is better";
  EXPECT_EQ(values[0].unix_ms, 3);
  EXPECT_EQ(values[1].passes, 2U);
  EXPECT_TRUE(std::isnan(values[1].rank));
}

TEST(PassValues, WithoutTestsThePassItselfCounts) {
  const auto values =
      values_of("cost", Source::kPasses,
                {R"({"kind":"pass","pass":0,"cost":1,"total_cost":2,"unix_ms":2})",
                 R"({"kind":"pass","pass":1,"cost":1,"total_cost":null,"unix_ms":2})"});
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0].rank, 2) << "of all trainers";
}

TEST(PassValues, AResumedTrialTrainsAPassOnce) {
  const std::string pass = R"({"kind":"pass","pass":0,"cost":1,"unix_ms":2})";
  const auto values = values_of("cost", Source::kTests,
                                {pass, R"({"kind":"test","pass":0,"cost":3,"unix_ms":2})", pass,
                                 R"({"kind":"test","pass":0,"cost":4,"unix_ms":2})"});
  ASSERT_EQ(values.size(), 1U);
  EXPECT_EQ(values[0].value, 3);
}

TEST(PassValues, AProgramOfTheUsersOwnWritesTestsAlone) {
  const auto values = values_of(
      "val_accuracy", Source::kOwnTests,
      {R"({"kind":"test","pass":0,"loss":3})", R"({"kind":"test","pass":0,"val_accuracy":0.25})",
       R"({"kind":"test","pass":1,"calibration":0.9,"one_is_best":"calibration"})"});
  ASSERT_EQ(values.size(), 1U);
  EXPECT_EQ(values[0].rank, -0.25);
}

}  // namespace
}  // namespace paddle::cli

#include "cli/console/time_text.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

TEST(TimeText, SpansAndPoints) {
  EXPECT_EQ(span_text(-5), "0.0s");
  EXPECT_EQ(span_text(9'940), "9.9s");
  EXPECT_EQ(span_text(59'999), "59s");
  EXPECT_EQ(span_text(3'599'000), "59m59s");
  EXPECT_EQ(span_text(3'661'000), "1h01m");
  EXPECT_EQ(span_text(90'000'000), "1d01h");
  EXPECT_EQ(utc_text(1'700'000'000'000), "2023-11-14 22:13:20");
  EXPECT_EQ(*parse_since("5", 10'000), 5'000) << "plain numbers are seconds";
  EXPECT_EQ(*parse_since("2h", 10'000'000), 2'800'000);
  EXPECT_EQ(*parse_since("2023-11-14T22:13:20Z", 0), 1'700'000'000'000);
  EXPECT_EQ(*parse_since("2023-11-14", 0), 1'699'920'000'000);
  for (const char* const bad : {"", "m", "-1m", "5 m", "2023-11-14T", "99999999999999999999m"}) {
    EXPECT_FALSE(parse_since(bad, 1)) << bad;
  }
}

}  // namespace
}  // namespace paddle::cli

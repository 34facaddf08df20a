#include <cmath>

#include <gtest/gtest.h>

#include "engine/config/job_config.h"

namespace paddle::config {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(ParseDuration, UnitsAddUpFromTheLargest) {
  EXPECT_EQ(parse_duration("90s"), seconds(90));
  EXPECT_EQ(parse_duration("15m"), minutes(15));
  EXPECT_EQ(parse_duration("2h"), hours(2));
  EXPECT_EQ(parse_duration("1d"), hours(24));
  EXPECT_EQ(parse_duration("1h30m"), minutes(90));
  EXPECT_EQ(parse_duration(" 1d2h3m4s "), hours(26) + minutes(3) + seconds(4));
  EXPECT_EQ(parse_duration("0h5s"), seconds(5));
  EXPECT_EQ(parse_duration("3650d"), hours(24 * 3650));
}

TEST(ParseDuration, OthersAreNone) {
  for (const char* const text :
       {"", " ", "2", "h", "2 h", "-2h", "2.5h", "2w", "30m1h", "1h1h", "2hours", "0s", "0d0h",
        "3651d", "3650d1s", "99999999999s", "4294967295d", "1h30"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

TEST(ParseStopWhen, EachRelationHoldsWhereItSays) {
  struct Case {
    const char* text;
    bool below, at, above;
  };
  for (const Case& one : {Case{"auc >= 0.8", false, true, true},
                          {"auc>0.8", false, false, true},
                          {"auc <= 0.8", true, true, false},
                          {" auc <0.8 ", true, false, false}}) {
    const auto parsed = parse_stop_when(one.text);
    ASSERT_TRUE(parsed) << one.text;
    EXPECT_EQ(parsed->figure, "auc") << one.text;
    EXPECT_EQ(parsed->limit, 0.8) << one.text;
    EXPECT_EQ(parsed->holds(0.79), one.below) << one.text;
    EXPECT_EQ(parsed->holds(0.8), one.at) << one.text;
    EXPECT_EQ(parsed->holds(0.81), one.above) << one.text;
    EXPECT_FALSE(parsed->holds(std::nan(""))) << one.text;
  }
  EXPECT_EQ(parse_stop_when("clicks.f1 >= 1e-3")->figure, "clicks.f1");
  EXPECT_EQ(parse_stop_when("cost <= -2")->limit, -2);
  EXPECT_EQ(parse_stop_when(" cost <= 2 ")->text, "cost <= 2");
}

TEST(ParseStopWhen, OthersAreNone) {
  for (const char* const text :
       {"", "auc", "0.8", "auc = 0.8", "auc == 0.8", "auc >=", ">= 0.8", "auc >= 0.8 0.9",
        "auc => 0.8", "auc >= high", "auc > = 0.8", "auc >= inf", "auc >= nan", "auc >> 1"}) {
    EXPECT_FALSE(parse_stop_when(text)) << text;
  }
}

}  // namespace
}  // namespace paddle::config

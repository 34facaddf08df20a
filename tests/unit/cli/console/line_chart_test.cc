// Charts in plain text.
#include "cli/console/line_chart.h"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(LineChart, DrawsCurvesOverEachOther) {
  const auto lines =
      lines_of(line_chart({{'a', {{0, 1}, {100, 2}}}, {'b', {{0, 2}, {50, 1.5}, {200, 1.5}}}}, 40));
  ASSERT_EQ(lines.size(), 14U);
  EXPECT_EQ(lines[0].substr(0, 4), "2 |b") << "b begins at the top";
  EXPECT_EQ(lines[0].back(), 'a') << "a ends there, in the middle";
  EXPECT_EQ(lines[0].size(), 3 + 19U);
  EXPECT_EQ(lines[11].substr(0, 4), "1 |a");
  EXPECT_GE(std::ranges::count(lines[5], 'b'), 25) << "flat from 50 on";
  EXPECT_EQ(lines[12], "  +" + std::string(37, '-'));
  EXPECT_EQ(lines[13], "   0" + std::string(33, ' ') + "200");
  for (const std::string& line : lines) EXPECT_LE(line.size(), 40U);
}

TEST(LineChart, WhereCurvesMeetTheEarlierOneIsSeen) {
  const std::string text = line_chart({{'a', {{0, 1}, {1, 2}}}, {'b', {{0, 1}, {1, 2}}}}, 40);
  EXPECT_EQ(text.find('b'), std::string::npos);
}

TEST(LineChart, IsLogarithmicForValuesFarApart) {
  const auto lines = lines_of(line_chart({{'a', {{0, 1e6}, {1, 1e3}, {2, 1}}}}, 43));
  const auto is_middle = [](const std::string& line) {
    return line.size() > 27 && line.substr(25, 4).find('a') != std::string::npos;
  };
  EXPECT_TRUE(is_middle(lines[5]) || is_middle(lines[6])) << line_chart({}, 40);
  EXPECT_EQ(lines[0].substr(0, 5), "1e+06");
}

TEST(LineChart, HasRoomForAPointAloneAndForNone) {
  EXPECT_EQ(line_chart({}, 40), "");
  EXPECT_EQ(line_chart({{'a', {}}}, 40), "");
  const std::string point = line_chart({{'a', {{3, 5}}}}, 0);
  EXPECT_EQ(std::ranges::count(point, 'a'), 1) << point;
}

}  // namespace
}  // namespace paddle::cli

#include "cli/dashboard/record_slots.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

using Jobs = std::set<std::string>;

const TimePoint kStart = TimePoint() + std::chrono::hours(1);

TimePoint at(int seconds) {
  return kStart + std::chrono::seconds(seconds);
}
std::string name(const char* kind, std::size_t i) {
  return fmt::format("{}{:03}", kind, i);
}
std::vector<std::string> names(const char* kind, std::size_t count) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(name(kind, i));
  return all;
}

TEST(RecordSlots, AJobThatIsAskedForHasAPlaceForAWhile) {
  RecordSlots slots;
  EXPECT_TRUE(slots.ask("a", at(0)));
  EXPECT_FALSE(slots.ask("a", at(30)));
  EXPECT_EQ(slots.choose(at(90)).records, Jobs{"a"}) << "also before a node knows it";
  EXPECT_EQ(slots.choose(at(91)).records, Jobs{});
  EXPECT_TRUE(slots.ask("a", at(92)));
}

TEST(RecordSlots, AJobKeepsItsPlaceUntilNobodyAsksForIt) {
  RecordSlots slots;
  const auto jobs = names("j", kRecordsMax + 1);
  slots.know(jobs);
  for (std::size_t i = 0; i < kRecordsMax; ++i) slots.ask(jobs[i], at(0));
  const Jobs first = slots.choose(at(0)).records;
  EXPECT_EQ(first.size(), kRecordsMax);
  slots.ask(jobs.back(), at(5));
  auto choice = slots.choose(at(5));
  EXPECT_EQ(choice.records, first) << "although it was asked for later";
  EXPECT_EQ(choice.crowded, Jobs{jobs.back()});
  for (std::size_t i = 1; i < jobs.size(); ++i) slots.ask(jobs[i], at(50));
  choice = slots.choose(at(61));
  EXPECT_TRUE(choice.records.contains(jobs.back())) << "the place of the first one";
  EXPECT_FALSE(choice.records.contains(jobs.front()));
  EXPECT_EQ(choice.crowded, Jobs{});
}

TEST(RecordSlots, NamesThatNoNodeKnowsTakeNoPlace) {
  RecordSlots slots;
  for (const std::string& job : names("x", kAskedMax)) EXPECT_TRUE(slots.ask(job, at(1)));
  EXPECT_FALSE(slots.ask("y", at(1))) << "no look comes sooner for it";
  slots.choose(at(1));
  const auto jobs = names("j", kRecordsMax);
  slots.know(jobs);
  for (const std::string& job : jobs) EXPECT_TRUE(slots.ask(job, at(0)));
  const auto choice = slots.choose(at(2));
  EXPECT_EQ(choice.records, Jobs(jobs.begin(), jobs.end()));
  EXPECT_EQ(choice.crowded, Jobs{});
}

TEST(RecordSlots, AJobThatIsRemovedLosesItsPlace) {
  RecordSlots slots;
  auto jobs = names("j", kRecordsMax + 1);
  slots.know(jobs);
  for (const std::string& job : jobs) slots.ask(job, at(0));
  const std::string crowded = *slots.choose(at(0)).crowded.begin();
  std::erase(jobs, *slots.choose(at(0)).records.begin());
  slots.know(jobs);
  EXPECT_TRUE(slots.choose(at(1)).records.contains(crowded));
}

}  // namespace
}  // namespace paddle::cli

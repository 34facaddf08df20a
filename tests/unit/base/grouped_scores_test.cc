// The mean of AUCs over groups against one that keeps all examples, within bounded memory, whatever
// the order in which parts come.
#include "base/grouped_scores.h"

#include <cmath>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/tally.h"

namespace paddle {
namespace {

struct GroupMember {
  std::uint64_t group = 0;
  float probability = 0;
  unsigned label = 0;
};

GroupedScores grouped_of(std::span<const GroupMember> all,
                         std::size_t examples_max = GroupedScores::kExamplesMax) {
  std::vector<GroupedScores::Example> examples;
  for (const GroupMember& one : all) {
    examples.push_back(
        {one.group, std::uint64_t{probability_key(one.probability)} << 32U | one.label});
  }
  GroupedScores made(examples_max);
  made.add(examples);
  return made;
}

// By pairs, group by group.
double exact_mean(std::span<const GroupMember> all) {
  std::map<std::uint64_t, std::vector<GroupMember>> groups;
  for (const GroupMember& one : all) groups[one.group].push_back(one);
  double sum = 0;
  double weights = 0;
  for (const auto& [group, members] : groups) {
    double right = 0;
    double pairs = 0;
    for (const GroupMember& one : members) {
      for (const GroupMember& zero : members) {
        if (one.label != 1 || zero.label != 0) continue;
        ++pairs;
        right += one.probability > zero.probability    ? 1
                 : one.probability == zero.probability ? 0.5
                                                       : 0;
      }
    }
    if (pairs == 0) continue;
    sum += right / pairs * static_cast<double>(members.size());
    weights += static_cast<double>(members.size());
  }
  return sum / weights;
}

// Scores that are right within groups, around a level that differs between groups.
std::vector<GroupMember> draw_groups(std::size_t count, std::uint64_t groups, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<GroupMember> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t group = rng.next() % groups;
    const unsigned label = rng.uniform() < 0.3 ? 1 : 0;
    const double level = static_cast<double>(mix64(group) % 100) / 200;
    all.push_back({group, static_cast<float>(level + 0.4 * rng.uniform() + 0.1 * label), label});
  }
  return all;
}

TEST(GroupedScores, IsTheMeanOverGroupsWithBothClassesByTheirExamples) {
  // Group 1: AUC 1 of 2 examples; group 2: 0.5 of 4; groups 3 and 4 have one class.
  const std::vector<GroupMember> all{{1, 0.1F, 0}, {1, 0.2F, 1}, {2, 0.5F, 1}, {2, 0.6F, 0},
                                     {2, 0.4F, 0}, {2, 0.6F, 0}, {3, 0.9F, 1}, {4, 0.9F, 0}};
  EXPECT_DOUBLE_EQ(grouped_of(all).mean_area(), (2 * 1.0 + 4 / 3.0) / 6);
}

TEST(GroupedScores, IsExactWhileAllGroupsFit) {
  for (const std::uint64_t groups : {1U, 40U, 5000U}) {
    const auto all = draw_groups(3000, groups, groups);
    const GroupedScores scores = grouped_of(all);
    EXPECT_EQ(scores.level(), 0U);
    EXPECT_NEAR(scores.mean_area(), exact_mean(all), 1e-12) << groups;
  }
}

TEST(GroupedScores, WithoutAGroupOfBothClassesThereIsNoMean) {
  EXPECT_TRUE(std::isnan(GroupedScores().mean_area()));
  EXPECT_TRUE(GroupedScores().empty());
  EXPECT_TRUE(
      std::isnan(grouped_of(std::vector<GroupMember>{{1, 0.5F, 1}, {2, 0.25F, 0}}).mean_area()));
}

// 20,000 examples of 4,000 groups in room for 4,096 examples.
TEST(GroupedScores, AboveItsRoomItKeepsWholeGroups) {
  const auto all = draw_groups(20'000, 4000, 7);
  const GroupedScores scores = grouped_of(all, 4096);
  EXPECT_GE(scores.level(), 3U);
  EXPECT_GT(scores.groups(), 300U);
  EXPECT_LT(scores.groups(), 820U);
  std::vector<GroupMember> kept;
  for (const GroupMember& one : all)
    if (mix64(one.group) >> (64U - scores.level()) == 0) kept.push_back(one);
  EXPECT_LE(kept.size(), 4096U);
  EXPECT_NEAR(scores.mean_area(), exact_mean(kept), 1e-12);
  EXPECT_NEAR(scores.mean_area(), exact_mean(all), 0.05);
}

// Few groups with many examples each lose neighbouring scores, but no group.
TEST(GroupedScores, LargeGroupsShareCountsAndStay) {
  const auto all = draw_groups(20'000, 5, 3);
  const GroupedScores scores = grouped_of(all, 4096);
  EXPECT_EQ(scores.level(), 0U);
  EXPECT_EQ(scores.groups(), 5U);
  EXPECT_NEAR(scores.mean_area(), exact_mean(all), 1e-3);
}

TEST(GroupedScores, ASumHasTheSameBitsInAnyOrderOfItsParts) {
  for (const std::uint64_t groups : {20U, 3000U}) {
    const auto all = draw_groups(20'000, groups, 5);
    const GroupedScores whole = grouped_of(all, 1000);
    EXPECT_GT(whole.level(), 0U);
    Rng rng(8);
    for (int time = 0; time < 5; ++time) {
      std::vector<GroupedScores> parts;
      for (std::size_t begin = 0; begin < all.size();) {
        const std::size_t count = std::min<std::size_t>(all.size() - begin, rng.next() % 6000);
        parts.push_back(grouped_of(std::span(all).subspan(begin, count), 1000));
        begin += count;
      }
      for (std::size_t i = parts.size(); i-- > 1;) std::swap(parts[i], parts[rng.next() % (i + 1)]);
      GroupedScores sum(1000);
      for (const GroupedScores& part : parts) sum.add(part);
      EXPECT_EQ(sum, whole) << groups << " " << time;
      EXPECT_EQ(sum.mean_area(), whole.mean_area());
    }
  }
}

TEST(GroupedScores, BytesRoundTripAndOthersAreRefused) {
  const Tally tally{{7},
                    {},
                    {ScoreHistogram()},
                    {grouped_of(draw_groups(3000, 40, 1), GroupedScores::kSentMax),
                     grouped_of(draw_groups(30'000, 9000, 2), GroupedScores::kSentMax)}};
  const Bytes bytes = encode(tally);
  EXPECT_LE(bytes.size(), tally.bytes_max());
  const auto back = decode_tally(bytes, 1, 0, 1, 2);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->grouped, tally.grouped);
  EXPECT_TRUE(back->same_shape(tally));
  EXPECT_FALSE(decode_tally(bytes, 1, 0, 1, 1));
  EXPECT_FALSE(decode_tally(bytes, 1, 0, 1, 3));
  for (const std::size_t length : {24U, 30U, 45U, 60U, 100U, 5000U})
    EXPECT_FALSE(decode_tally(ByteSpan(bytes).first(length), 1, 0, 1, 2)) << length;

  // Each number of a small one, in turn, is one that cannot be.
  const Bytes right = encode({{}, {}, {}, {grouped_of(std::vector<GroupMember>{{5, 0.5F, 1}})}});
  ASSERT_TRUE(decode_tally(right, 0, 0, 0, 1));
  for (const auto& [at, value] : {std::pair<std::size_t, std::uint64_t>{0, 64},  // level
                                  {0, 63},  // a group that this level leaves out
                                  {8, 2},   // groups
                                  {8, ~0ULL},
                                  {32, 0},  // a group without a score
                                  {48, 0}}) {
    Bytes wrong = right;
    std::memcpy(wrong.data() + at, &value, sizeof value);
    EXPECT_FALSE(decode_tally(wrong, 0, 0, 0, 1)) << at << " " << value;
  }
}

// A test counts more examples than fit a message.
TEST(GroupedScores, AnEncodedOneIsLimited) {
  const auto all = draw_groups(30'000, 9000, 2);
  const Bytes bytes = encode({{}, {}, {}, {grouped_of(all)}});
  const auto back = decode_tally(bytes, 0, 0, 0, 1);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->grouped[0], grouped_of(all, GroupedScores::kSentMax));
}

}  // namespace
}  // namespace paddle

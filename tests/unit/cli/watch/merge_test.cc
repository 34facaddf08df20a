#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "cli/watch/log_follow.h"
#include "tests/support/fake_agent_client.h"

namespace paddle::cli {
namespace {

std::string drain(LogMerge& merge, std::int64_t complete_until = kNothingYet) {
  std::string seen;
  while (const auto line = merge.next(complete_until)) seen += line->line.text + " ";
  return seen;
}

TEST(LogMerge, TakesTheEarliestAndWaitsForTheSilent) {
  LogMerge merge;
  const std::size_t a = merge.add_source(0);
  const std::size_t b = merge.add_source(0);
  merge.add(a, {{10, "a10"}, {30, "a30"}});
  EXPECT_EQ(drain(merge), "") << "b may yet have an earlier one";
  merge.add(b, {{20, "b20"}});
  EXPECT_EQ(drain(merge), "a10 b20 ");
  EXPECT_EQ(drain(merge, 29), "");
  EXPECT_EQ(drain(merge, 30), "a30 ") << "b has said all it had until then";
  merge.add(a, {{40, "a40"}});
  merge.close(b);
  EXPECT_EQ(drain(merge), "a40 ");
}

TEST(LogMerge, WithinALogTheOrderStaysAndAnUnknownTimeIsThatOfTheLineBefore) {
  LogMerge merge;
  const std::size_t a = merge.add_source(15);
  const std::size_t b = merge.add_source(0);
  merge.add(a, {{0, "a-unknown"}, {20, "a20"}, {5, "a-back"}, {0, "a-same"}});
  merge.add(b, {{14, "b14"}, {17, "b17"}, {21, "b21"}});
  merge.close(a);
  merge.close(b);
  EXPECT_EQ(drain(merge), "b14 a-unknown b17 a20 a-back a-same b21 ");
}

// As a search through all sources for each line.
TEST(LogMerge, OfManyLogsTakesTheEarliestLineOfTheFirstSource) {
  constexpr std::size_t kSources = 40;
  LogMerge merge;
  std::vector<std::deque<std::pair<std::int64_t, std::string>>> waiting(kSources);
  for (std::size_t i = 0; i < kSources; ++i) merge.add_source(0);
  std::uint64_t seed = 1;
  const auto random = [&](std::uint64_t below) { return (seed = mix64(seed)) % below; };
  std::int64_t now = 100;
  for (int round = 0; round < 500; ++round) {
    const std::size_t source = random(kSources);
    std::vector<LogLine> lines;
    for (std::uint64_t left = random(4); left > 0; --left) {
      lines.push_back({now + static_cast<std::int64_t>(random(3)), std::to_string(seed)});
      now = std::max(now, lines.back().unix_ms);
      lines.back().unix_ms = now;
      waiting[source].emplace_back(now, lines.back().text);
    }
    merge.add(source, std::move(lines));
    if (round % 50 == 0) {
      merge.keep_last(1, source);
      while (waiting[source].size() > 1) waiting[source].pop_front();
    }
    const bool all_speak =
        std::ranges::none_of(waiting, [](const auto& one) { return one.empty(); });
    const std::int64_t until = now - static_cast<std::int64_t>(random(200));
    for (std::uint64_t left = random(3); left > 0; --left) {
      std::optional<std::size_t> first;
      for (std::size_t i = 0; i < kSources; ++i) {
        if (waiting[i].empty()) continue;
        if (!first || waiting[i].front().first < waiting[*first].front().first) first = i;
      }
      const auto line = merge.next(until);
      if (!first || (!all_speak && waiting[*first].front().first > until)) {
        ASSERT_FALSE(line);
        break;
      }
      ASSERT_TRUE(line);
      EXPECT_EQ(line->source, *first);
      EXPECT_EQ(line->line.text, waiting[*first].front().second);
      waiting[*first].pop_front();
      if (waiting[*first].empty()) break;
    }
  }
}

TEST(LogMerge, KeepsTheLastLinesOfAllLogs) {
  LogMerge merge;
  const std::size_t a = merge.add_source(0);
  const std::size_t b = merge.add_source(0);
  merge.add(a, {{10, "a10"}, {30, "a30"}});
  merge.add(b, {{20, "b20"}, {40, "b40"}});
  merge.keep_last(2);
  EXPECT_EQ(merge.waiting(a), 1U);
  EXPECT_EQ(drain(merge, 100), "a30 b40 ");
}

struct ALog {
  remote::FakeNode node;
  remote::FakeAgentClient client{{}, node};
  LogReader reader{"log"};

  std::string poll() {
    std::string seen;
    const auto lines = reader.poll(client);
    if (!lines) return lines.error().message;
    for (const LogLine& line : *lines) seen += std::to_string(line.unix_ms) + line.text + " ";
    return seen;
  }
};

TEST(LogReader, ALineHasTheTimeOfItsBeginningAndComesWhole) {
  ALog log;
  log.node.files["log"] = "one\ntw";
  log.node.times["log"] = {{0, 100}, {4, 200}};
  EXPECT_EQ(log.poll(), "100one ");
  log.node.files["log"] += "o\nthree\nrest";
  log.node.times["log"] = {{0, 100}, {4, 200}, {6, 300}, {8, 400}};
  EXPECT_EQ(log.poll(), "200two 400three ");
  EXPECT_EQ(log.poll(), "");
  EXPECT_EQ(log.reader.rest()->text, "rest");
  EXPECT_FALSE(log.reader.rest());
}

TEST(LogReader, SinceBeginsWithAWholeLine) {
  ALog log;
  log.node.files["log"] = "one\ntwo\nthree\n";
  log.node.times["log"] = {{0, 100}, {6, 200}, {8, 300}};
  const auto from_the_middle = LogReader("log").since(log.client, 150);
  ASSERT_EQ(from_the_middle->size(), 1U) << "half of `two` was written later, and is left out";
  EXPECT_EQ(from_the_middle->at(0).text, "three");
  EXPECT_EQ(LogReader("log").since(log.client, 300)->size(), 1U);
  EXPECT_EQ(LogReader("log").since(log.client, 50)->size(), 3U);
  EXPECT_TRUE(LogReader("log").since(log.client, 301)->empty());
}

TEST(LogReader, ATailBeginsWithAWholeLine) {
  ALog log;
  log.node.files["log"] = "first line\nsecond\nlast\n";
  const auto lines = LogReader("log").tail(log.client, 10, 14);
  ASSERT_TRUE(lines);
  ASSERT_EQ(lines->size(), 2U) << "not the end of the first line";
  EXPECT_EQ(lines->at(0).text, "second");
  EXPECT_EQ(LogReader("log").tail(log.client, 1)->at(0).text, "last");
}

TEST(LogReader, OfAProgressBarTheNewestStateIsTheLine) {
  ALog log;
  log.node.files["log"] = "start\n\r 10%|#\r 50%|##";
  log.node.times["log"] = {{0, 100}, {6, 200}, {14, 300}};
  EXPECT_EQ(log.poll(), "100start ");
  ASSERT_NE(log.reader.unfinished(), nullptr);
  EXPECT_EQ(log.reader.unfinished()->text, " 50%|##");
  EXPECT_TRUE(log.reader.is_overwritten());
  log.node.files["log"] += "#\r 99%\r\rdone\r\nnext\r\n\r\nplain";
  EXPECT_EQ(log.poll(), "300done 300next 300 ");
  EXPECT_EQ(log.reader.unfinished()->text, "plain");
  EXPECT_FALSE(log.reader.is_overwritten());
}

TEST(LogReader, AProgressBarWithoutEndTakesNoMemoryAndIsSeenFromItsMiddle) {
  ALog log;
  std::string& text = log.node.files["log"];
  for (int i = 0; i < 100'000; ++i) text += fmt::format("\r{:6} of 100000", i);
  while (log.reader.poll(log.client) && !log.reader.at_end())
    EXPECT_LT(log.reader.unfinished()->text.size(), 20U);
  EXPECT_EQ(log.reader.unfinished()->text, " 99999 of 100000");
  LogReader tail("log");
  ASSERT_TRUE(tail.tail(log.client, 10, 1000));
  ASSERT_NE(tail.unfinished(), nullptr);
  EXPECT_EQ(tail.unfinished()->text, " 99999 of 100000");
}

TEST(LogReader, TellsWhatRotationTookAndGoesOn) {
  ALog log;
  log.node.files["log"] = "one\ntw";
  EXPECT_EQ(log.poll(), "0one ");
  log.node.first_offsets["log"] = 100;
  log.node.files["log"] = std::string(100, '.') + "far\nlater\n";
  EXPECT_EQ(log.poll(), "0tw 0[94 bytes of this log are gone: it was rotated] 0far 0later ");
}

TEST(ClockSkews, AreWhatAnswersProveAndNoMore) {
  const auto at = [](std::int64_t asked, std::int64_t answered, std::int64_t unix_ms) {
    NodeLook look;
    look.usage.unix_ms = unix_ms;
    look.asked = TimePoint(std::chrono::milliseconds(asked));
    look.answered = TimePoint(std::chrono::milliseconds(answered));
    return std::optional(look);
  };
  EXPECT_EQ(clock_skews({at(0, 100, 5000), std::nullopt, at(100, 200, 5150), at(0, 100, 9000)}),
            (std::vector<std::int64_t>{0, 0, 0, 4000}));
}

}  // namespace
}  // namespace paddle::cli

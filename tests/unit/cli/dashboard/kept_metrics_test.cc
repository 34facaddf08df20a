#include "cli/dashboard/kept_metrics.h"

#include <cmath>

#include <gtest/gtest.h>

#include "cli/report/curves.h"

namespace paddle::cli {
namespace {

MetricsLine point(std::uint64_t pass, std::uint64_t batch, double cost) {
  MetricsLine line;
  line.kind = "train";
  line.pass = pass;
  line.batch = batch;
  line.samples = batch * 10;
  line.unix_ms = 1'000'000 + static_cast<std::int64_t>(pass * 1'000'000 + batch * 100);
  line.numbers = {{"current_cost", cost},
                  {"examples_per_second", 100 + cost},
                  {"examples_per_busy_second", 200 + cost},
                  {"auc", 0.5}};
  return line;
}

MetricsLine line_of(const std::string& kind, std::uint64_t pass) {
  MetricsLine line;
  line.kind = kind;
  line.pass = pass;
  line.cost = 1;
  return line;
}

struct Kept {
  explicit Kept(const std::string& role, MetricsLimits limits) : kept(limits) {
    record.role = all.role = role;
  }
  void add(const MetricsLine& line) {
    kept.add(line, record);
    all.metrics.push_back(line);
  }
  std::size_t count(const std::string& kind) const {
    return static_cast<std::size_t>(
        std::ranges::count(record.metrics, kind, [](const auto& line) { return line.kind; }));
  }
  KeptMetrics kept;
  ProcessRecord record, all;
};

TEST(KeptMetrics, FewLinesStayAsTheyAre) {
  Kept kept("trainer-0", {});
  for (std::uint64_t batch = 1; batch <= 10; ++batch) kept.add(point(0, batch, 1));
  ASSERT_EQ(kept.record.metrics.size(), 10U);
  EXPECT_EQ(kept.record.metrics[3].batch, 4U);
  EXPECT_TRUE(kept.record.metrics[3].number("auc")) << "trainer 0's evaluators are drawn";
}

TEST(KeptMetrics, ManyPointsAreBoundedAndSpreadEvenly) {
  Kept kept("trainer-1", {.points = 500});
  for (std::uint64_t batch = 1; batch <= 10'000; ++batch) {
    kept.add(point(0, batch, std::sin(static_cast<double>(batch))));
    ASSERT_LE(kept.record.metrics.size(), 510U);
  }
  EXPECT_GT(kept.record.metrics.size(), 200U);
  EXPECT_EQ(kept.record.metrics.front().batch, 1U);
  EXPECT_EQ(kept.record.metrics.back().batch, 10'000U) << "the newest is shown";
  std::uint64_t before = 0, widest = 0;
  for (const MetricsLine& line : kept.record.metrics) {
    EXPECT_GT(line.batch, before) << "in order";
    widest = std::max(widest, line.batch - before);
    before = line.batch;
  }
  EXPECT_LE(widest, 130U) << "no part of the curve is coarser than the others";
}

TEST(KeptMetrics, APeakStays) {
  Kept kept("trainer-1", {.points = 100});
  for (std::uint64_t batch = 1; batch <= 20'000; ++batch)
    kept.add(point(0, batch, batch == 7'777 ? 99 : batch == 12'345 ? -99 : 1));
  const auto has = [&](double cost) {
    return std::ranges::any_of(kept.record.metrics, [&](const MetricsLine& line) {
      return line.number("current_cost") == cost;
    });
  };
  EXPECT_TRUE(has(99));
  EXPECT_TRUE(has(-99));
}

TEST(KeptMetrics, WhatTheLinesAddUpToIsThatOfAllLines) {
  Kept kept("trainer-0", {.points = 50});
  for (std::uint64_t pass = 0; pass < 20; ++pass) {
    for (std::uint64_t batch = 1; batch <= 100; ++batch)
      kept.add(point(pass, batch, static_cast<double>(batch % 7)));
    kept.add(line_of("test", pass));
    kept.add(line_of("pass", pass));
  }
  EXPECT_EQ(kept.count("test"), 20U);
  EXPECT_EQ(kept.count("pass"), 20U);
  EXPECT_LE(kept.count("train"), 55U);
  const auto all = totals_of(kept.all), few = totals_of(kept.record);
  EXPECT_EQ(few->samples(), all->samples());
  EXPECT_EQ(few->mean_rate(), all->mean_rate());
  EXPECT_EQ(few->mean_busy(), all->mean_busy());
  EXPECT_EQ(few->step(), all->step());
  const auto steps = steps_of(kept.record.metrics);
  for (const StepOfLine& at : steps) {
    if (at.line->kind != "train") continue;
    EXPECT_EQ(at.step, at.line->pass * 100 + at.line->batch);
  }
}

TEST(KeptMetrics, AStallIsFoundWhereItsLinesAreNotKept) {
  Kept kept("trainer-1", {.points = 20});
  for (std::uint64_t batch = 1; batch <= 1'000; ++batch) {
    MetricsLine line = point(0, batch, 1);
    if (batch > 300) line.unix_ms += 60'000;
    kept.add(line);
  }
  const auto stalls = totals_of(kept.record)->stalls();
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_EQ(stalls[0].second - stalls[0].first, 60'100);
}

TEST(KeptMetrics, OfAPortTheNewestLineStays) {
  Kept kept("pserver-0", {});
  for (int pushes = 0; pushes < 100; ++pushes) {
    for (const int port : {1, 2}) {
      MetricsLine line = line_of("pserver", 0);
      line.numbers = {{"port", port}, {"pushes", pushes}};
      kept.add(line);
    }
  }
  ASSERT_EQ(kept.record.metrics.size(), 2U);
  EXPECT_EQ(kept.record.metrics[1].number("pushes"), 99);
  for (int port = 0; port < 5'000; ++port) {
    MetricsLine line = line_of("pserver", 0);
    line.numbers = {{"port", port}};
    kept.add(line);
  }
  EXPECT_LE(kept.record.metrics.size(), 256U) << "a node may name any number of ports";
}

TEST(KeptMetrics, OfATestsCurvesTheLastStay) {
  Kept kept("trainer-0", {});
  for (std::uint64_t pass = 0; pass < 3; ++pass) {
    MetricsLine test = line_of("test", pass);
    test.lists = {{"curve:roc:auc", std::vector<double>(1'000)}};
    kept.add(test);
    kept.add(line_of("save", pass));
  }
  EXPECT_TRUE(kept.record.metrics[0].lists.empty());
  EXPECT_EQ(kept.record.metrics[4].lists.size(), 1U);
}

TEST(KeptMetrics, HugeLinesStayBelowTheLimitOnBytes) {
  Kept kept("trainer-0", {.points = 1'000, .bytes = 1U << 20U});
  for (std::uint64_t pass = 0; pass < 200; ++pass) {
    MetricsLine test = line_of("test", pass);
    test.texts = {{"t", std::string(50'000, 'x')}};
    kept.add(test);
    MetricsLine train = point(pass, 1, 1);
    train.texts = {{"t", std::string(50'000, 'x')}};
    train.lists = {{"l", std::vector<double>(4'000)}};
    train.numbers.emplace_back(std::string(50'000, 'n'), 1);
    kept.add(train);
    ASSERT_LE(kept.kept.bytes(), 1U << 20U);
  }
  EXPECT_EQ(kept.record.metrics.back().pass, 199U);
}

}  // namespace
}  // namespace paddle::cli

// AUC from histograms against all pairs, whatever the scale of the scores, the rate of class 1 and
// the order in which parts come.
#include "base/score_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/tally.h"

namespace paddle {
namespace {

struct Scored {
  float probability = 0;
  int label = 0;
};

// By ranks, as scikit-learn's: the mean rank of class 1 among all, ties sharing theirs.
double exact_auc(std::vector<Scored> all) {
  std::ranges::sort(all, {}, &Scored::probability);
  double ranks = 0, ones = 0;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i;
    while (end < all.size() && all[end].probability == all[i].probability) ++end;
    for (std::size_t k = i; k < end; ++k) {
      if (all[k].label == 0) continue;
      ranks += static_cast<double>(i + end + 1) / 2;
      ++ones;
    }
    i = end;
  }
  const double zeros = static_cast<double>(all.size()) - ones;
  return (ranks - ones * (ones + 1) / 2) / (ones * zeros);
}

ScoreHistogram histogram_of(std::span<const Scored> all,
                            std::size_t entries_max = ScoreHistogram::kEntriesMax) {
  std::vector<std::uint64_t> examples;
  for (const Scored& one : all) {
    examples.push_back(std::uint64_t{probability_key(one.probability)} << 32U |
                       static_cast<unsigned>(one.label));
  }
  ScoreHistogram made(entries_max);
  made.add(examples);
  return made;
}

// Scores around `scale`, `spread` octaves to each side, of which about `rate` are of class 1; those
// have higher scores on average.
std::vector<Scored> draw(std::size_t count, double scale, double spread, double rate,
                         std::uint64_t seed, bool is_near_one = false) {
  Rng rng(seed);
  std::vector<Scored> all;
  for (std::size_t i = 0; i < count; ++i) {
    const int label = rng.uniform() < rate || i == 0 ? 1 : 0;
    const double score = scale * std::exp2(spread * (2 * rng.uniform() - 1) + 0.4 * label * spread);
    all.push_back({static_cast<float>(is_near_one ? 1 - score : score), label});
  }
  return all;
}

TEST(ScoreHistogram, AucIsThatOfAllPairsAtAnyScaleAndRate) {
  std::uint64_t seed = 0;
  for (const std::size_t count : {300U, 20'000U}) {
    for (const double scale : {6e-6, 1e-3, 0.3}) {
      for (const double spread : {1e-4, 1.0}) {
        for (const double rate : {0.0003, 0.03, 0.5}) {
          const auto all = draw(count, scale, spread, rate, ++seed);
          EXPECT_NEAR(area_under_curve(histogram_of(all)), exact_auc(all), 1e-4)
              << count << " scores of " << scale << " within " << spread << ", rate " << rate;
        }
      }
    }
  }
}

TEST(ScoreHistogram, AucIsAsExactWhereNearlyAllAreOfClassOne) {
  for (const double scale : {3e-6, 1e-3, 0.2}) {
    const auto all = draw(20'000, scale, 1, 0.9997, 77, true);
    EXPECT_NEAR(area_under_curve(histogram_of(all)), exact_auc(all), 1e-4) << scale;
  }
}

// Most scores are nearly one, and a few thousand lie far around them.
TEST(ScoreHistogram, AFewScoresFarAwayDoNotBlurTheOthers) {
  std::vector<Scored> all = draw(20'000, 3e-4, 0.04, 0.003, 1);
  const auto far = draw(3'000, 1e-3, 6, 0.3, 2);
  all.insert(all.end(), far.begin(), far.end());
  EXPECT_NEAR(area_under_curve(histogram_of(all)), exact_auc(all), 1e-4);
}

TEST(ScoreHistogram, UpToItsEntriesNothingIsLost) {
  const auto all = draw(ScoreHistogram::kEntriesMax, 0.01, 5, 0.2, 9);
  const ScoreHistogram made = histogram_of(all);
  EXPECT_EQ(made.shift(), 0U);
  EXPECT_NEAR(area_under_curve(made), exact_auc(all), 1e-12);
}

TEST(ScoreHistogram, OneClassHasNoArea) {
  EXPECT_TRUE(std::isnan(area_under_curve(ScoreHistogram())));
  for (const int label : {0, 1})
    EXPECT_TRUE(std::isnan(
        area_under_curve(histogram_of(std::vector<Scored>({{0.5F, label}, {0.25F, label}})))));
}

// As scikit-learn's average_precision_score: at each score of class 1, tied ones together.
double exact_average_precision(std::vector<Scored> all) {
  std::ranges::sort(all, std::greater(), &Scored::probability);
  double sum = 0, ones = 0;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i;
    double here = 0;
    while (end < all.size() && all[end].probability == all[i].probability) here += all[end++].label;
    ones += here;
    sum += here * ones / static_cast<double>(end);
    i = end;
  }
  return sum / ones;
}

TEST(ScoreHistogram, AveragePrecisionIsThatOfAllScoresAtAnyScaleAndRate) {
  std::uint64_t seed = 0;
  for (const std::size_t count : {300U, 30'000U}) {
    for (const double scale : {6e-6, 1e-3, 0.3}) {
      for (const double rate : {0.0003, 0.03, 0.5}) {
        const auto all = draw(count, scale, 1.0, rate, ++seed);
        EXPECT_NEAR(average_precision(histogram_of(all)), exact_average_precision(all), 1e-4)
            << count << " scores of " << scale << ", rate " << rate;
      }
    }
  }
}

// Where all or no example is of class 1; NaN without one, as there is no precision to average.
TEST(ScoreHistogram, AveragePrecisionOfOneClass) {
  EXPECT_EQ(average_precision(histogram_of(std::vector<Scored>({{0.5F, 1}, {0.25F, 1}}))), 1.0);
  EXPECT_TRUE(
      std::isnan(average_precision(histogram_of(std::vector<Scored>({{0.5F, 0}, {0.25F, 0}})))));
  EXPECT_TRUE(std::isnan(average_precision(ScoreHistogram())));
}

// Some of the points of scikit-learn's roc_curve, and of precision_recall_curve.
TEST(ScoreHistogram, CurvesHaveTheirEndsAndFewPoints) {
  const std::vector<Scored> four({{0.1F, 0}, {0.4F, 0}, {0.35F, 1}, {0.8F, 1}});
  EXPECT_EQ(roc_curve(histogram_of(four)),
            (CurvePoints{{0, 0}, {0, 0.5}, {0.5, 0.5}, {0.5, 1}, {1, 1}}));
  EXPECT_EQ(precision_recall_curve(histogram_of(four)),
            (CurvePoints{{0, 1}, {0.5, 1}, {1, 2.0 / 3}}));
  const ScoreHistogram many = histogram_of(draw(30'000, 0.01, 4, 0.1, 5));
  for (const CurvePoints& points : {roc_curve(many), precision_recall_curve(many)}) {
    EXPECT_GT(points.size(), 40U);
    EXPECT_LE(points.size(), 102U);
    EXPECT_TRUE(std::ranges::is_sorted(points, {}, &std::pair<double, double>::first));
    EXPECT_EQ(points.front().first, 0.0);
    EXPECT_EQ(points.back().first, 1.0);
  }
  EXPECT_TRUE(roc_curve(ScoreHistogram()).empty());
  EXPECT_TRUE(roc_curve(histogram_of(std::vector<Scored>({{0.5F, 1}}))).empty());
  EXPECT_TRUE(precision_recall_curve(ScoreHistogram()).empty());
  EXPECT_TRUE(calibration_curve(ScoreHistogram(), 10).empty());
}

TEST(ScoreHistogram, ProbabilitiesComeBackFromTheirKeys) {
  for (const float p : {0.0F, 1e-45F, 6e-6F, 0.25F, 0.5F, 0.50001F, 0.75F, 0.999999F, 1.0F}) {
    const std::uint32_t key = probability_key(p);
    EXPECT_EQ(probability_of_key(key), p);
    if (p < 1e-30F) continue;
    EXPECT_NEAR(probability_of_key(key >> 8U, 8), p, 1e-4 * p);
  }
}

// Bins of one example in four: {0.1, 0.2} with share 0, {0.3, 0.4} with 0.5, and so on.
TEST(ScoreHistogram, CalibrationBinsHaveEquallyManyExamples) {
  std::vector<Scored> all;
  for (int i = 1; i <= 8; ++i) all.push_back({static_cast<float>(i) / 10, i > 4 || i == 3 ? 1 : 0});
  const CurvePoints points = calibration_curve(histogram_of(all), 4);
  const CurvePoints expected{{0.15, 0}, {0.35, 0.5}, {0.55, 1}, {0.75, 1}};
  ASSERT_EQ(points.size(), expected.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_NEAR(points[i].first, expected[i].first, 1e-7);
    EXPECT_DOUBLE_EQ(points[i].second, expected[i].second);
  }
  const std::vector<Scored> same(7, {0.5F, 1});
  EXPECT_EQ(calibration_curve(histogram_of(same), 4), (CurvePoints{{0.5, 1}}));
}

TEST(ScoreHistogram, ASumHasTheSameBitsInAnyOrderOfItsParts) {
  const auto all = draw(30'000, 0.01, 4, 0.1, 5);
  const ScoreHistogram whole = histogram_of(all, 1000);
  EXPECT_GT(whole.shift(), 0U);
  EXPECT_LE(whole.entries().size(), 1000U);
  Rng rng(8);
  for (int time = 0; time < 5; ++time) {
    std::vector<ScoreHistogram> parts;
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t count = std::min<std::size_t>(all.size() - begin, rng.next() % 9000);
      parts.push_back(histogram_of(std::span(all).subspan(begin, count), 1000));
      begin += count;
    }
    for (std::size_t i = parts.size(); i-- > 1;) std::swap(parts[i], parts[rng.next() % (i + 1)]);
    ScoreHistogram sum(1000);
    for (const ScoreHistogram& part : parts) sum.add(part);
    EXPECT_EQ(sum, whole) << time;
  }
}

TEST(ScoreHistogram, KeysHaveTheOrderOfTheirScores) {
  const std::vector<float> scores{-INFINITY, -3e38F, -1, -1e-40F, 0, 1e-40F, 1, 3e38F, INFINITY};
  for (std::size_t i = 1; i < scores.size(); ++i)
    EXPECT_LT(score_key(scores[i - 1]), score_key(scores[i])) << scores[i];
  EXPECT_EQ(score_key(-0.0F), score_key(0.0F));
  EXPECT_LT(score_key(std::nanf("")), score_key(-INFINITY));
  std::uint32_t before = probability_key(0);
  for (float p = 1e-45F; p < 1; p = std::nextafter(p * 1.37F, 1.0F)) {
    EXPECT_GT(probability_key(p), before) << p;
    before = probability_key(p);
  }
  for (const float p : {0.5F, std::nextafter(0.5F, 1.0F), 0.75F, std::nextafter(1.0F, 0.0F)})
    EXPECT_LT(probability_key(std::nextafter(p, 0.0F)), probability_key(p)) << p;
  EXPECT_EQ(probability_key(std::nanf("")), probability_key(0));
  EXPECT_EQ(probability_key(2), probability_key(1));
}

TEST(ScoreHistogram, BytesRoundTripAndOthersAreRefused) {
  const Tally tally{{7},
                    {0.5},
                    {histogram_of(draw(500, 0.1, 1, 0.5, 1)), ScoreHistogram(),
                     histogram_of(draw(50'000, 0.1, 3, 0.5, 2))}};
  const Bytes bytes = encode(tally);
  EXPECT_LE(bytes.size(), tally.bytes_max());
  const auto back = decode_tally(bytes, 1, 1, 3);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->histograms, tally.histograms);
  EXPECT_FALSE(decode_tally(bytes, 1, 1, 2));
  EXPECT_FALSE(decode_tally(bytes, 1, 1, 4));
  EXPECT_FALSE(decode_tally(bytes, 1, 1, kTallyHistogramsMax + 1));
  for (const std::size_t length : {0U, 16U, 17U, 40U, 100U})
    EXPECT_FALSE(decode_tally(ByteSpan(bytes).first(length), 1, 1, 3)) << length;

  // Each number of a small one, in turn, is one that cannot be.
  const Tally small{{}, {}, {histogram_of(std::vector<Scored>{{0.25F, 0}, {0.5F, 1}})}};
  const Bytes right = encode(small);
  ASSERT_TRUE(decode_tally(right, 0, 0, 1));
  for (const auto& [at, value] : {std::pair<std::size_t, std::uint64_t>{0, 32},  // shift
                                  {0, 20},                                       // keys too large
                                  {8, 3},                                        // entries
                                  {8, ~0ULL},
                                  {16, ~0ULL},  // keys do not rise
                                  {24, 0},      // an entry without an example
                                  {24, 1ULL << 60U}}) {
    Bytes wrong = right;
    std::memcpy(wrong.data() + at, &value, sizeof value);
    EXPECT_FALSE(decode_tally(wrong, 0, 0, 1)) << at << " " << value;
  }
}

}  // namespace
}  // namespace paddle

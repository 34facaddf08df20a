#include "engine/nn/sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace paddle::nn {
namespace {

// x^0.75, computed with square roots: every machine rounds those correctly, unlike std::pow.
double power_three_quarters(double x) {
  return std::sqrt(x) * std::sqrt(std::sqrt(x));
}

}  // namespace

Sampler Sampler::uniform(std::size_t classes) {
  PADDLE_CHECK(classes > 0 && classes <= 0xffffffffU);
  Sampler sampler;
  sampler.classes_ = classes;
  return sampler;
}

// Vose's construction fills each column that is too low from one that is too high.
Sampler Sampler::unigram(std::span<const std::uint64_t> counts) {
  Sampler sampler = uniform(counts.size());
  Table table;
  double sum = 0;
  for (const std::uint64_t count : counts) {
    const auto times = static_cast<double>(std::max<std::uint64_t>(count, 1));
    sum += table.probabilities.emplace_back(power_three_quarters(times));
  }
  for (double& probability : table.probabilities) probability /= sum;
  std::vector<double> heights;
  std::vector<std::uint32_t> low;
  std::vector<std::uint32_t> high;
  for (std::uint32_t c = 0; c < counts.size(); ++c) {
    heights.push_back(table.probabilities[c] * static_cast<double>(counts.size()));
    (heights[c] < 1.0 ? low : high).push_back(c);
  }
  // A column that nothing fills has its own class on both sides of its threshold.
  for (std::uint32_t c = 0; c < counts.size(); ++c) table.columns.push_back({0, c});
  while (!low.empty() && !high.empty()) {
    const std::uint32_t small = low.back();
    const std::uint32_t large = high.back();
    low.pop_back();
    table.columns[small] = {static_cast<std::uint32_t>(heights[small] * 0x1.0p+32), large};
    heights[large] -= 1.0 - heights[small];
    if (heights[large] >= 1.0) continue;
    high.pop_back();
    low.push_back(large);
  }
  sampler.table_ = std::make_shared<const Table>(std::move(table));
  return sampler;
}

}  // namespace paddle::nn

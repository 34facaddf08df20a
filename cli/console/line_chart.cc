#include "cli/console/line_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

constexpr std::size_t kRows = 12;
constexpr std::size_t kWidthMin = 20;
constexpr double kLogarithmicFrom = 1000;  // the highest value by the lowest

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;

  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // The cell of a value, of `cells` over the range.
  std::size_t cell(double value, std::size_t cells) const {
    const double share = high > low ? (value - low) / (high - low) : 0.5;
    return static_cast<std::size_t>(
        std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(cells - 1)));
  }
  double value(std::size_t cell, std::size_t cells) const {
    return low + (high - low) * static_cast<double>(cell) / static_cast<double>(cells - 1);
  }
};

// The height of a curve at x, on the straight line between its neighbours.
double height_at(const TextCurve& curve, double x) {
  const auto after =
      std::ranges::lower_bound(curve.points, x, {}, &std::pair<double, double>::first);
  if (after == curve.points.begin()) return after->second;
  if (after == curve.points.end()) return curve.points.back().second;
  const auto before = after - 1;
  const double length = after->first - before->first;
  return length > 0
             ? before->second + (after->second - before->second) * (x - before->first) / length
             : after->second;
}

}  // namespace

std::string line_chart(const std::vector<TextCurve>& curves, std::size_t columns) {
  Range x, y;
  for (const TextCurve& curve : curves) {
    for (const auto& [at, value] : curve.points) {
      x.take(at);
      y.take(value);
    }
  }
  if (!(x.low <= x.high)) return "";
  const bool is_logarithmic = y.low > 0 && y.high / y.low >= kLogarithmicFrom;
  const std::string low = fmt::format("{:.4g}", y.low), high = fmt::format("{:.4g}", y.high);
  const std::size_t left = std::max(low.size(), high.size());
  const std::size_t width = std::max(kWidthMin, columns - std::min(columns, left + 2));
  const auto scaled = [&](double value) { return is_logarithmic ? std::log(value) : value; };
  const Range scale{scaled(y.low), scaled(y.high)};
  std::vector<std::string> rows(kRows, std::string(width, ' '));
  for (const TextCurve& curve : curves) {
    if (curve.points.empty()) continue;
    const double begin = curve.points.front().first, end = curve.points.back().first;
    for (std::size_t c = x.cell(begin, width); c <= x.cell(end, width); ++c) {
      const double at = std::clamp(x.value(c, width), begin, end);
      char& cell = rows[kRows - 1 - scale.cell(scaled(height_at(curve, at)), kRows)][c];
      if (cell == ' ') cell = curve.mark;
    }
  }
  std::string text;
  for (std::size_t i = 0; i < kRows; ++i) {
    const std::string& label = i == 0 ? high : i + 1 == kRows ? low : "";
    text += fmt::format("{:>{}} |{}", label, left, rows[i]);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  const std::string first = fmt::format("{:.6g}", x.low), last = fmt::format("{:.6g}", x.high);
  text += fmt::format("{:>{}} +{:->{}}\n", "", left, "", width);
  return text + fmt::format("{:>{}}  {}{:>{}}\n", "", left, first, last,
                            width - std::min(width, first.size()));
}

}  // namespace paddle::cli

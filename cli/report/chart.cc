#include "cli/report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::cli {
namespace {

// Of the drawing, in its own units.
constexpr double kWidth = 720, kHeight = 260;
constexpr double kLeft = 64, kRight = 12, kTop = 10, kBottom = 40;
constexpr double kBarHeight = 18, kBarPitch = 24, kBarLeft = 170, kBarRight = 90;
constexpr std::size_t kNameBytesMax = 26;  // of a bar
constexpr int kTicks = 5;
constexpr std::size_t kManyDots = 50;  // of a series: smaller ones, or they become one

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return !(low <= high); }
};

// 1, 2 or 5 times a power of ten, so that about kTicks of them span the range.
double tick_step(const Range& range) {
  const double rough = (range.high - range.low) / kTicks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= rough) return step * power;
  }
  return 10 * power;
}

// Widened to whole ticks, and to something where it is a point.
Range widened(Range range, double& step) {
  const double size = std::max({std::abs(range.low), std::abs(range.high), 1e-12});
  if (range.high - range.low < 1e-9 * size) range = {range.low - size / 10, range.high + size / 10};
  step = tick_step(range);
  return {std::floor(range.low / step) * step, std::ceil(range.high / step) * step};
}

// Of each run of points the lowest and the highest stay.
std::vector<std::pair<double, double>> thinned(std::vector<std::pair<double, double>> points) {
  std::erase_if(points, [](const auto& point) {
    return !std::isfinite(point.first) || !std::isfinite(point.second);
  });
  if (points.size() <= kPointsMax) return points;
  std::vector<std::pair<double, double>> kept{points.front()};
  const std::size_t runs = (kPointsMax - 2) / 2;
  for (std::size_t run = 0; run < runs; ++run) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(run * points.size() / runs);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((run + 1) * points.size() / runs);
    const auto [low, high] = std::minmax_element(
        begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    kept.push_back(std::min(*low, *high));
    if (low != high) kept.push_back(std::max(*low, *high));
  }
  kept.push_back(points.back());
  return kept;
}

struct Frame {
  Range x, y;

  double at_x(double value) const {
    return kLeft + (value - x.low) / (x.high - x.low) * (kWidth - kLeft - kRight);
  }
  double at_y(double value) const {
    return kHeight - kBottom - (value - y.low) / (y.high - y.low) * (kHeight - kTop - kBottom);
  }
};

std::string axes(const Frame& frame, double x_step, double y_step, const LineChart& chart) {
  std::string svg;
  for (double y = frame.y.low; y <= frame.y.high + y_step / 2; y += y_step) {
    const double at = frame.at_y(y);
    svg += fmt::format(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)",
                       kLeft, kWidth - kRight, at, at);
    svg += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)",
                       kLeft - 8, at + 4, short_number(std::abs(y) < y_step / 1e6 ? 0 : y));
  }
  for (double x = std::ceil(frame.x.low / x_step) * x_step; x <= frame.x.high + x_step / 1e6;
       x += x_step) {
    svg += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
                       frame.at_x(x), kHeight - kBottom + 17,
                       short_number(std::abs(x) < x_step / 1e6 ? 0 : x));
  }
  svg += fmt::format(R"(<text class="label" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)",
                     kWidth - kRight, kHeight - 5, html_text(chart.x_label));
  return svg;
}

std::string drawn(const Series& series, const Frame& frame, std::size_t index) {
  std::string svg;
  if (series.dots) {
    for (const auto& [x, y] : series.points) {
      svg += fmt::format(R"(<circle class="s{}" cx="{:.1f}" cy="{:.1f}" r="{}"/>)", index,
                         frame.at_x(x), frame.at_y(y), series.points.size() > kManyDots ? 2 : 4);
    }
    return svg;
  }
  svg = fmt::format(R"(<polyline class="s{}" points=")", index);
  for (const auto& [x, y] : series.points) {
    svg += fmt::format("{:.1f},{:.1f} ", frame.at_x(x), frame.at_y(y));
  }
  return svg + "\"/>";
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : escape_control(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size >= 1e9) return fmt::format("{:.3g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.3g}k", value / 1e3);
  if (size >= 1000) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

std::string line_chart(const LineChart& chart) {
  Frame frame;
  std::vector<Series> shown;
  for (const Series& series : chart.series) {
    if (shown.size() == kSeriesMax) break;
    Series kept = series;
    kept.points = thinned(std::move(kept.points));
    if (kept.points.empty()) continue;
    for (const auto& [x, y] : kept.points) {
      frame.x.take(x);
      frame.y.take(y);
    }
    shown.push_back(std::move(kept));
  }
  if (frame.x.empty()) return "";
  if (chart.from_zero) frame.y.take(0);
  double x_step = 0;
  double y_step = 0;
  const Range wide = widened(frame.x, x_step);
  if (frame.x.high <= frame.x.low) frame.x = wide;  // one point stands in the middle
  frame.y = widened(frame.y, y_step);
  std::string svg = axes(frame, x_step, y_step, chart);
  std::string legend;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    svg += drawn(shown[i], frame, i);
    legend += fmt::format(R"(<span class="key"><i class="s{}"></i>{}</span>)", i,
                          html_text(shown[i].name));
  }
  return fmt::format(
      R"(<figure><figcaption>{} <small>{}</small></figcaption>)"
      R"(<svg class="chart" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}" )"
      R"(data-x="{:.9g} {:.9g} {:.1f} {:.1f}" data-y="{:.9g} {:.9g} {:.1f} {:.1f}">{}</svg>)"
      R"(<div class="legend">{}</div></figure>)",
      html_text(chart.title), html_text(chart.y_label), kWidth, kHeight, html_text(chart.title),
      frame.x.low, frame.x.high, kLeft, kWidth - kRight, frame.y.low, frame.y.high,
      kHeight - kBottom, kTop, svg, legend);
}

std::string bar_chart(const std::string& title, const std::vector<Bar>& bars) {
  if (bars.empty()) return "";
  const std::size_t count = std::min(bars.size(), kBarsMax);
  double highest = 0;
  for (std::size_t i = 0; i < count; ++i) highest = std::max(highest, bars[i].value);
  std::string svg;
  for (std::size_t i = 0; i < count; ++i) {
    const Bar& bar = bars[i];
    const double y = static_cast<double>(i) * kBarPitch;
    const double room = kWidth - kBarLeft - kBarRight;
    const double width = highest > 0 ? std::max(0.0, bar.value) / highest * room : 0;
    std::string name = escape_control(bar.name);
    if (name.size() > kNameBytesMax) name = ".." + name.substr(name.size() - kNameBytesMax + 2);
    svg += fmt::format(R"(<text class="name" x="{:.0f}" y="{:.1f}" text-anchor="end">{}</text>)",
                       kBarLeft - 8, y + 13.5, html_text(name));
    svg += fmt::format(
        R"(<rect class="{}" x="{:.0f}" y="{:.1f}" width="{:.1f}" height="{:.0f}" rx="2"/>)",
        bar.marked ? "bar marked" : "bar", kBarLeft, y, std::max(width, 1.0), kBarHeight);
    svg += fmt::format(R"(<text class="value" x="{:.1f}" y="{:.1f}">{}</text>)",
                       kBarLeft + width + 6, y + 13.5, html_text(bar.text));
  }
  const std::string more =
      bars.size() > count ? fmt::format("<small>and {} more</small>", bars.size() - count) : "";
  return fmt::format(
      R"(<figure><figcaption>{}</figcaption><svg class="bars" viewBox="0 0 {:.0f} {:.0f}" )"
      R"(role="img" aria-label="{}">{}</svg>{}</figure>)",
      html_text(title), kWidth, static_cast<double>(count) * kBarPitch, html_text(title), svg,
      more);
}

}  // namespace paddle::cli

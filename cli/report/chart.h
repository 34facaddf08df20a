// Charts as SVG text for a page that brings its own style: classes, no colours.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paddle::cli {

// Text as HTML text or attribute value: control characters and bytes that are not UTF-8 as \xNN,
// then & < > " ' as entities.
std::string html_text(std::string_view text);
// "12.3", "4.56e-05", "1.20M": short, for axes and labels.
std::string short_number(double value);

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // ascending x; what is not finite is left out
  bool dots = false;                              // marks instead of a line
};
struct LineChart {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  bool from_zero = false;  // the y axis begins at 0
};
constexpr std::size_t kSeriesMax = 8;    // of a chart: as many colours are told apart
constexpr std::size_t kPointsMax = 400;  // of a series: more are thinned out, extremes kept

// A <figure> with title, SVG and legend; "" where no series has a point.
std::string line_chart(const LineChart& chart);

struct Bar {
  std::string name, text;  // text: the value as people read it
  double value = 0;
  bool marked = false;
};
constexpr std::size_t kBarsMax = 48;
// Horizontal bars from 0; the first kBarsMax of them. "" where there is none.
std::string bar_chart(const std::string& title, const std::vector<Bar>& bars);

}  // namespace paddle::cli

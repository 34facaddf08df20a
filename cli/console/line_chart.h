// Curves over each other in lines of plain text, for a terminal of any kind.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paddle::cli {

struct TextCurve {
  char mark = '*';
  std::vector<std::pair<double, double>> points;  // finite, ascending x
};

// The chart with its axes, in at most `columns` columns; where curves meet, the earlier one is
// seen. The vertical axis is logarithmic if all values are above 0 and the highest is a thousand
// times the lowest. "" without any point.
//
//   0.9 |                  aaaaaa
//       |      aaaaaaaaaaaa
//       |aaaaaa        bbbbbbbbbb
//   0.6 |bbbbbbbbbbbbbb
//       +------------------------
//        10                   400
std::string line_chart(const std::vector<TextCurve>& curves, std::size_t columns);

}  // namespace paddle::cli

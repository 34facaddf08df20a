#include "cli/sweep/pass_values.h"

#include <cmath>

namespace paddle::cli {

std::optional<PassValue> PassValues::take(const MetricsLine& line) {
  if (line.kind == "pass") ended_pass_ = line.pass;
  const bool is_of_test =
      line.kind == "test" &&
      (source_ == Source::kOwnTests || (source_ == Source::kTests && ended_pass_ == line.pass));
  const bool is_of_pass = line.kind == "pass" && source_ == Source::kPasses;
  if (!is_of_test && !is_of_pass) return std::nullopt;
  if (!values_.empty() && values_.back().passes > line.pass) return std::nullopt;
  const MetricsLine whole = is_of_pass ? of_whole_job(line) : line;
  const auto found = figure_ == "cost" ? whole.cost : whole.number(figure_);
  const bool has_none = !found && !(figure_ == "cost" && whole.cost_is_null);
  if (has_none && source_ == Source::kOwnTests) return std::nullopt;  // a line of other figures
  PassValue value{line.pass + 1, found.value_or(std::nan("")), 0, line.unix_ms};
  value.rank = whole.is_best_at_one(figure_)          ? std::abs(value.value - 1)
               : whole.is_better_when_higher(figure_) ? -value.value
                                                      : value.value;
  values_.push_back(value);
  return value;
}

}  // namespace paddle::cli

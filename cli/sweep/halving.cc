#include "cli/sweep/halving.h"

#include <algorithm>
#include <cmath>

namespace paddle::cli {

std::uint64_t Halving::passes_at(std::size_t rung) const {
  std::uint64_t passes = passes_min_;
  for (std::size_t i = 0; i < rung; ++i) {
    if (passes > UINT64_MAX / reduction_) return UINT64_MAX;
    passes *= reduction_;
  }
  return passes;
}

bool Halving::is_among_best(std::size_t rung, double rank) const {
  std::vector<double> values = rungs_[rung];
  std::ranges::sort(values);
  const std::size_t places = std::max<std::size_t>(1, values.size() / reduction_);
  return rank <= values[places - 1];
}

bool Halving::goes_on(std::size_t trial, std::uint64_t passes, double rank) {
  if (ended_.contains(trial)) return false;
  std::size_t& rung = completed_[trial];
  while (passes >= passes_at(rung)) {
    bool goes_on = false;
    if (!std::isnan(rank)) {
      if (rung == rungs_.size()) rungs_.emplace_back();
      rungs_[rung].push_back(rank);
      goes_on = is_among_best(rung, rank);
      ++rung;
    }
    if (!goes_on) {
      ended_.insert(trial);
      return false;
    }
  }
  return true;
}

}  // namespace paddle::cli

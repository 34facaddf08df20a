#include "cli/job/slow_trainers.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

void add_slow(const std::vector<TrainerRate>& trainers, bool busy,
              std::vector<SlowTrainer>& found) {
  std::vector<const TrainerRate*> known;
  const auto rate_of = [&](const TrainerRate& trainer) {
    return busy ? trainer.busy : trainer.wall;
  };
  for (const TrainerRate& trainer : trainers) {
    if (rate_of(trainer)) known.push_back(&trainer);
  }
  if (known.size() < 2) return;
  for (const TrainerRate* trainer : known) {
    const double rate = *rate_of(*trainer);
    std::vector<double> others;
    for (const TrainerRate* other : known) {
      if (other != trainer) others.push_back(*rate_of(*other));
    }
    const double median = median_of(std::move(others));
    const bool listed = std::ranges::find(found, trainer->role, &SlowTrainer::role) != found.end();
    // A trainer that waits most of its time delays no other, however slow it is in the rest.
    const bool delays = !busy || trainer->wall.value_or(0) >= kBusyRatioMin * rate;
    if (rate < kSlowRatio * median && delays && !listed) {
      found.push_back({trainer->node, trainer->role, rate, median, busy});
    }
  }
}

}  // namespace

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::vector<SlowTrainer> slow_trainers(const std::vector<TrainerRate>& trainers) {
  std::vector<SlowTrainer> found;
  add_slow(trainers, false, found);
  add_slow(trainers, true, found);
  return found;
}

std::string describe(const SlowTrainer& slow) {
  return fmt::format("{} on {} is slow: {:.0f} examples/s{}, {:.0f} % of the others' median {:.0f}",
                     slow.role, slow.node, slow.rate, slow.busy ? " while not waiting" : "",
                     100 * slow.rate / slow.median, slow.median);
}

}  // namespace paddle::cli

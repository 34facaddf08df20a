#include "engine/group/local_rounds.h"

#include <algorithm>

#include "engine/math/optimizer.h"

namespace paddle::strategy {

std::uint64_t LocalRounds::floats_of_element(const wire::ParameterSet& set) {
  return 5 + optim::state_width(set.optimizer());
}

void LocalRounds::pull(std::span<client::DenseParameter> parameters) {
  if (replica_.is_empty()) replica_.reset(group_values());
  for (client::DenseParameter& one : parameters) {
    one.lent = {};
    one.placed_gradient = {};
  }
  replica_.copy_to(parameters);
}

void LocalRounds::add(const client::PushTotals& totals, const optim::Progress& begun,
                      std::span<client::DenseParameter> parameters) {
  const float rate = window_.add(totals, begun);
  if (totals.samples > 0) replica_.update(rate, parameters);  // else the batch was left out
}

std::vector<client::DenseParameter> LocalRounds::group_values() const {
  std::vector<client::DenseParameter> values;
  for (const std::uint32_t parameter : ranks_.layout().dense()) {
    const auto from = ranks_.values(parameter);
    values.push_back(
        {.parameter = parameter, .value = LargeArray<float>(from.size()), .gradient = {}});
    std::ranges::copy(from, values.back().value.begin());
  }
  return values;
}

}  // namespace paddle::strategy

#include "engine/strategy/collective/local_rounds.h"

#include <algorithm>

namespace paddle::strategy {

LocalRounds::LocalRounds(const wire::ParameterSet& set, const HostRanks& ranks)
    : ranks_(ranks),
      is_elastic_(set.elastic_rate() > 0),
      replica_(set, averaging_scale(set), elastic_alpha(set)),
      window_(set) {}

bool LocalRounds::are_of(const wire::ParameterSet& set) {
  return std::ranges::any_of(set.parameters(), [](const wire::ParameterSpec& spec) {
    return !spec.sparse() && spec.is_delta();
  });
}

std::uint64_t LocalRounds::floats_of_element(const wire::ParameterSet& set) {
  return 5 + optim::state_width(set.optimizer());
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
  if (totals.samples > 0) replica_.update(rate, parameters);  // else it was left out
}

void LocalRounds::on_round() {
  const std::vector<client::DenseParameter> values = group_values();
  if (is_elastic_) {
    replica_.on_center(values);
  } else {
    replica_.reset(values);
  }
}

}  // namespace paddle::strategy

#include "engine/strategy/collective/group_layout.h"

#include <algorithm>

#include "engine/collective/schedule.h"
#include "engine/parameter/parameter_set.h"

namespace paddle::strategy {
namespace {

constexpr std::uint64_t kAlignment = collective::kSliceAlignment / sizeof(float);

std::uint64_t aligned(std::uint64_t elements) {
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

GroupLayout::GroupLayout(const wire::ParameterSet& set) {
  parameters_.resize(static_cast<std::size_t>(set.parameters_size()));
  for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
    const wire::ParameterSpec& spec = set.parameters(static_cast<int>(i));
    if (spec.sparse()) continue;
    parameters_[i] = {elements_, elements_ + parameter::element_count(spec)};
    elements_ = aligned(parameters_[i].end);
    dense_.push_back(i);
  }
}

std::size_t GroupLayout::buckets() const {
  return static_cast<std::size_t>((elements_ + kBucketElements - 1) / kBucketElements);
}

ElementRange GroupLayout::bucket(std::size_t number) const {
  const std::uint64_t begin = number * kBucketElements;
  return {begin, std::min(begin + kBucketElements, elements_)};
}

bool GroupLayout::is_everyones(std::size_t number) const {
  return bucket(number).size() * sizeof(float) <= collective::kWholeBytesMax;
}

ElementRange GroupLayout::slice(std::size_t number, std::uint32_t ranks, std::uint32_t rank) const {
  const ElementRange all = bucket(number);
  const collective::Range part =
      collective::slice_of(static_cast<std::size_t>(all.size() * sizeof(float)), ranks, rank);
  return {all.begin + part.begin / sizeof(float), all.begin + part.end / sizeof(float)};
}

ElementRange overlap(ElementRange a, ElementRange b) {
  const std::uint64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace paddle::strategy

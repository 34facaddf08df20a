#include "engine/group/group_layout.h"

#include <algorithm>

#include "engine/table/parameter_set.h"

namespace paddle::strategy {
namespace {

constexpr std::uint64_t kAlignment = collective::kSliceAlignment / sizeof(float);

std::uint64_t aligned(std::uint64_t elements) {
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

GroupLayout::GroupLayout(const wire::ParameterSet& set, std::uint32_t ranks) : ranks_(ranks) {
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

std::size_t GroupLayout::bucket_bytes(std::size_t number) const {
  return static_cast<std::size_t>(bucket(number).size() * sizeof(float));
}

bool GroupLayout::is_everyones(std::size_t number) const {
  return bucket_bytes(number) <= collective::whole_bytes_max(ranks_);
}

ElementRange GroupLayout::part(std::size_t number, const collective::Range& bytes) const {
  const std::uint64_t begin = bucket(number).begin;
  return {begin + bytes.begin / sizeof(float), begin + bytes.end / sizeof(float)};
}

ElementRange overlap(ElementRange a, ElementRange b) {
  const std::uint64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace paddle::strategy

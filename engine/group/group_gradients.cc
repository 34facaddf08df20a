#include "engine/group/group_gradients.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/math/update_kernels.h"
#include "engine/table/parameter_set.h"

namespace paddle::strategy {

void GroupGradients::allocate(collective::Group& group) {
  all_ = group.allocate(layout_.elements());
}

Result<ElementRange> GroupGradients::range_of(const client::DenseParameter& parameter) const {
  const std::uint32_t index = parameter.parameter;
  if (index >= static_cast<std::size_t>(set_.parameters_size()) ||
      set_.parameters(static_cast<int>(index)).sparse()) {
    return Error{Errc::kUsage, fmt::format("parameter {} is not dense", index)};
  }
  const ElementRange range = layout_.parameter(index);
  const auto gradient = parameter.gradients();
  if (gradient.empty() || gradient.size() == range.size()) return range;
  return Error{Errc::kUsage, fmt::format("the gradient of '{}' has {} elements, expected {}",
                                         set_.parameters(static_cast<int>(index)).name(),
                                         gradient.size(), range.size())};
}

Status GroupGradients::place(std::span<client::DenseParameter> parameters) {
  for (client::DenseParameter& one : parameters) {
    PADDLE_TRY(const ElementRange range, range_of(one));
    one.placed_gradient = part(range);
  }
  return {};
}

Result<std::string> GroupGradients::take(std::span<client::DenseParameter> parameters) {
  const float limit = parameter::gradient_limit(set_);
  std::vector<const client::DenseParameter*> by_index(
      static_cast<std::size_t>(set_.parameters_size()));
  for (const client::DenseParameter& one : parameters) {
    PADDLE_TRY_STATUS(range_of(one));
    by_index[one.parameter] = &one;
  }
  std::string above;
  for (const std::uint32_t parameter : layout_.dense()) {
    const client::DenseParameter* const one = by_index[parameter];
    const auto place = part(layout_.parameter(parameter));
    const auto from = one == nullptr ? std::span<const float>() : one->gradients();
    if (from.empty()) std::ranges::fill(place, 0.0F);
    if (!from.empty() && from.data() != place.data()) std::ranges::copy(from, place.begin());
    if (above.empty() && !optim::all_below(place, limit)) {
      above = set_.parameters(static_cast<int>(parameter)).name();
    }
  }
  return above;
}

std::span<float> GroupGradients::carried() {
  const bool is_small = layout_.buckets() == 1 && layout_.is_everyones(0);
  return is_small ? all_.floats() : std::span<float>();
}

}  // namespace paddle::strategy

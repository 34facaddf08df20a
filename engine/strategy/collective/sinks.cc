#include "engine/strategy/collective/sinks.h"

#include <algorithm>

#include "engine/optim/optimizer.h"

namespace paddle::strategy {

std::span<float> GroupClient::AverageSink::place(std::uint32_t parameter, std::uint32_t) {
  const std::size_t size = ranks_.layout().parameter(parameter).size();
  const auto found = std::ranges::find(parameters_, parameter, &client::DenseParameter::parameter);
  if (found == parameters_.end()) {
    unused_.resize(size);
    return unused_;
  }
  found->value.resize(size);
  return found->value;
}

std::span<float> GroupClient::SnapshotSink::place(std::uint32_t parameter, std::uint32_t plane) {
  const std::size_t size = ranks_.layout().parameter(parameter).size();
  value_.resize(size);
  state_.resize(size * ranks_.state_width());
  return plane == 0 ? std::span(value_) : std::span(state_).subspan((plane - 1) * size, size);
}

void GroupClient::SnapshotSink::finish(std::uint32_t parameter) {
  if (!written_) return;
  if (optim::has_average(set_.optimizer())) optim::swap_average(value_, state_);
  written_ = writer_.add_dense(set_.parameters(static_cast<int>(parameter)), value_, state_,
                               ranks_.update_count(parameter));
}

}  // namespace paddle::strategy

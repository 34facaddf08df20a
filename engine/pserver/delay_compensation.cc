#include "engine/pserver/delay_compensation.h"

#include <algorithm>

#include "base/check.h"

namespace paddle::pserver {

void DelayCompensation::on_values(std::uint32_t trainer, std::uint64_t offset,
                                  std::span<const float> given) {
  std::vector<float>& seen = seen_[trainer];
  if (given.empty()) return;
  if (seen.empty()) seen.resize(size_);
  PADDLE_CHECK(offset <= size_ && given.size() <= size_ - offset);
  std::copy(given.begin(), given.end(), seen.begin() + static_cast<std::ptrdiff_t>(offset));
}

std::span<const float> DelayCompensation::compensate(std::uint32_t trainer,
                                                     std::span<const float> gradient,
                                                     std::span<const float> values,
                                                     std::vector<float>& into) const {
  const std::vector<float>& seen = seen_[trainer];
  if (seen.empty()) return gradient;
  PADDLE_CHECK(gradient.size() == size_ && values.size() == size_);
  into.resize(size_);
  for (std::size_t i = 0; i < size_; ++i) {
    into[i] = gradient[i] + lambda_ * gradient[i] * gradient[i] * (values[i] - seen[i]);
  }
  return into;
}

}  // namespace paddle::pserver

#include "engine/trainer/not_finite.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/optim/update_kernels.h"

namespace paddle::trainer {
namespace {

// "the gradient of 'fc.w0'", "the cost", or "" when all is finite.
std::string first_not_finite(std::span<const wire::ParameterSpec> specs,
                             std::span<const client::DenseParameter> dense,
                             std::span<const client::SparseRows> rows, double cost, float limit) {
  const auto of = [&](std::uint32_t parameter) {
    return fmt::format("the gradient of '{}'", specs[parameter].name());
  };
  for (const client::DenseParameter& one : dense) {
    if (!optim::all_below(one.gradients(), limit)) return of(one.parameter);
  }
  for (const client::SparseRows& one : rows) {
    if (!optim::all_below(one.gradients, limit)) return of(one.parameter);
  }
  return std::isfinite(cost) ? "" : "the cost";
}

}  // namespace

Status NotFinite::leave_out(const std::string& where, std::span<const wire::ParameterSpec> specs,
                            std::span<client::DenseParameter> dense,
                            std::span<client::SparseRows> rows, Score& score) {
  const std::string what = first_not_finite(specs, dense, rows, score.cost, limit_);
  if (what.empty()) {
    in_a_row_ = 0;
    return {};
  }
  ++left_out_;
  const std::string why = fmt::format("{}: {} is not finite, or too large", where, what);
  constexpr const char* kHint =
      "lower optimizer.learning_rate, bound gradients with optimizer.clip_global_norm, or look at "
      "the data of these batches";
  if (++in_a_row_ >= kNotFiniteInARowMax) {
    return Error{Errc::kFailed, fmt::format("{}, as in the {} batches before", why, in_a_row_ - 1),
                 kHint};
  }
  log_warning("{}; the batch is left out on all pservers ({} so far)", why, left_out_);
  for (client::DenseParameter& one : dense) std::ranges::fill(one.gradients(), 0.0F);
  for (client::SparseRows& one : rows) std::ranges::fill(one.gradients, 0.0F);
  score.samples = 0;
  score.cost = 0;
  std::ranges::fill(score.tally.counts, 0U);
  std::ranges::fill(score.tally.sums, 0.0);
  return {};
}

}  // namespace paddle::trainer

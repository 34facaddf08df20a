#include "engine/trainer/clip.h"

#include <cmath>

namespace paddle::trainer {
namespace {

double square_sum(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

// The factor that scales the norm down to `most`, or 1.
float factor(double squares, float most) {
  const double norm = std::sqrt(squares);
  if (most == 0 || !std::isfinite(norm) || norm <= static_cast<double>(most)) return 1;
  return static_cast<float>(static_cast<double>(most) / norm);
}

void scale(std::span<float> values, float by) {
  if (by == 1) return;
  for (float& value : values) value *= by;
}

}  // namespace

void clip_gradients(const wire::Optimizer& optimizer, std::span<const wire::ParameterSpec> specs,
                    std::span<client::DenseParameter> dense, std::span<client::SparseRows> rows) {
  bool has_norm = optimizer.clip_norm() > 0 || optimizer.clip_global_norm() > 0;
  for (const wire::ParameterSpec& spec : specs) has_norm = has_norm || spec.clip_norm() > 0;
  if (!has_norm) return;
  double squares = 0;
  const auto clip_one = [&](const wire::ParameterSpec& spec, std::span<float> gradient) {
    if (spec.is_static()) return;
    const double own = square_sum(gradient);
    const float by = factor(own, spec.has_clip_norm() ? spec.clip_norm() : optimizer.clip_norm());
    scale(gradient, by);
    squares += own * static_cast<double>(by) * static_cast<double>(by);
  };
  for (client::DenseParameter& one : dense) clip_one(specs[one.parameter], one.gradient);
  for (client::SparseRows& one : rows) clip_one(specs[one.parameter], one.gradients);
  const float by = factor(squares, optimizer.clip_global_norm());
  for (client::DenseParameter& one : dense) {
    if (!specs[one.parameter].is_static()) scale(one.gradient, by);
  }
  for (client::SparseRows& one : rows) {
    if (!specs[one.parameter].is_static()) scale(one.gradients, by);
  }
}

}  // namespace paddle::trainer

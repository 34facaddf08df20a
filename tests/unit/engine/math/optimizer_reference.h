// Reference for the engine's vector code: one element of a parameter under any optimizer, in
// float64 and written from the papers.
#pragma once

#include <algorithm>
#include <cmath>

#include "engine/math/optimizer.h"

namespace paddle::test {

class ReferenceElement {
 public:
  ReferenceElement(const wire::Optimizer& optimizer, const wire::ParameterSpec& spec, double value)
      : o_(optimizer), w_(value), average_(value) {
    scale_ = d(spec.learning_rate());
    l1_ = d(spec.has_l1() ? spec.l1() : optimizer.l1());
    l2_ = d(spec.has_l2() ? spec.l2() : optimizer.l2());
    clip_ = d(spec.has_clip_value() ? spec.clip_value() : optimizer.clip_value());
    const bool is_adam = o_.method().starts_with("adam");
    epsilon_ = o_.has_epsilon() ? d(o_.epsilon()) : is_adam ? 1e-8 : 1e-6;
    rho_ = o_.has_rho() ? d(o_.rho()) : 0.95;
    beta1_ = o_.has_beta1() ? d(o_.beta1()) : 0.9;
    beta2_ = o_.has_beta2() ? d(o_.beta2()) : 0.999;
    beta_ = o_.has_beta() ? d(o_.beta()) : 1;
    weight_decay_ = o_.has_weight_decay() ? d(o_.weight_decay()) : 0.01;
    is_centered_ = !o_.has_centered() || o_.centered();
  }

  double value() const { return w_; }
  double average() const { return average_; }

  void update(double learning_rate, double g) {
    ++t_;
    const double r = learning_rate * scale_;
    if (clip_ > 0) g = std::clamp(g, -clip_, clip_);
    if (o_.method() == "ftrl") {
      ftrl(r, g);
    } else {
      g += l2_ * w_;
      const double rate = step(r, g);
      w_ = std::copysign(std::max(std::abs(w_) - l1_ * rate, 0.0), w_);
    }
    if (o_.average().window() > 0) {
      const auto n = static_cast<double>(t_);
      double k = d(o_.average().window()) * n;
      k = std::min(k, static_cast<double>(o_.average().window_max()));
      k = std::max(k, static_cast<double>(o_.average().window_min()));
      average_ += (w_ - average_) / std::min(k, n);
    }
  }

 private:
  static double d(float x) { return static_cast<double>(x); }

  // Moves w; returns the element's own learning rate.
  double step(double r, double g) {
    const std::string& method = o_.method();
    if (method == "sgd") {
      w_ -= r * g;
      return r;
    }
    if (method == "momentum" || method == "torch_momentum") {
      const double mu = d(o_.momentum());
      if (method == "torch_momentum" && t_ > 1) r *= 1 - mu;
      m_ = mu * m_ - r * g;
      w_ += m_;
      return r;
    }
    if (method == "adam" || method == "adamw") {
      if (method == "adamw") w_ -= r * weight_decay_ * w_;
      m_ = beta1_ * m_ + (1 - beta1_) * g;
      v_ = beta2_ * v_ + (1 - beta2_) * g * g;
      const double rate = r / (std::sqrt(v_ / (1 - std::pow(beta2_, t_))) + epsilon_);
      w_ -= rate * m_ / (1 - std::pow(beta1_, t_));
      return rate;
    }
    if (method == "adamax") {
      m_ = beta1_ * m_ + (1 - beta1_) * g;
      v_ = std::max(beta2_ * v_, std::abs(g));
      const double rate = r / (1 - std::pow(beta1_, t_)) / (v_ + epsilon_);
      w_ -= rate * m_;
      return rate;
    }
    return adaptive(method, r, g);
  }

  double adaptive(const std::string& method, double r, double g) {
    double rate = 0;
    if (method == "adagrad") {
      a_ += g * g;
      rate = r / (std::sqrt(a_) + epsilon_);
    } else {
      a_ = rho_ * a_ + (1 - rho_) * g * g;
      if (method == "decayed_adagrad") rate = r / (std::sqrt(a_) + epsilon_);
    }
    if (method == "adadelta") {
      const double scale = std::sqrt((u_ + epsilon_) / (a_ + epsilon_));
      u_ = rho_ * u_ + (1 - rho_) * (scale * g) * (scale * g);
      rate = r * scale;
    }
    if (method == "rmsprop") {
      f_ = is_centered_ ? rho_ * f_ + (1 - rho_) * g : 0;
      rate = r / std::sqrt(a_ - f_ * f_ + epsilon_);
    }
    m_ = d(o_.momentum()) * m_ - rate * g;
    w_ += m_;
    return rate;
  }

  // FTRL-proximal with the sum of all sigma equal to (beta + sqrt(n)) / r at every step.
  void ftrl(double r, double g) {
    if (r == 0) return;
    n_ += g * g;
    const double total = (beta_ + std::sqrt(n_)) / r;
    z_ += g - (total - sigma_) * w_;
    sigma_ = total;
    w_ = std::abs(z_) <= l1_ ? 0 : -(z_ - std::copysign(l1_, z_)) / (total + l2_);
  }

  const wire::Optimizer& o_;
  int t_ = 0;
  double w_;
  double average_;
  double scale_, l1_, l2_, clip_, epsilon_, rho_, beta1_, beta2_, beta_, weight_decay_;
  bool is_centered_;
  double m_ = 0, v_ = 0, a_ = 0, u_ = 0, f_ = 0, n_ = 0, z_ = 0, sigma_ = 0;
};

}  // namespace paddle::test

// Delay-compensated asynchronous SGD (Zheng et al. 2017, DC-ASGD-c): g + lambda g g (w - w_seen),
// with w_seen the values that the gradient was computed on. Fluid's enable_dc_asgd has lambda 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paddle::pserver {

class DelayCompensation {
 public:
  // Holds a copy of `size` values for each trainer.
  DelayCompensation(float lambda, std::uint32_t trainers, std::uint64_t size)
      : lambda_(lambda), seen_(trainers), size_(size) {}

  // The trainer is given values [offset, offset + given.size()).
  void on_values(std::uint32_t trainer, std::uint64_t offset, std::span<const float> given);
  // The compensated gradient, in `into`; the gradient itself if the trainer was given no values.
  std::span<const float> compensate(std::uint32_t trainer, std::span<const float> gradient,
                                    std::span<const float> values, std::vector<float>& into) const;

 private:
  float lambda_;
  std::vector<std::vector<float>> seen_;  // by trainer; empty until it was given values
  std::uint64_t size_;
};

}  // namespace paddle::pserver

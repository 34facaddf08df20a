// The tables of optimizer methods and of the options that they read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/optim/update_kernels.h"
#include "proto/parameters.pb.h"

namespace paddle::optim {

// Properties of a method; the first ones are options that it reads.
enum Trait : std::uint32_t {
  kMomentum = 1U << 0U,
  kRho = 1U << 1U,
  kBetas = 1U << 2U,  // beta1 and beta2
  kEpsilon = 1U << 3U,
  kBeta = 1U << 4U,
  kCentered = 1U << 5U,  // one plane more unless `centered` is false
  kWeightDecay = 1U << 6U,
  // With a momentum above 0 the step goes through it, in one plane more.
  kHeavyBall = 1U << 7U,
  kCountsUpdates = 1U << 8U,  // an update depends on how many came before it
};

struct Method {
  std::string_view name;
  std::size_t planes = 0;    // floats of state per element, besides those that traits add
  std::uint32_t traits = 0;  // a set of Trait
  UpdateKernel update = nullptr;
  float learning_rate = 0.01F;  // defaults
  float epsilon = 1e-6F;

  bool has(std::uint32_t trait) const { return (traits & trait) != 0; }
};
std::span<const Method> methods();

// A number that only some methods read: a key of [optimizer] and of a snapshot's MANIFEST.
struct Option {
  std::string_view name;
  Trait trait;       // of the methods that read it
  bool is_fraction;  // in [0, 1); else above 0
  bool (wire::Optimizer::*has)() const;
  float (wire::Optimizer::*get)() const;
  void (wire::Optimizer::*set)(float);
};
// In the order of a MANIFEST.
std::span<const Option> options();

}  // namespace paddle::optim

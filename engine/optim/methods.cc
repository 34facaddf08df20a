#include "engine/optim/methods.h"

#include <array>

namespace paddle::optim {
namespace {

using wire::Optimizer;

constexpr float kAdamEpsilon = 1e-8F;

constexpr std::array<Method, 11> kMethods{{
    {"sgd", 0, 0, update_sgd},
    {"momentum", 1, kMomentum, update_momentum},
    {"torch_momentum", 1, kMomentum | kCountsUpdates, update_torch_momentum},
    {"adagrad", 1, kMomentum | kHeavyBall | kEpsilon, update_adagrad},
    {"decayed_adagrad", 1, kMomentum | kHeavyBall | kRho | kEpsilon, update_decayed_adagrad},
    {"adadelta", 2, kMomentum | kHeavyBall | kRho | kEpsilon, update_adadelta, 1.0F},
    {"rmsprop", 1, kMomentum | kHeavyBall | kRho | kEpsilon | kCentered, update_rmsprop},
    {"adam", 2, kBetas | kEpsilon | kCountsUpdates, update_adam, 0.01F, kAdamEpsilon},
    {"adamw", 2, kBetas | kEpsilon | kWeightDecay | kCountsUpdates, update_adamw, 0.01F,
     kAdamEpsilon},
    {"adamax", 2, kBetas | kEpsilon | kCountsUpdates, update_adamax, 0.01F, kAdamEpsilon},
    {"ftrl", 3, kBeta, update_ftrl},
}};

constexpr std::array<Option, 7> kOptions{{
    {"momentum", kMomentum, true, &Optimizer::has_momentum, &Optimizer::momentum,
     &Optimizer::set_momentum},
    {"beta1", kBetas, true, &Optimizer::has_beta1, &Optimizer::beta1, &Optimizer::set_beta1},
    {"beta2", kBetas, true, &Optimizer::has_beta2, &Optimizer::beta2, &Optimizer::set_beta2},
    {"epsilon", kEpsilon, false, &Optimizer::has_epsilon, &Optimizer::epsilon,
     &Optimizer::set_epsilon},
    {"rho", kRho, true, &Optimizer::has_rho, &Optimizer::rho, &Optimizer::set_rho},
    {"beta", kBeta, false, &Optimizer::has_beta, &Optimizer::beta, &Optimizer::set_beta},
    {"weight_decay", kWeightDecay, true, &Optimizer::has_weight_decay, &Optimizer::weight_decay,
     &Optimizer::set_weight_decay},
}};

}  // namespace

std::span<const Method> methods() {
  return kMethods;
}

std::span<const Option> options() {
  return kOptions;
}

}  // namespace paddle::optim

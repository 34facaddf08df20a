#include <array>

#include "engine/config/sections.h"

namespace paddle::config {
namespace {

constexpr std::array<std::string_view, 4> kMethods{"sgd", "momentum", "adagrad", "adam"};

}  // namespace

void read_optimizer(TomlTable table, JobConfig& job) {
  const std::string method = table.choice("method", "sgd", kMethods);
  job.optimizer.set_method(method);
  job.optimizer.set_learning_rate(static_cast<float>(table.number("learning_rate", 0.01, 0)));
  job.optimizer.set_momentum(static_cast<float>(table.number("momentum", 0, 0, 1)));
  job.optimizer.set_beta1(static_cast<float>(table.number("beta1", 0.9, 0, 1)));
  job.optimizer.set_beta2(static_cast<float>(table.number("beta2", 0.999, 0, 1)));
  const double epsilon = method == "adagrad" ? 1e-6 : 1e-8;
  job.optimizer.set_epsilon(static_cast<float>(table.number("epsilon", epsilon, 0)));
  job.l2 = static_cast<float>(table.number("l2", 0, 0));
}

}  // namespace paddle::config

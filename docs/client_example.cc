// A toy model trained with engine/client: y = 3 a - 2 b + 1, by gradient descent on a pserver.
#include <cmath>
#include <cstdio>

#include "engine/client/connect.h"

int main(int, char** argv) {
  paddle::wire::ParameterSet set;  // the same on all trainers
  set.set_num_trainers(1);
  set.mutable_optimizer()->set_method("sgd");
  set.mutable_optimizer()->set_learning_rate(0.1F);
  auto* const spec = set.add_parameters();
  spec->set_name("w");
  spec->add_dims(3);
  spec->set_learning_rate(1);
  const auto client =
      paddle::client::connect({.pservers = {argv[1]}, .ports_num_for_sparse = 0}, set);
  if (!client) return std::fprintf(stderr, "%s\n", client.error().message.c_str()), 1;

  std::vector<paddle::client::DenseParameter> dense(1);  // parameter 0 of the set
  bool good = (*client)->ready() && (*client)->pull_dense(dense);
  for (float batch = 0; good && batch < 500; ++batch) {
    const auto& w = dense[0].value;
    const float a = std::sin(batch), b = std::cos(0.7F * batch);
    const float error = w[0] * a + w[1] * b + w[2] - (3 * a - 2 * b + 1);
    dense[0].gradient = {2 * error * a, 2 * error * b, 2 * error};
    good = bool((*client)->push(1, error * error, dense, {}));  // one sample, its cost; refreshes w
  }
  std::printf("%.2f %.2f %.2f\n", dense[0].value[0], dense[0].value[1], dense[0].value[2]);
  return good && (*client)->finish_pass({}) && (*client)->leave() ? 0 : 1;
}

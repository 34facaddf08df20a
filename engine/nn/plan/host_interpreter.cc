#include "engine/nn/plan/host_interpreter.h"

#include "base/check.h"
#include "engine/nn/plan/host_ops.h"

namespace paddle::nn {

Result<double> HostInterpreter::forward(const Run& run) {
  PADDLE_TRY_STATUS(frame_.begin(run));
  for (const Op& op : plan_.forward) execute(op, frame_);
  double sum = 0;
  for (std::size_t i = 0; i < plan_.costs.size(); ++i) sum += frame_.cost(i);
  return sum;
}

void HostInterpreter::backward() {
  PADDLE_CHECK(frame_.run().mode == Mode::kTrain);
  for (const Op& op : plan_.backward) execute(op, frame_);
}

}  // namespace paddle::nn

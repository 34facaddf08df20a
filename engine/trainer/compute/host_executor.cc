#include "engine/trainer/compute/host_executor.h"

#include <algorithm>

#include "base/check.h"
#include "engine/kernels/elementwise.h"

namespace paddle::trainer {

HostExecutor::HostExecutor(const nn::Network& network, ThreadTeam& team)
    : network_(network), team_(team), workspaces_(team.size()) {}

Result<Score> HostExecutor::finish(Gradients gradients) {
  const nn::Run& batch = *batch_;
  const std::size_t size = batch.rows();
  const std::size_t parts = std::min(team_.size(), size);
  // The first thread writes its gradients straight to where the sum over threads will be.
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    workspaces_[0].set_gradient_buffer(p, gradients[p]);
  }
  std::vector<Result<double>> costs(parts, 0.0);
  team_.run([&](std::size_t part) {
    if (part >= parts) return;
    nn::Run range = batch;
    range.begin = size * part / parts;
    range.end = size * (part + 1) / parts;
    nn::Workspace& workspace = workspaces_[part];
    workspace.clear_gradients();
    costs[part] = network_.forward(range, workspace);
    if (costs[part] && batch.mode == nn::Mode::kTrain) network_.backward(range, workspace);
  });

  Score score;
  score.samples = size;
  for (std::size_t part = 0; part < parts; ++part) {
    if (!costs[part]) return std::move(costs[part]).error();
    score.cost += *costs[part];
    score.tally.add(workspaces_[part].tally());
  }
  reduce(parts, gradients);
  return score;
}

// Every thread reduces one range of each parameter, so that an element stays in one cache.
void HostExecutor::reduce(std::size_t parts, Gradients gradients) {
  if (parts <= 1 || gradients.empty()) return;
  team_.run([&](std::size_t member) {
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      const std::span<float> into = gradients[p];
      const std::size_t begin = into.size() * member / team_.size();
      const std::size_t end = into.size() * (member + 1) / team_.size();
      for (std::size_t part = 1; part < parts; ++part) {
        const std::span<const float> gradient = workspaces_[part].gradient(p);
        PADDLE_CHECK(gradient.size() == into.size());
        kernels::add(end - begin, gradient.data() + begin, into.data() + begin);
      }
    }
  });
}

}  // namespace paddle::trainer

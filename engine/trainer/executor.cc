#include "engine/trainer/executor.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/math/elementwise.h"

namespace paddle::trainer {
namespace {

std::size_t index_in(const std::vector<std::size_t>& layers, std::size_t layer) {
  return static_cast<std::size_t>(std::ranges::find(layers, layer) - layers.begin());
}

}  // namespace

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
    range.team = nullptr;  // all its threads compute
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

GpuExecutor::GpuExecutor(const nn::Network& network, std::unique_ptr<device::Device> device)
    : network_(network),
      plan_(network.lower()),
      device_(std::move(device)),
      outputs_(network.evaluated_outputs(plan_)),
      predictions_(network.evaluated_predictions(plan_)) {}

Result<std::unique_ptr<GpuExecutor>> GpuExecutor::make(const nn::Network& network,
                                                       std::unique_ptr<device::Device> device) {
  std::unique_ptr<GpuExecutor> made(new GpuExecutor(network, std::move(device)));
  nn::WantedResults wanted{.outputs = made->outputs_, .predictions = {}};
  for (const std::size_t layer : made->predictions_) {
    wanted.predictions.push_back(index_in(made->plan_.predictions, layer));
  }
  PADDLE_TRY(made->executor_,
             nn::DeviceExecutor::make(made->plan_, *made->device_, std::move(wanted)));
  return made;
}

Status GpuExecutor::begin(const nn::Run& batch) {
  batch_.emplace(batch);
  Status begun = executor_->begin(batch);
  if (begun || begun.error().code != Errc::kResource) return begun;
  Error full = std::move(begun).error().with(
      fmt::format("a batch of {} examples does not fit its GPU", batch.rows()));
  full.hint = batch.mode == nn::Mode::kTrain
                  ? "lower train.batch_size, or use a GPU with more memory"
                  : "use a GPU with more memory";
  return full;
}

Result<Score> GpuExecutor::finish(Gradients gradients) {
  PADDLE_TRY(const double cost, executor_->finish(gradients));
  const std::size_t layers = plan_.outputs.size();
  nn::ForwardResults results{.outputs = std::vector<std::span<const float>>(layers),
                             .predictions = std::vector<std::span<const std::uint32_t>>(layers),
                             .costs = std::vector<double>(layers)};
  for (const std::size_t layer : outputs_) results.outputs[layer] = executor_->output(layer);
  for (const std::size_t layer : predictions_) {
    results.predictions[layer] = executor_->predictions(index_in(plan_.predictions, layer));
  }
  for (std::size_t i = 0; i < plan_.costs.size(); ++i) {
    results.costs[plan_.costs[i]] = executor_->cost(i);
  }
  PADDLE_TRY(Tally tally, network_.count(*batch_, results, workspace_));
  return Score{batch_->rows(), cost, std::move(tally)};
}

}  // namespace paddle::trainer

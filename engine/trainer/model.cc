#include "engine/trainer/model.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/math/gemm.h"
#include "engine/table/parameter_set.h"
#include "engine/trainer/executor.h"

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

Result<Model> Model::build(const config::JobConfig& job, const Machine& machine) {
  PADDLE_TRY(auto card, open_card(job.train.device, machine.selected_gpus));
  if (card != nullptr && !job.data.weight.empty()) {
    return Error{Errc::kUsage, "[data] weight needs a CPU, but this trainer computes on a GPU",
                 "set [train] device = \"cpu\", or remove [data] weight"};
  }
  PADDLE_TRY_STATUS(kernels::reserve_products(job.train.trainer_count));
  PADDLE_TRY(nn::Network network,
             nn::Network::build(job.layers, config::data_slots(job.data), job.evaluators));
  PADDLE_TRY(BatchNotes notes, BatchNotes::build(job, network.parameters()));
  Model model(std::make_unique<nn::Network>(std::move(network)), std::move(notes), job.train);
  PADDLE_TRY_STATUS(model.choose_executor(std::move(card)));
  return model;
}

Status Model::choose_executor(std::unique_ptr<device::Device> card) {
  if (card == nullptr) {
    executor_ = std::make_unique<HostExecutor>(*network_, *team_);
    computes_on_ = fmt::format("{} thread{}", team_->size(), team_->size() == 1 ? "" : "s");
    if (compute_ != kernels::Compute::kFloat32) {
      const kernels::Kernel kernel = kernels::kernel_for(compute_);
      computes_on_ += fmt::format(", products in {}", name_of(kernel));
      if (kernel == kernels::Kernel::kFloat32) computes_on_ += ": no less is faster on this CPU";
    }
    return {};
  }
  computes_on_ = name_of(card->card());
  PADDLE_TRY(executor_, GpuExecutor::make(*network_, std::move(card)));
  return {};
}

Model::Model(std::unique_ptr<nn::Network> network, BatchNotes notes,
             const config::TrainConfig& train)
    : network_(std::move(network)),
      notes_(std::move(notes)),
      compute_(train.compute),
      team_(std::make_unique<ThreadTeam>(train.trainer_count)),
      ids_(network_->parameters().size()),
      gradients_(network_->parameters().size()) {
  for (std::uint32_t index = 0; index < network_->parameters().size(); ++index) {
    const wire::ParameterSpec& spec = network_->parameters()[index];
    if (spec.sparse()) {
      inputs_.rows.emplace_back().parameter = index;
      continue;
    }
    client::DenseParameter& parameter = dense_.emplace_back();
    parameter.parameter = index;
    parameter.value.resize(parameter::element_count(spec));
    parameter.gradient.resize(parameter.value.size(), 0.0F);
  }
  inputs_.lookups.resize(inputs_.rows.size());
  before_ = next_ = inputs_;
}

Status Model::prepare(const nn::Batch& batch, std::uint64_t seed) {
  PADDLE_TRY_STATUS(collect(batch, seed));
  std::swap(inputs_, before_);
  fill(inputs_);
  return {};
}

Status Model::prepare_next(const nn::Batch& batch, std::uint64_t seed) {
  PADDLE_TRY_STATUS(collect(batch, seed));
  fill(next_);
  return {};
}

void Model::take_next() {
  std::swap(inputs_, before_);
  std::swap(inputs_, next_);
}

Status Model::collect(const nn::Batch& batch, std::uint64_t seed) {
  PADDLE_TRY_STATUS(network_->check(batch));
  network_->collect_ids(batch, seed, ids_, reads_, team_.get());
  return {};
}

void Model::fill(Inputs& inputs) {
  for (std::size_t i = 0; i < inputs.rows.size(); ++i) {
    client::SparseRows& rows = inputs.rows[i];
    const auto width = network_->parameters()[rows.parameter].dims(1);
    rows.ids.swap(ids_[rows.parameter]);
    rows.values.resize(rows.is_on_card() ? 0 : rows.ids.size() * width);
    rows.gradients.resize(rows.values.size());
    inputs.lookups[i].build(rows.ids);
  }
}

nn::Parameters Model::parameters_of(const Inputs& inputs) const {
  const std::size_t count = network_->parameters().size();
  nn::Parameters parameters;
  parameters.dense.resize(count);
  parameters.sparse.resize(count);
  parameters.card.resize(count);
  for (const client::DenseParameter& one : dense_) {
    parameters.dense[one.parameter] = one.values();
    parameters.card[one.parameter] = one.card;
  }
  for (std::size_t i = 0; i < inputs.rows.size(); ++i) {
    const client::SparseRows& rows = inputs.rows[i];
    parameters.sparse[rows.parameter] = {rows.ids, rows.values, &inputs.lookups[i],
                                         rows.is_on_card() ? &rows.card : nullptr};
  }
  return parameters;
}

nn::Run Model::run_of(const nn::Batch& batch, nn::Mode mode, std::uint64_t seed,
                      const nn::Parameters& parameters) const {
  return {.batch = batch,
          .begin = 0,
          .end = batch.size,
          .parameters = parameters,
          .mode = mode,
          .seed = seed,
          .cost_scale = 1.0F / static_cast<float>(batch.size),
          .compute = compute_,
          .team = team_.get()};
}

void Model::stage_next(const nn::Batch& batch, std::uint64_t seed, bool has_rows) {
  const nn::Parameters parameters = parameters_of(next_);
  const bool stays_on_card = std::ranges::all_of(
      dense_, [](const client::DenseParameter& one) { return one.card.value != nullptr; });
  (void)executor_->stage(run_of(batch, nn::Mode::kTrain, seed, parameters),
                         stays_on_card && (has_rows || next_.rows.empty()));
}

Status Model::begin(const nn::Batch& batch, nn::Mode mode, std::uint64_t seed) {
  parameters_ = parameters_of(inputs_);
  return executor_->begin(run_of(batch, mode, seed, parameters_));
}

void Model::put_gradients() {
  for (client::DenseParameter& one : dense_) gradients_[one.parameter] = one.gradients();
  for (client::SparseRows& one : inputs_.rows) gradients_[one.parameter] = one.gradients;
}

Status Model::begin(const nn::Batch& batch, std::uint64_t seed) {
  return begin(batch, nn::Mode::kTrain, seed);
}

Result<Score> Model::finish(const nn::Batch& batch) {
  put_gradients();
  PADDLE_TRY(const Score score, executor_->finish(gradients_));
  notes_.write(batch, inputs_.rows);
  return score;
}

Reading Model::read(const Score& score) const {
  const double mean = score.samples == 0 ? 0 : score.cost / static_cast<double>(score.samples);
  return {score.samples, mean, network_->values(score.tally)};
}

Result<Score> Model::test(const nn::Batch& batch, std::uint64_t seed) {
  PADDLE_TRY_STATUS(begin(batch, nn::Mode::kTest, seed));
  return executor_->finish({});
}

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
  for (client::DenseParameter& one : dense) clip_one(specs[one.parameter], one.gradients());
  for (client::SparseRows& one : rows) clip_one(specs[one.parameter], one.gradients);
  const float by = factor(squares, optimizer.clip_global_norm());
  for (client::DenseParameter& one : dense) {
    if (!specs[one.parameter].is_static()) scale(one.gradients(), by);
  }
  for (client::SparseRows& one : rows) {
    if (!specs[one.parameter].is_static()) scale(one.gradients, by);
  }
}

}  // namespace paddle::trainer

// Steps of training with all parameters in the memory of a card, beside the same steps on a card
// of host memory.
#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "engine/gpu/device_executor.h"
#include "engine/group/card_client.h"
#include "tests/gpu/card_memory.h"
#include "tests/unit/engine/nn/template_networks.h"
#include "tests/unit/engine/nn/test_network.h"

namespace paddle::strategy {
namespace {

using device::expect;
using kernels::Compute;
using nn::TemplateNetwork;

constexpr int kSteps = 12;
constexpr std::uint64_t kSeed = 3;  // of all steps, so that their costs can be compared

wire::ParameterSet set_of(const nn::Network& network) {
  wire::ParameterSet set;
  for (const wire::ParameterSpec& spec : network.parameters()) *set.add_parameters() = spec;
  set.mutable_optimizer()->set_method("adam");
  set.mutable_optimizer()->set_learning_rate(1e-2F);
  set.set_dense_strategy(wire::STRATEGY_COLLECTIVE);
  set.set_num_trainers(1);
  set.set_sparse_shards(1);
  return set;
}

// The only trainer of a job.
class Trainer {
 public:
  Trainer(const TemplateNetwork& one, device::Device& device, Compute compute)
      : batch_(one.batch),
        compute_(compute),
        test_(one.job.layers, one.slots),
        plan_(test_.network.lower()),
        executor_(expect(nn::DeviceExecutor::make(plan_, device, {}))),
        set_(set_of(test_.network)) {
    const device::ComputeStream stream{&device, executor_->stream()};
    auto group = expect(
        collective::Group::join({.keys = {}, .members = {{"alone", {}}}}, device::in_seconds(60)));
    client_ = std::make_unique<CardClient>(
        set_,
        expect(GroupClient::create(set_, std::move(group), {}, {},
                                   CardRanks::Options{stream, "tests"})),
        expect(CardTables::create(set_, stream, test_.network.vocabularies())));
    test_.network.collect_ids(batch_, kSeed, test_.ids);
    const auto& specs = test_.network.parameters();
    for (std::uint32_t p = 0; p < specs.size(); ++p) {
      if (specs[p].sparse()) {
        rows_.push_back({p, test_.ids[p], {}, {}});
      } else {
        dense_.emplace_back().parameter = p;
      }
    }
    expect(client_->pull_dense(dense_));
    parameters_.dense.resize(specs.size());
    parameters_.sparse.resize(specs.size());
    parameters_.card.resize(specs.size());
    for (const client::DenseParameter& dense : dense_) {
      parameters_.card[dense.parameter] = dense.card;
    }
  }

  // Returns the cost. Gives the card the update, and sends the next batch, while it computes, as a
  // trainer does.
  double step() {
    if (!has_rows_) expect(client_->pull_rows(rows_));
    expect(executor_->begin(run()));
    expect(client_->begin_push(batch_.size, rows_));
    has_rows_ = expect(client_->pull_ahead(rows_));
    expect(executor_->stage(run(), has_rows_));
    const std::vector<std::span<float>> none(parameters_.dense.size());
    const double cost = expect(executor_->finish(none));
    expect(client_->push(batch_.size, cost, dense_, rows_));
    return cost;
  }

 private:
  nn::Run run() {
    for (const client::SparseRows& rows : rows_) {
      parameters_.sparse[rows.parameter] = {rows.ids, {}, nullptr, &rows.card};
    }
    return {.batch = batch_,
            .begin = 0,
            .end = batch_.size,
            .parameters = parameters_,
            .mode = nn::Mode::kTrain,
            .seed = kSeed,
            .cost_scale = 1.0F / static_cast<float>(batch_.size),
            .compute = compute_};
  }

  const nn::Batch& batch_;
  const Compute compute_;
  nn::TestNetwork test_;
  const nn::Plan plan_;
  std::unique_ptr<nn::DeviceExecutor> executor_;
  const wire::ParameterSet set_;
  std::unique_ptr<CardClient> client_;
  std::vector<client::DenseParameter> dense_;
  std::vector<client::SparseRows> rows_;
  nn::Parameters parameters_;
  bool has_rows_ = false;  // of the next batch
};

std::vector<double> costs_of(const TemplateNetwork& one, device::Device& device,
                             Compute compute = Compute::kFloat32) {
  Trainer trainer(one, device, compute);
  std::vector<double> costs;
  for (int i = 0; i < kSteps; ++i) costs.push_back(trainer.step());
  return costs;
}

TEST(TrainingOnCard, CostsFallAsThoseOfACardOfHostMemory) {
  for (const TemplateNetwork& one : nn::template_networks()) {
    SCOPED_TRACE(one.path);
    const std::vector<double> found = costs_of(one, test::card());
    test::FakeDevice fake;
    const std::vector<double> right = costs_of(one, fake);
    for (int i = 0; i < kSteps; ++i) {
      EXPECT_NEAR(found[i], right[i], 1e-3 * std::fabs(right[i])) << "step " << i;
    }
    EXPECT_LT(found.back(), found.front());
  }
}

TEST(TrainingOnCard, TwoRunsHaveTheSameBits) {
  for (const TemplateNetwork& one : nn::template_networks()) {
    SCOPED_TRACE(one.path);
    EXPECT_EQ(costs_of(one, test::card()), costs_of(one, test::card()));
  }
}

TEST(TrainingOnCard, CostsFallInBfloat16) {
  for (const TemplateNetwork& one : nn::template_networks()) {
    SCOPED_TRACE(one.path);
    const std::vector<double> found = costs_of(one, test::card(), Compute::kBfloat16);
    EXPECT_LT(found.back(), found.front());
  }
}

}  // namespace
}  // namespace paddle::strategy

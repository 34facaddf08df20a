// The regions that an op of a plan writes.
#pragma once

#include <optional>
#include <variant>

#include "engine/nn/plan.h"

namespace paddle::nn {

// Calls visit(region) for each region that the op writes.
template <class Visit>
void for_each_written(const Op& op, Visit visit) {
  struct Written {
    Visit& visit;

    void operator()(const op::Gemm& op) { visit(op.c); }
    void operator()(const op::Activate& op) { visit(op.to); }
    void operator()(const op::ActivateBackward& op) {
      visit(op.gradient);
      if (op.bias_gradient) visit(*op.bias_gradient);
    }
    void operator()(const op::Copy& op) { visit(op.to); }
    void operator()(const op::Sum& op) { visit(op.to); }
    void operator()(const op::Product& op) { visit(op.to); }
    void operator()(const op::Dropout& op) {
      visit(op.mask);
      visit(op.to);
    }
    void operator()(const op::SoftmaxCrossEntropy& op) { visit(op.gradient); }
    void operator()(const op::BinaryCrossEntropy& op) { visit(op.gradient); }
    void operator()(const op::SquaredError& op) { visit(op.gradient); }
    void operator()(const op::Zero& op) { visit(Region{.buffer = op.buffer}); }
    void operator()(const op::Gather& op) { visit(op.to); }
    void operator()(const op::GatherBackward& op) { visit(op.table_gradient); }
    void operator()(const op::Pool& op) { visit(op.to); }
    void operator()(const op::PoolBackward& op) { visit(op.table_gradient); }
    void operator()(const op::LayerNorm& op) {
      visit(op.to);
      visit(op.statistics);
    }
    void operator()(const op::LayerNormBackward& op) {
      visit(op.to);
      visit(op.gain_gradient);
      visit(op.bias_gradient);
    }
    void operator()(const op::PairSum& op) {
      visit(op.to);
      visit(op.sums);
    }
    void operator()(const op::PairSumBackward& op) { visit(op.to); }
    void operator()(const op::CosineSimilarity& op) { visit(op.to); }
    void operator()(const op::CosineSimilarityBackward& op) { visit(op.to); }
    void operator()(const op::SampledCost& op) { visit(op.slopes); }
    void operator()(const op::SampledCostBackward& op) {
      visit(op.x_gradient);
      visit(op.weight_gradient);
      if (op.bias_gradient) visit(*op.bias_gradient);
    }
  };
  std::visit(Written{visit}, op);
}

}  // namespace paddle::nn

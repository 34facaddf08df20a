#include "engine/gpu/gradient_ends.h"

#include <variant>

namespace paddle::nn {
namespace {

// Records the op as the last one so far that writes the parameter gradients among its results.
struct Note {
  const Plan& plan;
  std::vector<std::size_t>& ends;
  std::size_t end = 0;

  void operator()(const op::Gemm& op) { note(op.c); }
  void operator()(const op::Activate& op) { note(op.to); }
  void operator()(const op::ActivateBackward& op) { note(op.bias_gradient); }
  void operator()(const op::Copy& op) { note(op.to); }
  void operator()(const op::Sum& op) { note(op.to); }
  void operator()(const op::Product& op) { note(op.to); }
  void operator()(const op::Zero& op) { note(Region{.buffer = op.buffer}); }
  void operator()(const op::GatherBackward& op) { note(op.table_gradient); }
  void operator()(const op::PoolBackward& op) { note(op.table_gradient); }
  void operator()(const op::LayerNormBackward& op) {
    note(op.gain_gradient);
    note(op.bias_gradient);
  }
  void operator()(const op::SampledCostBackward& op) {
    note(op.weight_gradient);
    note(op.bias_gradient);
  }
  // The ops below write no parameter gradients.
  void operator()(const op::Dropout&) {}
  void operator()(const op::SoftmaxCrossEntropy&) {}
  void operator()(const op::BinaryCrossEntropy&) {}
  void operator()(const op::SquaredError&) {}
  void operator()(const op::Gather&) {}
  void operator()(const op::Pool&) {}
  void operator()(const op::LayerNorm&) {}
  void operator()(const op::PairSum&) {}
  void operator()(const op::PairSumBackward&) {}
  void operator()(const op::CosineSimilarity&) {}
  void operator()(const op::CosineSimilarityBackward&) {}
  void operator()(const op::SampledCost&) {}

 private:
  void note(const std::optional<Region>& region) {
    if (!region) return;
    const Buffer& buffer = plan.buffers[region->buffer];
    if (buffer.kind == Buffer::Kind::kParameterGradient) ends[buffer.index] = end;
  }
};

}  // namespace

std::vector<std::size_t> gradient_ends(const Plan& plan) {
  std::vector<std::size_t> ends(plan.parameter_gradients.size(), 1);
  Note note{plan, ends};
  for (const Op& op : plan.backward) {
    ++note.end;
    std::visit(note, op);
  }
  return ends;
}

}  // namespace paddle::nn

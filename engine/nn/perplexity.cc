// perplexity: e to the power of the mean cost of a softmax_cross_entropy layer.
#include <cmath>

#include <fmt/format.h>

#include "engine/nn/evaluator_input.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class Perplexity final : public Evaluator {
 public:
  Perplexity(const Builder& builder, std::size_t cost_layer)
      : Evaluator(builder.config().name, cost_layer, Reads::kCost, 1, 1) {}

  Status count(const Run& run, LayerAccess access, Counters counters) const override {
    counters.counts[0] += run.rows();
    counters.sums[0] += access.cost(layer());
    return {};
  }

  void values(Totals totals, std::vector<Value>& to) const override {
    const auto examples = static_cast<double>(totals.counts[0]);
    to.push_back({name(), examples > 0 ? std::exp(totals.sums[0] / examples) : 1.0});
  }
};

}  // namespace

EvaluatorResult make_perplexity(Builder& builder) {
  PADDLE_TRY_STATUS(builder.check_input_count(1, 1));
  const std::string& name = builder.config().inputs[0];
  PADDLE_TRY(const LayerInput input, builder.find_layer(name));
  if (builder.config_of(name).type != "softmax_cross_entropy") {
    return builder.error(
        fmt::format("input '{}' is not a layer of type softmax_cross_entropy", name),
        "name a softmax_cross_entropy layer");
  }
  return EvaluatorResult(std::make_unique<Perplexity>(builder, input.layer));
}

}  // namespace paddle::nn

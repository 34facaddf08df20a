// factorization_machine: the second-order term over fields,
//   1/2 sum_c ((sum_f v_fc)^2 - sum_f v_fc^2), one output.
// Its inputs, side by side, are vectors of `size` factors, one for each field; an embedding over
// several slots has as many fields.
#include <algorithm>

#include <fmt/format.h>

#include "engine/math/row_wise.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class FactorizationMachine final : public Layer {
 public:
  FactorizationMachine(const Builder& builder, std::vector<LayerInput> inputs)
      : Layer(builder.config().name, builder.index(), 1),
        inputs_(std::move(inputs)),
        factors_(builder.config().size) {}

  Status forward(const Run& run, LayerAccess access, double&) const override {
    // The sums of each row are kept for backward; all rows share one buffer of squares after them.
    float* sums = access.scratch(index(), (run.rows() + 1) * factors_);
    float* squares = sums + run.rows() * factors_;
    for (std::size_t row = 0; row < run.rows(); ++row, sums += factors_) {
      std::fill_n(sums, factors_, 0.0F);
      std::fill_n(squares, factors_, 0.0F);
      for (const LayerInput& input : inputs_) {
        kernels::add_fields(input.width / factors_, factors_,
                            access.output(input.layer) + row * input.width, sums, squares);
      }
      access.output(index())[row] = kernels::pair_sum(factors_, sums, squares);
    }
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    const float* gradient = access.output_gradient(index());
    const float* sums = access.scratch(index(), (run.rows() + 1) * factors_);
    for (const LayerInput& input : inputs_) {
      const bool add = access.claim_output_gradient(input.layer);
      for (std::size_t row = 0; row < run.rows(); ++row) {
        kernels::pair_sum_backward(input.width / factors_, factors_,
                                   access.output(input.layer) + row * input.width,
                                   sums + row * factors_, gradient[row], add,
                                   access.output_gradient(input.layer) + row * input.width);
      }
    }
  }

  void lower(Lowering& lowering) const override {
    const Region sums = lowering.scratch(index(), factors_);
    op::PairSum forward{.factors = factors_, .to = lowering.output(index()), .sums = sums};
    for (const LayerInput& input : inputs_) forward.from.push_back(fields(lowering, input));
    lowering.emit(std::move(forward));
    lowering.at_backward([this, &lowering, sums] {
      for (const LayerInput& input : inputs_) {
        if (input.gradient_width == 0) continue;
        lowering.emit(
            op::PairSumBackward{.factors = factors_,
                                .from = fields(lowering, input),
                                .sums = sums,
                                .gradient = lowering.output_gradient(index()),
                                .to = lowering.output_gradient(input.layer),
                                .accumulate = lowering.claim_output_gradient(input.layer)});
      }
    });
  }

 private:
  op::Fields fields(Lowering& lowering, const LayerInput& input) const {
    return {input.width / factors_, lowering.output(input.layer)};
  }

  std::vector<LayerInput> inputs_;
  std::size_t factors_;
};

}  // namespace

LayerResult make_factorization_machine(Builder& builder) {
  const config::LayerConfig& config = builder.config();
  if (config.size == 0) return builder.error("key 'size' is missing: the factors of a field");
  PADDLE_TRY(std::vector<LayerInput> inputs, builder.layer_inputs());
  std::size_t fields = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].width % config.size != 0) {
      return builder.error(
          fmt::format("input '{}' has width {}, which is not a multiple of size {}",
                      config.inputs[i], inputs[i].width, config.size));
    }
    fields += inputs[i].width / config.size;
  }
  if (fields < 2) return builder.error("it needs at least two fields");
  return LayerResult(std::make_unique<FactorizationMachine>(builder, std::move(inputs)));
}

}  // namespace paddle::nn

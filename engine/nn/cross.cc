// cross: the cross layer of DCN-v2 (Wang et al. 2021), x0 * (x W + b) + x, where * multiplies
// output by output, and x0 is the layer's first input: the input of the whole stack of cross
// layers. With rank r, W = V U of {width, r} and {r, width}. A layer with one input uses it as both
// x0 and x.
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "engine/math/activation.h"
#include "engine/math/elementwise.h"
#include "engine/math/gemm.h"
#include "engine/math/rows.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

using kernels::Transpose;

class Cross final : public Layer {
 public:
  struct Options {
    LayerInput first;  // x0
    LayerInput input;  // x
    std::size_t rank = 0;
    std::size_t weight = 0;              // W, or V
    std::optional<std::size_t> up = {};  // U
    std::optional<std::size_t> bias = {};
  };

  Cross(const Builder& builder, const Options& options)
      : Layer(builder.config().name, builder.index(), options.input.width), options_(options) {}

  Status forward(const Run& run, LayerAccess access, double&) const override {
    const std::size_t count = run.rows() * width();
    const Buffers buffers = buffers_of(run, access);
    const auto& dense = run.parameters.dense;
    const float* x = access.output(options_.input.layer);
    const kernels::Epilogue last{options_.bias ? dense[*options_.bias].data() : nullptr};
    if (options_.up) {
      kernels::gemm(run.compute, Transpose::kNo, Transpose::kNo, run.rows(), options_.rank, width(),
                    x, dense[options_.weight].data(), false, buffers.down);
      kernels::gemm(run.compute, Transpose::kNo, Transpose::kNo, run.rows(), width(), options_.rank,
                    buffers.down, dense[*options_.up].data(), false, buffers.product, last);
    } else {
      kernels::gemm(run.compute, Transpose::kNo, Transpose::kNo, run.rows(), width(), width(), x,
                    dense[options_.weight].data(), false, buffers.product, last);
    }
    float* out = access.output(index());
    kernels::multiply(count, access.output(options_.first.layer), buffers.product, false, out);
    kernels::add(count, x, out);
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    const std::size_t count = run.rows() * width();
    const Buffers buffers = buffers_of(run, access);
    const float* gradient = access.output_gradient(index());
    const std::size_t first = options_.first.layer;
    const std::size_t input = options_.input.layer;
    kernels::multiply(count, gradient, buffers.product, access.claim_output_gradient(first),
                      access.output_gradient(first));
    kernels::copy_block(1, count, gradient, count, access.output_gradient(input), count,
                        access.claim_output_gradient(input));
    float* slope = buffers.product;  // gradient of the cost by the product and the bias
    kernels::multiply(count, gradient, access.output(first), false, slope);
    if (options_.bias) {
      const float beta = access.claim_parameter_gradient(*options_.bias);
      kernels::column_sum(run.rows(), width(), slope, beta,
                          access.parameter_gradient(*options_.bias));
    }
    if (!options_.up) return multiply_backward(run, access, options_.weight, width(), slope);
    product_backward(run, access, *options_.up, {buffers.down, options_.rank}, {slope, width()},
                     false, buffers.down_slope);
    multiply_backward(run, access, options_.weight, options_.rank, buffers.down_slope);
  }

  void lower(Lowering& lowering) const override {
    const Region x = lowering.output(options_.input.layer);
    const Region out = lowering.output(index());
    const Region product = lowering.scratch(index(), width());
    Matrix<Region> inner{x, width()};
    if (options_.up) {
      inner = {lowering.scratch(index(), options_.rank), options_.rank};
      lowering.emit(lower_product(lowering, {x, width()}, options_.weight, inner));
    }
    op::Gemm last =
        lower_product(lowering, inner, options_.up.value_or(options_.weight), {product, width()});
    if (options_.bias) last.bias = lowering.parameter(*options_.bias);
    lowering.emit(last);
    lowering.emit(op::Product{width(), {lowering.output(options_.first.layer), product}, out});
    lowering.emit(op::Copy{width(), x, out, true});
    lowering.at_backward(
        [this, &lowering, product, inner] { lower_backward(lowering, product, inner); });
  }

 private:
  // Scratch memory of a run. `down` and `down_slope` are used only with a rank.
  struct Buffers {
    float* product;  // x W + b; in backward, the gradient of it
    float* down;
    float* down_slope;
  };
  template <class Data>
  struct Matrix {
    Data data;
    std::size_t width;
  };

  Buffers buffers_of(const Run& run, LayerAccess& access) const {
    const std::size_t rows = run.rows();
    float* all = access.scratch(index(), rows * (width() + 2 * options_.rank));
    float* down = all + rows * width();
    return {all, down, down + rows * options_.rank};
  }

  // Computes the gradients of the input and of a weight of {input width, columns} from `slope`, the
  // gradient of their product.
  void multiply_backward(const Run& run, LayerAccess& access, std::size_t weight,
                         std::size_t columns, float* slope) const {
    product_backward(run, access, weight,
                     {access.output(options_.input.layer), options_.input.width}, {slope, columns},
                     true, access.output_gradient(options_.input.layer));
  }

  void product_backward(const Run& run, LayerAccess& access, std::size_t weight, Matrix<float*> x,
                        Matrix<float*> slope, bool add_x, float* x_gradient) const {
    const bool add_weight = access.claim_parameter_gradient(weight) != 0;
    kernels::gemm(run.compute, Transpose::kYes, Transpose::kNo, x.width, slope.width, run.rows(),
                  x.data, slope.data, add_weight, access.parameter_gradient(weight));
    kernels::gemm(run.compute, Transpose::kNo, Transpose::kYes, run.rows(), x.width, slope.width,
                  slope.data, run.parameters.dense[weight].data(), add_x, x_gradient);
  }

  static op::Gemm lower_product(Lowering& lowering, const Matrix<Region>& x, std::size_t weight,
                                const Matrix<Region>& to) {
    return {.m = op::kRows,
            .n = to.width,
            .k = x.width,
            .a = x.data,
            .b = lowering.parameter(weight),
            .c = to.data};
  }

  // `product` holds the product with the last weight, `inner` the other factor of that product.
  void lower_backward(Lowering& lowering, const Region& product,
                      const Matrix<Region>& inner) const {
    const Region gradient = lowering.output_gradient(index());
    const LayerInput& first = options_.first;
    const LayerInput& input = options_.input;
    if (first.gradient_width > 0) {
      lowering.emit(op::Product{width(),
                                {gradient, product},
                                lowering.output_gradient(first.layer),
                                lowering.claim_output_gradient(first.layer)});
    }
    std::optional<Region> input_gradient;
    if (input.gradient_width > 0) {
      input_gradient = lowering.output_gradient(input.layer);
      lowering.emit(op::Copy{width(), gradient, *input_gradient,
                             lowering.claim_output_gradient(input.layer)});
    }
    const Matrix<Region> slope{product, width()};
    lowering.emit(op::Product{width(), {gradient, lowering.output(first.layer)}, slope.data});
    if (options_.bias) {
      lowering.emit(op::ActivateBackward{kernels::find_activation("identity"), width(), slope.data,
                                         slope.data, lowering.parameter_gradient(*options_.bias),
                                         lowering.claim_parameter_gradient(*options_.bias)});
    }
    const Matrix<Region> x{lowering.output(input.layer), width()};
    if (!options_.up) {
      return lower_product_backward(lowering, options_.weight, x, slope, true, input_gradient);
    }
    const Matrix<Region> inner_slope{lowering.scratch(index(), options_.rank), options_.rank};
    lower_product_backward(lowering, *options_.up, inner, slope, false, inner_slope.data);
    lower_product_backward(lowering, options_.weight, x, inner_slope, true, input_gradient);
  }

  // `x_gradient` is empty where no layer reads the gradient of `x`.
  static void lower_product_backward(Lowering& lowering, std::size_t weight,
                                     const Matrix<Region>& x, const Matrix<Region>& slope,
                                     bool add_x, const std::optional<Region>& x_gradient) {
    lowering.emit(op::Gemm{.transpose_a = Transpose::kYes,
                           .m = x.width,
                           .n = slope.width,
                           .k = op::kRows,
                           .a = x.data,
                           .b = slope.data,
                           .c = lowering.parameter_gradient(weight),
                           .accumulate = lowering.claim_parameter_gradient(weight)});
    if (!x_gradient) return;
    lowering.emit(op::Gemm{.transpose_b = Transpose::kYes,
                           .m = op::kRows,
                           .n = x.width,
                           .k = slope.width,
                           .a = slope.data,
                           .b = lowering.parameter(weight),
                           .c = *x_gradient,
                           .accumulate = add_x});
  }

  Options options_;
};

}  // namespace

LayerResult make_cross(Builder& builder) {
  const config::LayerConfig& config = builder.config();
  PADDLE_TRY_STATUS(builder.check_input_count(1, 2));
  if (config.weight.sparse || config.bias.sparse) {
    return builder.error("the parameters of a cross layer cannot be sparse");
  }
  PADDLE_TRY(const std::vector<LayerInput> inputs, builder.equal_inputs(1));
  Cross::Options options{.first = inputs.front(), .input = inputs.back(), .rank = config.rank};
  const std::size_t width = options.input.width;
  if (config.rank > width) {
    return builder.error(fmt::format("rank is {}, but its input has width {}", config.rank, width),
                         "remove the key 'rank'");
  }
  const bool is_low_rank = config.rank > 0;
  if (is_low_rank && !config.weight.name.empty()) {
    return builder.error(
        "a weight name cannot be set together with 'rank', which makes two matrices");
  }
  const std::size_t inner = is_low_rank ? config.rank : width;
  PADDLE_TRY(options.weight, builder.parameter({config.weight,
                                                fmt::format("_{}.w0", config.name),
                                                {width, inner},
                                                1.0 / std::sqrt(static_cast<double>(width))}));
  if (is_low_rank) {
    PADDLE_TRY(options.up, builder.parameter({config.weight,
                                              fmt::format("_{}.w1", config.name),
                                              {inner, width},
                                              1.0 / std::sqrt(static_cast<double>(inner))}));
  }
  if (config.has_bias) {
    PADDLE_TRY(options.bias,
               builder.parameter({config.bias, fmt::format("_{}.wbias", config.name), {width}, 0}));
  }
  return LayerResult(std::make_unique<Cross>(builder, options));
}

}  // namespace paddle::nn

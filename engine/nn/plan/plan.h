// Plan of a network: its forward and backward as lists of ops on symbolic buffers, with nothing
// left to decide but what a batch holds. It stands alone once made, and any number of threads may
// run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "engine/kernels/activation.h"
#include "engine/kernels/gemm.h"
#include "engine/nn/run.h"

namespace paddle::nn {

// Symbolic buffers of floats that the ops of a plan read and write.

// Array of floats that an executor gives memory to.
struct Buffer {
  enum class Kind {
    kInput,              // made of the batch by input `index`
    kOutput,             // outputs of layer `index`
    kOutputGradient,     // gradient of the cost with respect to them
    kScratch,            // kept by layer `index` from one of its ops to another
    kParameter,          // value of parameter `index`
    kParameterGradient,  // its gradient, summed over the rows of the run
  };
  // Number of `width` floats in the buffer.
  enum class Rows {
    kRun,    // one for each example
    kTable,  // one for each row of a sparse table that the batch reads
    kOne,
  };

  Kind kind = Kind::kScratch;
  std::size_t index = 0;
  std::size_t width = 0;
  Rows rows = Rows::kRun;
};

// Block of columns in the rows of a buffer. The op that uses it knows how many columns.
struct Region {
  std::size_t buffer = 0;  // in Plan::buffers
  std::size_t column = 0;  // first one
  std::size_t stride = 0;  // floats from one row to the next

  Region columns_from(std::size_t first) const { return {buffer, column + first, stride}; }
  bool operator==(const Region&) const = default;
};

// Kernels that take no stride want rows side by side.
inline void check_packed(const Region& region, std::size_t width) {
  PADDLE_CHECK(region.stride == width);
}

// Arrays that the CPU makes of a batch before any op of a plan runs.

// Each input says which of them it makes; the others are empty.
struct InputArrays {
  std::vector<float> floats;           // of the buffer of the input, row by row
  std::vector<std::uint32_t> indices;  // classes, or rows of a table
  std::vector<std::uint32_t> starts;   // of bags of indices: one for each bag, and the end
  std::vector<float> weights;          // of each index; empty: all 1
  std::vector<float> scales;           // of each bag; empty: all 1
};

// Filler of one input. Only here can a batch turn out to be wrong: ops read arrays and never fail.
class BatchInput {
 public:
  BatchInput() = default;
  virtual ~BatchInput() = default;
  BatchInput(const BatchInput&) = delete;
  BatchInput& operator=(const BatchInput&) = delete;

  // Replaces the arrays by those of the run's examples. The batch has passed Network::check. kData:
  // an id or label is out of range, in the words of the layer that reads it.
  virtual Status fill(const Run& run, InputArrays& arrays) const = 0;
};

}  // namespace paddle::nn

// Ops of a plan: each is one formula on regions of buffers, as coarse as one kernel of a GPU. All
// that depends on the network alone is decided: where `accumulate` is set an op adds to its result,
// else it overwrites it. Ops that name no other number of rows run over the rows of the run.
namespace paddle::nn::op {

// As an extent of a product: the rows of the run.
inline constexpr std::size_t kRows = std::numeric_limits<std::size_t>::max();

// c = op(a) op(b) with op(a) m x k and op(b) k x n; then the bias is added to every row, then relu.
struct Gemm {
  kernels::Transpose transpose_a = kernels::Transpose::kNo;
  kernels::Transpose transpose_b = kernels::Transpose::kNo;
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  Region a;
  Region b;
  Region c;
  bool accumulate = false;
  std::optional<Region> bias = {};
  bool relu = false;
};

// to = f(from), which may be one region.
struct Activate {
  const kernels::Activation* activation = nullptr;
  std::size_t width = 0;
  Region from;
  Region to;
};

// gradient *= f'(kept), with `kept` as Activation::backward takes it; then the sum of its rows goes
// to bias_gradient.
struct ActivateBackward {
  const kernels::Activation* activation = nullptr;
  std::size_t width = 0;
  Region kept;
  Region gradient;
  std::optional<Region> bias_gradient = {};
  bool accumulate = false;  // the bias gradient
};

// to = from
struct Copy {
  std::size_t width = 0;
  Region from;
  Region to;
  bool accumulate = false;
};

// to = the sum of all `from`, added up from the first to the last.
struct Sum {
  std::size_t width = 0;
  std::vector<Region> from;
  Region to;
};

// to = the product of all `from`, multiplied from the first to the last.
struct Product {
  std::size_t width = 0;
  std::vector<Region> from;
  Region to;
  bool accumulate = false;
};

// In training, mask = 0 with probability rate, else 1 / (1 - rate), and to = from * mask. The mask
// of an example has the stream of example_stream(seed, layer, example), and is a function of that
// and of the column alone. In a test, to = from.
struct Dropout {
  std::size_t width = 0;
  Region from;
  Region mask;
  Region to;
  float rate = 0;
  std::uint64_t layer = 0;
};

// Cost -ln softmax(logits)[class] of each row, the predictions, and, in training, gradient =
// cost_scale * (softmax(logits) - onehot(class)).
struct SoftmaxCrossEntropy {
  std::size_t width = 0;
  Region logits;
  std::size_t classes = 0;  // an input with an index for each row
  Region gradient;
  std::size_t cost = 0;         // in Plan::costs
  std::size_t predictions = 0;  // in Plan::predictions
};

// Cost sum of -y ln p - (1 - y) ln(1 - p) of each row, with p = sigmoid(x) and y the labels, and,
// in training, gradient = cost_scale * (p - y).
struct BinaryCrossEntropy {
  std::size_t width = 0;
  Region x;
  Region labels;
  Region gradient;
  std::size_t cost = 0;
};

// Cost sum of (x - y)^2 of each row, with y the labels, and, in training, gradient =
// 2 * cost_scale * (x - y).
struct SquaredError {
  std::size_t width = 0;
  Region x;
  Region labels;
  Region gradient;
  std::size_t cost = 0;
};

// All of a buffer = 0.
struct Zero {
  std::size_t buffer = 0;
};

// Rows of a table side by side: those of a row r are named by indices [r * columns, (r + 1) *
// columns) of the input. kNoRow gives zeros. Where the input has weights, a row of the table is
// multiplied by its weight and added to 0.
struct Gather {
  std::size_t width = 0;  // of a row of the table
  std::size_t columns = 0;
  std::size_t rows = 0;  // the input
  Region table;
  Region to;
};

// Rows of the table's gradient = the sums of the gradients of their copies, times the weights, or
// += them when accumulate. The order of additions is that of the indices; with weights that of
// groups of `group` columns, in each of the rows of the run, and in a row of the columns.
struct GatherBackward {
  std::size_t width = 0;
  std::size_t columns = 0;
  std::size_t group = 0;
  std::size_t rows = 0;  // the input
  Region gradient;
  Region table_gradient;
  bool accumulate = false;
};

// Sums of rows of a table: bag s * (rows of the run) + r of the input goes to row r, columns from
// s * width. It is the sum of the rows, in order and times their weights, times the bag's scale.
struct Pool {
  std::size_t width = 0;
  std::size_t slots = 0;
  std::size_t bags = 0;  // the input
  Region table;
  Region to;
};

// Rows of the table's gradient = the sums of the gradients of the sums that they are in, times
// scale and weight, in the order of the indices, or += them when accumulate.
struct PoolBackward {
  std::size_t width = 0;
  std::size_t slots = 0;
  std::size_t bags = 0;  // the input
  Region gradient;
  Region table_gradient;
  bool accumulate = false;
};

// to = (from - mean) * inverse * gain + bias with inverse = 1 / sqrt(variance + epsilon), of each
// row by itself. `statistics` keeps two floats a row for the backward.
struct LayerNorm {
  std::size_t width = 0;
  Region from;
  Region gain;
  Region bias;
  Region to;
  Region statistics;
  float epsilon = 0;
};

// The gradients of `gain` and `bias` are added to, in the order of the rows.
struct LayerNormBackward {
  std::size_t width = 0;
  Region from;
  Region gain;
  Region statistics;
  Region gradient;
  Region to;  // the gradient of `from`
  bool accumulate = false;
  Region gain_gradient;
  Region bias_gradient;
};

// Vectors of the factors of a factorisation machine, side by side.
struct Fields {
  std::size_t fields = 0;
  Region region;
};

// One float a row: the sum of the inner products of all pairs of fields. `sums`, of `factors`
// columns, keeps the sum over all fields for the backward.
struct PairSum {
  std::size_t factors = 0;
  std::vector<Fields> from = {};
  Region to;
  Region sums;
};

struct PairSumBackward {
  std::size_t factors = 0;
  Fields from;
  Region sums;
  Region gradient;
  Region to;  // the gradient of `from`
  bool accumulate = false;
};

// One float a row: scale * cosine of the angle between a and b; 0 where one of them is 0.
struct CosineSimilarity {
  std::size_t width = 0;
  Region a;
  Region b;
  Region to;
  float scale = 1;
};

struct CosineSimilarityBackward {
  std::size_t width = 0;
  Region from;
  Region other;
  Region gradient;
  Region to;  // the gradient of `from`
  bool accumulate = false;
  float scale = 1;
};

// Cost of each row: sum over its candidates of softplus(-s) for the first and softplus(s) for the
// others, where s = x . weight[row of the candidate] + bias - scale of the candidate. Where the
// input has no row, a candidate takes no part. slopes = cost_scale * d cost / d s, 0 for those.
struct SampledCost {
  std::size_t width = 0;
  std::size_t candidates = 0;
  std::size_t rows = 0;  // the input: one index for each candidate, or two with a bias
  Region x;
  Region weight;
  std::optional<Region> bias = {};
  Region slopes;  // of `candidates` columns
  std::size_t cost = 0;
};

// The gradients of weight and bias are added to, in the order of the candidates of each row.
struct SampledCostBackward {
  std::size_t width = 0;
  std::size_t candidates = 0;
  std::size_t rows = 0;  // the input
  Region x;
  Region weight;
  Region slopes;
  Region x_gradient;
  bool accumulate = false;  // the gradient of x
  Region weight_gradient;
  std::optional<Region> bias_gradient = {};
};

}  // namespace paddle::nn::op

namespace paddle::nn {

using Op =
    std::variant<op::Gemm, op::Activate, op::ActivateBackward, op::Copy, op::SoftmaxCrossEntropy,
                 op::Sum, op::Product, op::Dropout, op::BinaryCrossEntropy, op::SquaredError,
                 op::Zero, op::Gather, op::GatherBackward, op::Pool, op::PoolBackward,
                 op::LayerNorm, op::LayerNormBackward, op::PairSum, op::PairSumBackward,
                 op::CosineSimilarity, op::CosineSimilarityBackward, op::SampledCost,
                 op::SampledCostBackward>;

struct Plan {
  // To be filled in this order, so that the first error is the one of Network::forward.
  std::vector<std::unique_ptr<const BatchInput>> inputs;
  std::vector<Buffer> buffers;
  std::vector<Op> forward;
  std::vector<Op> backward;  // after the forward, in training; empty in a network for predictions

  // Results of the forward beside the outputs.
  std::vector<std::size_t> costs;        // cost layer of each cost, which is a sum over the rows
  std::vector<std::size_t> predictions;  // layer of each array of a row's largest outputs
  // By layer; empty for a cost, and for a layer whose outputs no other has asked for.
  std::vector<std::optional<Region>> outputs;
  // By parameter; empty without a backward.
  std::vector<std::optional<Region>> parameter_gradients;
};

}  // namespace paddle::nn

// Plan of a network: its forward and backward as lists of ops on symbolic buffers, with everything
// decided except the contents of a batch. A plan does not refer to the network that it was made
// from, and any number of threads may run it.
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
#include "engine/math/activation.h"
#include "engine/math/gemm.h"
#include "engine/nn/run.h"

namespace paddle::nn {

// Symbolic buffers of floats that the ops of a plan read and write.

// Array of floats. The executor allocates its memory.
struct Buffer {
  enum class Kind {
    kInput,              // filled from the batch by input `index`
    kOutput,             // outputs of layer `index`
    kOutputGradient,     // gradient of the cost with respect to the outputs
    kScratch,            // kept by layer `index` from one of its ops to another
    kParameter,          // value of parameter `index`
    kParameterGradient,  // its gradient, summed over the rows of the run
  };
  // Number of rows in the buffer; each has `width` floats.
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
  std::size_t column = 0;  // first column
  std::size_t stride = 0;  // floats from one row to the next

  Region columns_from(std::size_t first) const { return {buffer, column + first, stride}; }
  bool operator==(const Region&) const = default;
};

// Checks that the rows of a region are contiguous, which kernels without a stride require.
inline void check_packed(const Region& region, std::size_t width) {
  PADDLE_CHECK(region.stride == width);
}

// Arrays that the CPU fills from a batch before any op of a plan runs.

// Arrays of one input. The comment of each class derived from BatchInput names those that it fills;
// the others are empty.
struct InputArrays {
  std::vector<float> floats;           // values of the input's buffer, row by row
  std::vector<std::uint32_t> indices;  // classes, or rows of a table
  std::vector<std::uint32_t> starts;   // first index of each bag, then the end of the last
  std::vector<float> weights;          // one for each index; empty: all are 1
  std::vector<float> scales;           // one for each bag; empty: all are 1
};

// Fills the arrays of one input. Only this step finds errors in a batch: ops read arrays and never
// fail.
class BatchInput {
 public:
  BatchInput() = default;
  virtual ~BatchInput() = default;
  BatchInput(const BatchInput&) = delete;
  BatchInput& operator=(const BatchInput&) = delete;

  // Replaces the arrays by those of the run's examples. kData: an id or label is out of range; the
  // message is that of the layer that reads it. REQUIRES: the batch has passed Network::check.
  virtual Status fill(const Run& run, InputArrays& arrays) const = 0;
};

}  // namespace paddle::nn

// Ops of a plan. Each op is one formula on regions of buffers, about as large as one kernel of a
// GPU. All that depends only on the network is fixed in the op: if `accumulate` is set it adds to
// its result, otherwise it overwrites it. Ops run over the rows of the run unless they name another
// number of rows.
namespace paddle::nn::op {

// Extent (m, n or k) of a Gemm that stands for the number of rows of the run.
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

// to = f(from). Both may be the same region.
struct Activate {
  const kernels::Activation* activation = nullptr;
  std::size_t width = 0;
  Region from;
  Region to;
};

// gradient *= f'(kept), with `kept` as in Activation::backward; then bias_gradient = the sum of the
// rows of the gradient.
struct ActivateBackward {
  const kernels::Activation* activation = nullptr;
  std::size_t width = 0;
  Region kept;
  Region gradient;
  std::optional<Region> bias_gradient = {};
  bool accumulate = false;  // applies to bias_gradient
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
// of an example is a function of example_stream(seed, layer, example) and the column only. In a
// test, to = from.
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

// Copies rows of a table side by side: row r of `to` gets the rows of the table at the `columns`
// indices of the input from r * columns on. kNoRow gives zeros. If the input has weights, a row of
// the table is multiplied by its weight and added to 0.
struct Gather {
  std::size_t width = 0;  // width of a row of the table
  std::size_t columns = 0;
  std::size_t rows = 0;  // the input
  Region table;
  Region to;
};

// Each row of the table's gradient = the sum of the gradients of its copies, times their weights;
// += this sum with `accumulate`. Additions are in the order of the indices. With weights, they go
// from group to group of `group` columns, in a group from row to row of the run, and in a row from
// column to column.
struct GatherBackward {
  std::size_t width = 0;
  std::size_t columns = 0;
  std::size_t group = 0;
  std::size_t rows = 0;  // the input
  Region gradient;
  Region table_gradient;
  bool accumulate = false;
};

// Sums rows of a table: bag s * (rows of the run) + r of the input gives row r of `to`, columns
// from s * width. The result is the sum of the bag's rows, in order and times their weights, times
// the bag's scale.
struct Pool {
  std::size_t width = 0;
  std::size_t slots = 0;
  std::size_t bags = 0;  // the input
  Region table;
  Region to;
};

// Each row of the table's gradient = the sum of the gradients of the bags that contain it, times
// scale and weight, in the order of the indices; += this sum with `accumulate`.
struct PoolBackward {
  std::size_t width = 0;
  std::size_t slots = 0;
  std::size_t bags = 0;  // the input
  Region gradient;
  Region table_gradient;
  bool accumulate = false;
};

// to = (from - mean) * inverse * gain + bias with inverse = 1 / sqrt(variance + epsilon), for each
// row separately. `statistics` keeps two floats per row for the backward.
struct LayerNorm {
  std::size_t width = 0;
  Region from;
  Region gain;
  Region bias;
  Region to;
  Region statistics;
  float epsilon = 0;
};

// Adds to the gradients of `gain` and `bias`, in the order of the rows.
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

// Vectors of factors of a factorisation machine, one for each field, side by side.
struct Fields {
  std::size_t fields = 0;
  Region region;
};

// One float per row: the sum of the inner products of all pairs of fields. `sums` has `factors`
// columns and keeps the sum over all fields for the backward.
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

// One float per row: scale * cosine of the angle between a and b; 0 where one of them is zero.
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
// others, where s = x . weight[row of the candidate] + bias - scale of the candidate. A candidate
// with kNoRow takes no part. slopes = cost_scale * d cost / d s; 0 for a candidate that takes no
// part.
struct SampledCost {
  std::size_t width = 0;
  std::size_t candidates = 0;
  std::size_t rows = 0;  // the input: one index for each candidate, or two with a bias
  Region x;
  Region weight;
  std::optional<Region> bias = {};
  Region slopes;  // has `candidates` columns
  std::size_t cost = 0;
};

// Adds to the gradients of weight and bias, in the order of the candidates of each row.
struct SampledCostBackward {
  std::size_t width = 0;
  std::size_t candidates = 0;
  std::size_t rows = 0;  // the input
  Region x;
  Region weight;
  Region slopes;
  Region x_gradient;
  bool accumulate = false;  // applies to x_gradient
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
  // Executors fill the inputs in this order, so that the first error is the same as in
  // Network::forward.
  std::vector<std::unique_ptr<const BatchInput>> inputs;
  std::vector<Buffer> buffers;
  std::vector<Op> forward;
  std::vector<Op> backward;  // runs after the forward, in training; empty for predictions

  // Results of the forward other than the outputs.
  std::vector<std::size_t> costs;        // layer of each cost; a cost is summed over the rows
  std::vector<std::size_t> predictions;  // layer of each array with the indexes of largest outputs
  // Indexed by layer; empty for a cost, and for a layer whose outputs no op uses.
  std::vector<std::optional<Region>> outputs;
  // Indexed by parameter; empty if there is no backward.
  std::vector<std::optional<Region>> parameter_gradients;
  std::vector<bool> is_static;  // by parameter: its gradient is computed, but not looked at
};

}  // namespace paddle::nn

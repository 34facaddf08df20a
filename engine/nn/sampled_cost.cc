// nce and negative_sampling: the cost of distinguishing the label from `negatives` randomly drawn
// classes, instead of a softmax over all classes. Both read rows of a sparse table by class, so
// only the rows of a batch's classes are transferred.
//   score s(c) = input . weight[c] + bias[c]
//   negative_sampling (Mikolov et al. 2013, eq. 4):
//     softplus(-s(label)) + sum softplus(s(negative)), without negatives that are the label
//   nce (Gutmann and Hyvarinen 2012; Mnih and Teh 2012):
//     the same formula with s(c) - ln(negatives * q(c)) in place of s(c) and with all negatives,
//     where q is the distribution of the draws, so that s learns ln p(label | input)
// Draws are a function of the seed and the example's index in the batch. A test draws negatives
// too, so its cost can be compared with the cost of training, but not with that of a softmax.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/rng.h"
#include "engine/math/costs.h"
#include "engine/math/portable_math.h"
#include "engine/math/row_wise.h"
#include "engine/math/rows.h"
#include "engine/nn/labels.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"
#include "engine/nn/run.h"
#include "engine/nn/sampler.h"

namespace paddle::nn {
namespace {

constexpr std::uint32_t kNegativesDefault = 10;
constexpr std::size_t kCandidatesAtOnce = 256;  // whose costs are computed together

// Candidate classes of a sampled cost: the label of an example, and classes drawn at random.
class Candidates {
 public:
  // `corrected`: for nce, which corrects scores by the probability of a draw.
  Candidates(Sampler sampler, std::size_t negatives, bool corrected)
      : sampler_(std::move(sampler)), negatives_(negatives), corrected_(corrected) {}

  // The label is the first candidate, the negatives follow.
  std::size_t size() const { return 1 + negatives_; }
  bool corrected() const { return corrected_; }
  // Random numbers for the negatives of one example of a layer: one for each, in their order.
  // `layer` is the stable_hash() of its name.
  static Rng draws(std::uint64_t seed, std::uint64_t layer, std::size_t example) {
    return Rng(example_stream(seed, layer, example));
  }
  std::uint64_t draw(Rng& rng) const { return sampler_.draw(rng.next()); }
  // Whether candidate number k takes no part: a negative that is the label, except in nce.
  bool is_left_out(std::size_t k, std::uint64_t id, std::uint64_t label) const {
    return k > 0 && id == label && !corrected_;
  }
  // Number to subtract from the score of a candidate.
  float correction(std::uint64_t id) const {
    if (!corrected_) return 0;
    return static_cast<float>(
        kernels::logarithm(static_cast<double>(negatives_) * sampler_.probability(id)));
  }

 private:
  Sampler sampler_;
  std::size_t negatives_;
  bool corrected_;
};

// Turns the candidates of a sampled cost into arrays for op::SampledCost. Fills `indices`: for each
// candidate of each example the row of its weight and, if there is a bias, the row of its bias;
// both are kNoRow for a candidate that takes no part. For nce, also fills `scales` with the
// corrections of all candidates.
class CandidateRows final : public BatchInput {
 public:
  struct Options {
    std::string layer;  // its random stream gives the draws
    std::size_t weight = 0;
    std::optional<std::size_t> bias;
  };

  CandidateRows(Options options, Labels labels, Candidates candidates)
      : options_(std::move(options)),
        labels_(std::move(labels)),
        candidates_(std::move(candidates)) {}

  Status fill(const Run& run, InputArrays& arrays) const override;

 private:
  Options options_;
  Labels labels_;
  Candidates candidates_;
};

Status CandidateRows::fill(const Run& run, InputArrays& arrays) const {
  arrays.indices.clear();
  arrays.scales.clear();
  const auto put_row = [&](std::size_t parameter, std::uint64_t id) {
    const std::size_t row = run.parameters.sparse[parameter].row_of(id);
    arrays.indices.push_back(static_cast<std::uint32_t>(row));
  };
  const std::uint64_t layer = stable_hash(options_.layer);
  for (std::size_t example = run.begin; example < run.end; ++example) {
    PADDLE_TRY(const std::uint64_t label, labels_.class_of(run, example));
    Rng rng = Candidates::draws(run.seed, layer, example);
    for (std::size_t k = 0; k < candidates_.size(); ++k) {
      const std::uint64_t id = k == 0 ? label : candidates_.draw(rng);
      if (candidates_.corrected()) arrays.scales.push_back(candidates_.correction(id));
      if (candidates_.is_left_out(k, id, label)) {
        arrays.indices.insert(arrays.indices.end(), options_.bias ? 2 : 1, kernels::kNoRow);
        continue;
      }
      put_row(options_.weight, id);
      if (options_.bias) put_row(*options_.bias, id);
    }
  }
  return {};
}

class SampledCost final : public Layer {
 public:
  struct Options {
    LayerInput input;
    std::size_t weight = 0;
    std::optional<std::size_t> bias;
    std::size_t classes = 0;
    std::size_t label_slot = 0;
  };

  SampledCost(const Builder& builder, Options options, Labels labels, Candidates candidates)
      : Layer(builder.config().name, builder.index(), 0),
        options_(options),
        labels_(std::move(labels)),
        candidates_(std::move(candidates)) {}

  // Keeps for backward() the rows of each candidate's weight and bias, and the derivatives of the
  // cost with respect to the scores.
  Status forward(const Run& run, LayerAccess access, double& cost_sum) const override {
    float* const logits = access.scratch(index(), run.rows() * candidates());
    PADDLE_TRY_STATUS(score(run, access, logits));
    const std::size_t rows_each = options_.bias ? 2 : 1;
    const std::uint32_t* const positions = access.positions(index()).data();
    // All at once, because vectors compute logarithms of several candidates in the time of one.
    std::array<float, kCandidatesAtOnce> labels;
    std::array<double, kCandidatesAtOnce> costs;
    double cost = 0;  // of one example
    // Counted, because a division for each candidate takes as long as its cost.
    const auto next = [each = candidates()](std::size_t k) { return k + 1 == each ? 0 : k + 1; };
    std::size_t k = 0;  // number of a candidate among those of its example; 0: the label
    const std::size_t count = run.rows() * candidates();
    for (std::size_t first = 0; first < count; first += kCandidatesAtOnce) {
      const std::size_t size = std::min(kCandidatesAtOnce, count - first);
      std::size_t ahead = k;
      for (std::size_t i = 0; i < size; ++i, ahead = next(ahead))
        labels[i] = ahead == 0 ? 1.0F : 0.0F;
      float* const slopes = logits + first;
      kernels::candidate_costs(size, labels.data(), run.cost_scale, costs.data(), slopes);
      for (std::size_t i = 0; i < size; ++i, k = next(k)) {
        if (k == 0) {
          cost_sum += cost;
          cost = 0;
        }
        const bool is_left_out = positions[(first + i) * rows_each] == kernels::kNoRow;
        cost += is_left_out ? 0.0 : costs[i];
        slopes[i] = is_left_out ? 0.0F : slopes[i];
      }
    }
    cost_sum += cost;
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    const std::size_t width = options_.input.width;
    const std::size_t rows_each = options_.bias ? 2 : 1;
    const std::uint32_t* position = access.positions(index()).data();
    const float* slope = access.scratch(index(), run.rows() * candidates());
    const float* x = access.output(options_.input.layer);
    const float* weights = run.parameters.sparse[options_.weight].values.data();
    float* weight_gradient = access.zeroed_parameter_gradient(options_.weight);
    float* bias_gradient =
        options_.bias ? access.zeroed_parameter_gradient(*options_.bias) : nullptr;
    float* x_gradient = access.output_gradient(options_.input.layer);
    if (!access.claim_output_gradient(options_.input.layer)) {
      std::fill_n(x_gradient, run.rows() * width, 0.0F);
    }
    for (std::size_t row = 0; row < run.rows(); ++row, x += width, x_gradient += width) {
      kernels::dots_backward(width, x, weights, candidates(), position, rows_each, slope,
                             x_gradient, weight_gradient);
      for (std::size_t k = 0; k < candidates(); ++k, ++slope, position += rows_each) {
        if (bias_gradient == nullptr || *position == kernels::kNoRow) continue;
        bias_gradient[position[1]] += *slope;
      }
    }
  }

  void collect_ids(const Batch& batch, std::uint64_t seed,
                   std::span<TableReads> by_parameter) const override {
    auto& into = by_parameter[options_.weight].own();
    const std::size_t before = into.size();
    for (const std::uint64_t label : batch.slots[options_.label_slot].ids) {
      if (label < options_.classes) into.push_back(label);  // forward() reports other labels
    }
    std::size_t at = into.size();
    into.resize(at + batch.size * (candidates() - 1));
    const std::uint64_t layer = stable_hash(name());
    for (std::size_t example = 0; example < batch.size; ++example) {
      Rng rng = Candidates::draws(seed, layer, example);
      for (std::size_t k = 1; k < candidates(); ++k) into[at++] = candidates_.draw(rng);
    }
    if (!options_.bias) return;
    const std::vector<std::uint64_t> added(into.begin() + static_cast<std::ptrdiff_t>(before),
                                           into.end());
    auto& biases = by_parameter[*options_.bias].own();
    biases.insert(biases.end(), added.begin(), added.end());
  }

  void lower(Lowering& lowering) const override {
    const std::size_t input = lowering.add_input(std::make_unique<CandidateRows>(
        CandidateRows::Options{name(), options_.weight, options_.bias}, labels_, candidates_));
    op::SampledCost cost{.width = options_.input.width,
                         .candidates = candidates(),
                         .rows = input,
                         .x = lowering.output(options_.input.layer),
                         .weight = lowering.parameter(options_.weight),
                         .slopes = lowering.scratch(index(), candidates()),
                         .cost = lowering.add_cost(index())};
    if (options_.bias) cost.bias = lowering.parameter(*options_.bias);
    lowering.emit(cost);
    lowering.at_backward([this, &lowering, cost] { lower_backward(lowering, cost); });
  }

 private:
  std::size_t candidates() const { return candidates_.size(); }

  // Writes the logit of each candidate, and 0 for one that takes no part. Keeps their rows.
  Status score(const Run& run, LayerAccess access, float* logits) const {
    const std::size_t width = options_.input.width;
    const float* x = access.output(options_.input.layer);
    const auto& weights = run.parameters.sparse[options_.weight];
    auto& positions = access.positions(index());
    const std::size_t rows_each = options_.bias ? 2 : 1;
    positions.assign(run.rows() * candidates() * rows_each, kernels::kNoRow);
    std::vector<float> corrections(candidates());
    std::uint32_t* position = positions.data();
    const std::uint64_t layer = stable_hash(name());
    for (std::size_t row = 0; row < run.rows(); ++row, x += width) {
      PADDLE_TRY(const std::uint64_t label, labels_.class_of(run, run.begin + row));
      Rng rng = Candidates::draws(run.seed, layer, run.begin + row);
      const std::uint32_t* own = position;  // the rows of this example's candidates
      for (std::size_t k = 0; k < candidates(); ++k, position += rows_each) {
        const std::uint64_t id = k == 0 ? label : candidates_.draw(rng);
        corrections[k] = candidates_.correction(id);
        if (candidates_.is_left_out(k, id, label)) continue;
        position[0] = static_cast<std::uint32_t>(weights.row_of(id));
        if (options_.bias) {
          const auto& biases = run.parameters.sparse[*options_.bias];
          position[1] = static_cast<std::uint32_t>(biases.row_of(id));
        }
      }
      kernels::dots(width, x, weights.values.data(), candidates(), own, rows_each, logits);
      for (std::size_t k = 0; k < candidates(); ++k, ++logits, own += rows_each) {
        if (own[0] == kernels::kNoRow) continue;
        if (options_.bias) *logits += run.parameters.sparse[*options_.bias].values[own[1]];
        *logits -= corrections[k];
      }
    }
    return {};
  }

  void lower_backward(Lowering& lowering, const op::SampledCost& cost) const {
    op::SampledCostBackward backward{
        .width = cost.width,
        .candidates = cost.candidates,
        .rows = cost.rows,
        .x = cost.x,
        .weight = cost.weight,
        .slopes = cost.slopes,
        .x_gradient = lowering.output_gradient(options_.input.layer),
        .accumulate = lowering.claim_output_gradient(options_.input.layer),
        .weight_gradient = lowering.zeroed_parameter_gradient(options_.weight)};
    if (options_.bias) {
      backward.bias_gradient = lowering.zeroed_parameter_gradient(*options_.bias);
    }
    lowering.emit(backward);
  }

  Options options_;
  Labels labels_;
  Candidates candidates_;
};

Result<Sampler> make_sampler(Builder& builder) {
  const config::LayerConfig& config = builder.config();
  if (config.distribution.empty() || config.distribution == "uniform") {
    if (!config.counts.empty()) {
      return builder.error("key 'counts' needs distribution = \"unigram\"");
    }
    return Sampler::uniform(config.vocabulary);
  }
  if (config.distribution != "unigram") {
    return builder.error(fmt::format("unknown distribution '{}'", config.distribution),
                         "distributions are uniform, unigram");
  }
  if (config.counts.size() != config.vocabulary) {
    return builder.error(fmt::format("'counts' has {} lines, but there are {} classes",
                                     config.counts.size(), config.vocabulary),
                         "write one line for each class, with the count as its last word");
  }
  return builder.unigram_sampler();
}

LayerResult make_sampled(Builder& builder, bool corrected) {
  const config::LayerConfig& config = builder.config();
  PADDLE_TRY_STATUS(builder.check_input_count(1, 1));
  if (builder.weight_slot()) {
    return builder.error("this cost takes no weights of examples",
                         "remove [data] weight, or use softmax_cross_entropy");
  }
  PADDLE_TRY(const LayerInput input, builder.layer_input(config.inputs[0]));
  if (config.vocabulary == 0) return builder.error("key 'vocabulary' is missing: the classes");
  PADDLE_TRY(Labels labels, Labels::make(builder, config.vocabulary, true));
  PADDLE_TRY(SlotRule rule, labels.class_rule(builder));
  builder.add_rule(std::move(rule));
  PADDLE_TRY(Sampler sampler, make_sampler(builder));
  SampledCost::Options options;
  options.input = input;
  options.classes = config.vocabulary;
  const std::size_t negatives = config.negatives > 0 ? config.negatives : kNegativesDefault;
  PADDLE_TRY(options.label_slot, builder.slot(config.label, "label"));
  config::ParameterAttributes weight = config.weight;
  weight.sparse = true;
  PADDLE_TRY(options.weight, builder.parameter({weight,
                                                fmt::format("_{}.w0", config.name),
                                                {0, input.width},
                                                1.0 / std::sqrt(static_cast<double>(input.width)),
                                                config.vocabulary}));
  if (config.has_bias) {
    config::ParameterAttributes bias = config.bias;
    bias.sparse = true;
    PADDLE_TRY(options.bias,
               builder.parameter(
                   {bias, fmt::format("_{}.wbias", config.name), {0, 1}, 0.0, config.vocabulary}));
    if (*options.bias == options.weight) {
      return builder.error("weight and bias must have different names");
    }
  }
  return LayerResult(std::make_unique<SampledCost>(
      builder, options, std::move(labels), Candidates(std::move(sampler), negatives, corrected)));
}

}  // namespace

LayerResult make_nce(Builder& builder) {
  return make_sampled(builder, true);
}

LayerResult make_negative_sampling(Builder& builder) {
  return make_sampled(builder, false);
}

}  // namespace paddle::nn

#include "engine/nn/network.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/named_rows.h"
#include "engine/config/layer_keys.h"
#include "engine/nn/builder.h"
#include "engine/nn/ids.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

// Calls the maker of the builder's current type.
template <class Made>
Made make(Builder& builder, std::span<const Maker<Made>> makers) {
  const std::string& type = builder.config().type;
  if (const Maker<Made>* const maker = find_row(makers, type)) return maker->make(builder);
  const auto types = row_names(makers);
  return builder.error(fmt::format("unknown type '{}'{}", type, did_you_mean(type, types)),
                       fmt::format("types are {}", fmt::join(types, ", ")));
}

// Builder of a whole network: finds each type in its table, makes layers and evaluators in order,
// and checks that every output is read and a cost exists.
class NetworkBuilder : public Builder {
 public:
  using Builder::Builder;

  // `output` is empty, or names a layer with outputs, which the caller reads. kUsage: names the
  // layer and the key.
  Status build_layers(const std::string& output = "");
  // Builds the default evaluators of each cost if `evaluators` is empty. REQUIRES: build_layers()
  // has succeeded.
  Status build_evaluators(std::vector<config::LayerConfig> evaluators);

  std::vector<std::unique_ptr<Evaluator>> take_evaluators() { return std::move(evaluators_); }

 private:
  Status build_layer(const config::LayerConfig& config);
  Status build_evaluator(const config::LayerConfig& config);
  Status add_reader(const std::string& output);
  Status check_use();
  std::vector<config::LayerConfig> default_evaluators() const;

  std::size_t data_layers_ = 0;  // float slots are the first layers
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
};

Status NetworkBuilder::build_layers(const std::string& output) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].width > 0) add(make_data(slots_[i], index(), i));
  }
  data_layers_ = index();
  for (const config::LayerConfig& config : configs_) {
    begin(config, "layer");
    PADDLE_TRY_STATUS(build_layer(config));
  }
  if (!output.empty()) PADDLE_TRY_STATUS(add_reader(output));
  PADDLE_TRY_STATUS(check_use());
  for (const auto& layer : layers()) layer->set_consumers(consumers());
  return {};
}

Status NetworkBuilder::build_layer(const config::LayerConfig& config) {
  if (config.name.empty()) {
    return Error{Errc::kUsage,
                 fmt::format("layer number {} has no name", index() - data_layers_ + 1)};
  }
  for (const config::SlotConfig& slot : slots_) {
    if (slot.name == config.name) return error("a data slot has the same name");
  }
  for (const auto& earlier : layers()) {
    if (earlier->name() == config.name) return error("another layer has the same name");
  }
  const bool is_known = find_row(config::layer_types(), config.type) != nullptr;
  const auto complaint = is_known ? config::misplaced_key(config) : std::nullopt;
  if (complaint) return error(*complaint);
  PADDLE_TRY(std::unique_ptr<Layer> made, make<LayerResult>(*this, kLayerMakers));
  add(std::move(made));
  return {};
}

Status NetworkBuilder::add_reader(const std::string& output) {
  std::vector<std::string_view> names;
  for (const auto& layer : layers()) {
    const bool has_output = layer->width() > 0;
    if (has_output) names.push_back(layer->name());
    if (layer->name() != output) continue;
    if (has_output) {
      add_consumer(layer->index());
      return {};
    }
    return Error{Errc::kUsage, fmt::format("layer '{}' is a cost, which has no output", output),
                 fmt::format("layers with outputs are {}", fmt::join(names, ", "))};
  }
  return Error{Errc::kUsage, fmt::format("no layer '{}'{}", output, did_you_mean(output, names)),
               fmt::format("layers with outputs are {}", fmt::join(names, ", "))};
}

// Every output must be read, and there must be a cost.
Status NetworkBuilder::check_use() {
  const auto all = layers();
  bool has_cost = false;
  for (std::size_t i = data_layers_; i < all.size(); ++i) {
    const bool is_cost = all[i]->width() == 0;
    has_cost = has_cost || is_cost;
    if (!is_cost && consumers()[i] == 0) {
      begin(configs_[i - data_layers_], "layer");
      return error("no other layer reads it",
                   "name it in the input of another layer, or remove it");
    }
  }
  if (has_cost) return {};
  std::vector<std::string_view> types;
  for (const config::TypeKeys& type : config::layer_types()) {
    if (type.reads("label")) types.push_back(type.name);
  }
  return Error{Errc::kUsage, "the network has no cost layer",
               fmt::format("end it with a layer of type {} or {}",
                           fmt::join(types.begin(), types.end() - 1, ", "), types.back())};
}

Status NetworkBuilder::build_evaluators(std::vector<config::LayerConfig> evaluators) {
  if (evaluators.empty()) evaluators = default_evaluators();
  std::vector<std::uint32_t> readers(consumers().begin(), consumers().end());
  for (const config::LayerConfig& config : evaluators) {
    begin(config, "evaluator");
    PADDLE_TRY_STATUS(build_evaluator(config));
    for (const auto& layer : layers()) {
      if (std::ranges::find(config.inputs, layer->name()) != config.inputs.end()) {
        ++readers[layer->index()];
      }
    }
  }
  for (const auto& layer : layers()) layer->redirect_inputs(layers(), readers);
  return {};
}

Status NetworkBuilder::build_evaluator(const config::LayerConfig& config) {
  for (const auto& earlier : evaluators_) {
    if (earlier->name() == config.name) {
      return error("another evaluator has the same name");
    }
  }
  PADDLE_TRY(std::unique_ptr<Evaluator> made, make<EvaluatorResult>(*this, kEvaluatorMakers));
  evaluators_.push_back(std::move(made));
  return {};
}

// A second evaluator of one type gets the name "<type>_<cost>", which no other evaluator has.
std::vector<config::LayerConfig> NetworkBuilder::default_evaluators() const {
  std::vector<config::LayerConfig> found;
  for (std::size_t i = 0; i < configs_.size(); ++i) {
    const config::LayerConfig& cost = configs_[i];
    for (const std::string_view type : layers()[data_layers_ + i]->default_evaluators()) {
      config::LayerConfig evaluator;
      evaluator.type = evaluator.name = type;
      for (const config::LayerConfig& other : found) {
        if (other.name == type) evaluator.name = fmt::format("{}_{}", type, cost.name);
      }
      const bool reads_cost = !find_row(config::evaluator_types(), type)->reads("label");
      evaluator.inputs = reads_cost ? std::vector<std::string>{cost.name} : cost.inputs;
      if (!reads_cost) evaluator.label = cost.label;
      found.push_back(std::move(evaluator));
    }
  }
  return found;
}

}  // namespace

Result<Network> Network::build(const std::vector<config::LayerConfig>& layers,
                               const std::vector<config::SlotConfig>& slots,
                               const std::vector<config::LayerConfig>& evaluators,
                               const std::string& output) {
  NetworkBuilder builder(layers, slots);
  PADDLE_TRY_STATUS(builder.build_layers(output));
  PADDLE_TRY_STATUS(builder.build_evaluators(evaluators));
  Network network;
  network.layers_ = builder.take_layers();
  network.rules_ = builder.take_rules();
  if (output.empty()) {
    network.use_all();
    network.evaluators_ = builder.take_evaluators();
  } else {
    network.use_for(layers, output);
  }
  std::size_t counts = 0;
  std::size_t sums = 0;
  std::size_t histograms = 0;
  std::size_t grouped = 0;
  for (const auto& evaluator : network.evaluators_) {
    counts += evaluator->counts();
    sums += evaluator->sums();
    histograms += evaluator->histograms();
    grouped += evaluator->grouped();
  }
  if (histograms > kTallyHistogramsMax) {
    return Error{Errc::kUsage,
                 fmt::format("there are {} evaluators of types auc, pr_auc and calibration; the "
                             "limit is {}",
                             histograms, kTallyHistogramsMax),
                 "use fewer of them"};
  }
  if (grouped > kTallyGroupedMax) {
    return Error{Errc::kUsage,
                 fmt::format("there are {} evaluators of type gauc; the limit is {}", grouped,
                             kTallyGroupedMax),
                 "use fewer of them"};
  }
  if (counts + sums > kTallyEntriesMax) {
    return Error{Errc::kUsage,
                 fmt::format("the evaluators need {} counters; the limit is {}", counts + sums,
                             kTallyEntriesMax),
                 "use fewer of them"};
  }
  network.empty_tally_.counts.resize(counts);
  network.empty_tally_.sums.resize(sums);
  network.empty_tally_.histograms.resize(histograms);
  network.empty_tally_.grouped.resize(grouped);
  network.parameters_ = builder.take_parameters();
  network.vocabularies_ = builder.take_vocabularies();
  network.slots_ = slots;
  return network;
}

void Network::use_all() {
  for (const auto& layer : layers_) used_.push_back(layer.get());
}

// Goes from the last layer to the first, because every layer comes after the layers it depends on.
void Network::use_for(const std::vector<config::LayerConfig>& configs, const std::string& output) {
  std::set<std::string> names{output};
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    const std::string& name = (*layer)->name();
    if (!names.contains(name)) continue;
    if (name == output) output_ = (*layer)->index();
    used_.push_back(layer->get());
    const auto config = std::ranges::find(configs, name, &config::LayerConfig::name);
    if (config != configs.end()) names.insert(config->inputs.begin(), config->inputs.end());
  }
  std::ranges::reverse(used_);
  std::erase_if(rules_, [&](const SlotRule& rule) {
    return rule.is_label || std::ranges::find(used_, rule.layer, &Layer::name) == used_.end();
  });
}

std::span<const float> Network::output(const Workspace& workspace) const {
  return workspace.layers_[output_].output;
}

Status Network::check(const Batch& batch) const {
  if (batch.slots.size() != slots_.size()) {
    return Error{Errc::kData, fmt::format("a batch has {} slots, but the network reads {}",
                                          batch.slots.size(), slots_.size())};
  }
  for (std::size_t i = 0; i < batch.slots.size(); ++i) {
    const Slot& slot = batch.slots[i];
    const std::size_t values = batch.size * slots_[i].width;
    if (slot.values.size() != values || (values > 0 && !slot.ids.empty())) {
      return Error{
          Errc::kData,
          fmt::format(
              "slot '{}': {} ids and {} floats do not match {} examples with {} floats each",
              slots_[i].name, slot.ids.size(), slot.values.size(), batch.size, slots_[i].width)};
    }
    if (slots_[i].width > 0) continue;
    std::size_t expected = batch.size;
    bool good = true;
    if (!slot.offsets.empty()) {
      good = slot.offsets.size() == batch.size + 1 && slot.offsets.front() == 0 &&
             std::is_sorted(slot.offsets.begin(), slot.offsets.end());
      expected = slot.offsets.back();
    }
    if (!good || slot.ids.size() != expected) {
      return Error{Errc::kData,
                   fmt::format("slot '{}': {} ids and {} offsets do not match {} examples",
                               slots_[i].name, slot.ids.size(), slot.offsets.size(), batch.size)};
    }
    if (!slot.weights.empty() && slot.weights.size() != slot.ids.size()) {
      return Error{Errc::kData, fmt::format("slot '{}': {} weights for {} ids", slots_[i].name,
                                            slot.weights.size(), slot.ids.size())};
    }
  }
  return {};
}

void Network::collect_ids(const Batch& batch, std::uint64_t seed,
                          std::span<std::vector<std::uint64_t>> ids_by_parameter,
                          std::vector<TableReads>& memory, ThreadTeam* team) const {
  PADDLE_CHECK(ids_by_parameter.size() == parameters_.size());
  PADDLE_CHECK(batch.slots.size() == slots_.size());
  memory.resize(parameters_.size());
  for (const Layer* layer : used_) layer->collect_ids(batch, seed, memory);
  for (std::size_t p = 0; p < memory.size(); ++p) memory[p].sort_into(ids_by_parameter[p], team);
}

void Network::prepare(const Run& run, Workspace& workspace) const {
  PADDLE_CHECK(run.begin <= run.end && run.end <= run.batch.size);
  PADDLE_CHECK(run.parameters.dense.size() == parameters_.size());
  PADDLE_CHECK(run.parameters.sparse.size() == parameters_.size());
  workspace.layers_.resize(layers_.size());
  workspace.gradients_.resize(parameters_.size());
  for (const Layer* layer : used_) {
    const std::size_t count = run.rows() * layer->width();
    workspace.layers_[layer->index()].output.resize(count);
    if (run.mode == Mode::kTrain) workspace.layers_[layer->index()].gradient.resize(count);
  }
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    std::size_t count = 0;
    if (parameters_[p].sparse()) {
      const SparseView& view = run.parameters.sparse[p];
      count = view.ids.size() * parameters_[p].dims(1);
      PADDLE_CHECK(view.values.size() == count);
    } else {
      count = element_count(parameters_[p]);
      PADDLE_CHECK(run.parameters.dense[p].size() == count);
    }
    if (run.mode != Mode::kTrain) continue;
    Workspace::Gradient& gradient = workspace.gradients_[p];
    // The rows of a table stay the same until the next clear_gradients.
    PADDLE_CHECK(!gradient.written || gradient.values().size() == count);
    PADDLE_CHECK(gradient.buffer.empty() || gradient.buffer.size() == count);
    if (gradient.buffer.empty()) gradient.own.resize(count);
  }
}

Result<double> Network::forward(const Run& run, Workspace& workspace) const {
  PADDLE_TRY_STATUS(check(run.batch));
  prepare(run, workspace);
  for (Workspace::LayerState& state : workspace.layers_) {
    state.predictions.clear();
    state.cost = 0;
  }
  double cost_sum = 0;
  for (const Layer* layer : used_) {
    double& cost = workspace.layers_[layer->index()].cost;
    PADDLE_TRY_STATUS(layer->forward(run, LayerAccess(workspace), cost));
    cost_sum += cost;
  }
  PADDLE_TRY_STATUS(evaluate(run, workspace));
  return cost_sum;
}

// In training the model changes from batch to batch, and a tally is made for every batch, so
// coarser histograms and fewer groups are enough.
Status Network::evaluate(const Run& run, Workspace& workspace) const {
  constexpr std::size_t kEntriesInTraining = 1U << 12U;
  Tally& tally = workspace.tally_;
  tally = empty_tally_;
  if (run.mode == Mode::kTrain) {
    std::ranges::fill(tally.histograms, ScoreHistogram(kEntriesInTraining));
    std::ranges::fill(tally.grouped, GroupedScores(GroupedScores::kSentMax));
  }
  Counters left{tally.counts, tally.sums, tally.histograms, tally.grouped};
  for (const auto& evaluator : evaluators_) {
    PADDLE_TRY_STATUS(evaluator->count(
        run, LayerAccess(workspace),
        {left.counts.first(evaluator->counts()), left.sums.first(evaluator->sums()),
         left.histograms.first(evaluator->histograms()),
         left.grouped.first(evaluator->grouped())}));
    left = {left.counts.subspan(evaluator->counts()), left.sums.subspan(evaluator->sums()),
            left.histograms.subspan(evaluator->histograms()),
            left.grouped.subspan(evaluator->grouped())};
  }
  return {};
}

std::vector<std::size_t> Network::evaluated(const Plan& plan, Evaluator::Reads reads) const {
  std::set<std::size_t> layers;
  for (const auto& evaluator : evaluators_) {
    const std::size_t layer = evaluator->layer();
    Evaluator::Reads own = evaluator->reads();
    const bool has_predictions =
        std::ranges::find(plan.predictions, layer) != plan.predictions.end();
    if (own == Evaluator::Reads::kPredictions && !has_predictions) own = Evaluator::Reads::kOutputs;
    if (own == reads) layers.insert(layer);
  }
  return {layers.begin(), layers.end()};
}

std::vector<std::size_t> Network::evaluated_outputs(const Plan& plan) const {
  return evaluated(plan, Evaluator::Reads::kOutputs);
}

std::vector<std::size_t> Network::evaluated_predictions(const Plan& plan) const {
  return evaluated(plan, Evaluator::Reads::kPredictions);
}

Result<Tally> Network::count(const Run& run, const ForwardResults& results,
                             Workspace& workspace) const {
  workspace.layers_.resize(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Workspace::LayerState& state = workspace.layers_[i];
    state.output.assign(results.outputs[i].begin(), results.outputs[i].end());
    state.predictions.assign(results.predictions[i].begin(), results.predictions[i].end());
    state.cost = results.costs[i];
  }
  PADDLE_TRY_STATUS(evaluate(run, workspace));
  return workspace.tally_;
}

std::vector<Value> Network::values(const Tally& tally) const {
  const Tally& own = tally.empty() ? empty_tally_ : tally;
  PADDLE_CHECK(own.same_shape(empty_tally_));
  Totals left{own.counts, own.sums, own.histograms, own.grouped};
  std::vector<Value> found;
  for (const auto& evaluator : evaluators_) {
    evaluator->values(
        {left.counts.first(evaluator->counts()), left.sums.first(evaluator->sums()),
         left.histograms.first(evaluator->histograms()), left.grouped.first(evaluator->grouped())},
        found);
    left = {left.counts.subspan(evaluator->counts()), left.sums.subspan(evaluator->sums()),
            left.histograms.subspan(evaluator->histograms()),
            left.grouped.subspan(evaluator->grouped())};
  }
  return found;
}

void Network::backward(const Run& run, Workspace& workspace) const {
  PADDLE_CHECK(run.mode == Mode::kTrain && workspace.layers_.size() == layers_.size());
  for (Workspace::LayerState& state : workspace.layers_) state.is_gradient_written = false;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    (*layer)->backward(run, LayerAccess(workspace));
  }
}

Plan Network::lower() const {
  Lowering lowering(layers_, parameters_);
  for (const Layer* layer : used_) layer->lower(lowering);
  // Every network has a cost, and a network for predictions does not use it.
  const bool is_for_predictions = used_.size() < layers_.size();
  return is_for_predictions ? lowering.take_forward() : lowering.take();
}

}  // namespace paddle::nn

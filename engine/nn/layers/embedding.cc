// embedding: rows of a table by id, side by side in the output for several slots.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "engine/kernels/rows.h"
#include "engine/nn/layers/row_inputs.h"
#include "engine/nn/makers.h"
#include "engine/nn/plan/lowering.h"

namespace paddle::nn {
namespace {

using Bag = TableRows::Bag;

class Embedding final : public Layer {
 public:
  // `size`: floats in a row.
  Embedding(const Builder& builder, TableRows rows, std::size_t size)
      : Layer(builder.config().name, builder.index(), rows.slots() * rows.options().length * size),
        rows_(std::move(rows)),
        size_(size),
        slice_{index(), 0, width()} {}

  bool redirect_output(const OutputSlice& slice) override {
    slice_ = slice;
    return true;
  }

  Status forward(const Run& run, LayerAccess access, double&) const override {
    auto& positions = access.positions(index());
    auto& starts = access.starts(index());
    starts.clear();
    const float* table = options().sparse ? run.parameters.sparse[options().parameter].values.data()
                                          : run.parameters.dense[options().parameter].data();
    if (is_plain(run)) {
      const std::size_t slots = options().slots.size();
      positions.resize(slots * run.rows());
      for (std::size_t i = 0; i < slots; ++i) {
        PADDLE_TRY_STATUS(rows_.locate(run, i, positions.data() + i, slots));
      }
      kernels::gather_rows(table, positions, plain_layout(),
                           access.output(slice_.layer) + slice_.offset);
      return {};
    }
    positions.clear();
    for (std::size_t i = 0; i < options().slots.size(); ++i) {
      starts.push_back(positions.size());
      const auto [first, last] = rows_.ids_of(run, i);
      positions.resize(starts[i] + (last - first));
      PADDLE_TRY_STATUS(rows_.locate(run, i, positions.data() + starts[i], 1));
    }
    for (std::size_t i = 0; i < options().slots.size(); ++i) {
      float* out = access.output(slice_.layer) + column(i);
      const auto own = std::span<const std::uint32_t>(positions).subspan(starts[i]);
      rows_.for_bags(run, i, own, [&](std::size_t row, const Bag& bag) {
        pool(table, bag, out + row * slice_.stride);
      });
    }
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    float* table = access.zeroed_parameter_gradient(options().parameter);
    const std::span<const std::uint32_t> positions = access.positions(index());
    if (is_plain(run)) {
      const float* gradient = access.output_gradient(slice_.layer) + slice_.offset;
      kernels::scatter_add_rows(gradient, plain_layout(), positions, 1.0F, nullptr, table);
      return;
    }
    // With stride 0 every row of a pooled bag gets the same gradient.
    const std::size_t stride = options().pooling == Pooling::kConcat ? size_ : 0;
    for (std::size_t i = 0; i < options().slots.size(); ++i) {
      const float* gradient = access.output_gradient(slice_.layer) + column(i);
      const auto own = positions.subspan(access.starts(index())[i]);
      rows_.for_bags(run, i, own, [&](std::size_t row, const Bag& bag) {
        kernels::scatter_add_rows(gradient + row * slice_.stride, {size_, 1, stride}, bag.positions,
                                  bag.scale, bag.weights, table);
      });
    }
  }

  void collect_ids(const Batch& batch, std::uint64_t,
                   std::span<std::vector<std::uint64_t>> ids_by_parameter) const override {
    if (!options().sparse) return;
    auto& into = ids_by_parameter[options().parameter];
    for (const std::size_t slot : options().slots) {
      const std::span ids(batch.slots[slot].ids);
      std::size_t count = into.size();
      into.resize(count + ids.size());
      for (const std::uint64_t id : ids) {
        into[count] = id;
        count += static_cast<std::size_t>(id != options().padding_id);
      }
      into.resize(count);
    }
  }

  void lower(Lowering& lowering) const override {
    const Region table = lowering.parameter(options().parameter);
    const Region to = lowering.output(slice_.layer).columns_from(slice_.offset);
    if (options().pooling == Pooling::kSum || options().pooling == Pooling::kMean) {
      const std::size_t input = lowering.add_input(std::make_unique<PooledRows>(rows_));
      lowering.emit(op::Pool{size_, rows_.slots(), input, table, to});
      lowering.at_backward([this, &lowering, input] {
        lowering.emit(op::PoolBackward{size_, rows_.slots(), input, gradient(lowering),
                                       lowering.parameter_gradient(options().parameter),
                                       lowering.claim_parameter_gradient(options().parameter)});
      });
      return;
    }
    const std::size_t columns = rows_.slots() * options().length;
    const std::size_t input = lowering.add_input(std::make_unique<GatheredRows>(rows_));
    lowering.emit(op::Gather{size_, columns, input, table, to});
    lowering.at_backward([this, &lowering, input, columns] {
      lowering.emit(op::GatherBackward{size_, columns, options().length, input, gradient(lowering),
                                       lowering.parameter_gradient(options().parameter),
                                       lowering.claim_parameter_gradient(options().parameter)});
    });
  }

 private:
  const TableRows::Options& options() const { return rows_.options(); }

  Region gradient(Lowering& lowering) const {
    return lowering.output_gradient(slice_.layer).columns_from(slice_.offset);
  }

  // First column of slot number i in a row of the slice.
  std::size_t column(std::size_t i) const { return slice_.offset + i * options().length * size_; }

  // Whether an example has one unweighted row of each slot. Positions are then ordered by example,
  // as the rows are in the output; else by slot.
  bool is_plain(const Run& run) const {
    return options().pooling == Pooling::kNone && !rows_.has_weights(run);
  }
  kernels::RowLayout plain_layout() const { return {size_, options().slots.size(), slice_.stride}; }

  void pool(const float* table, const Bag& bag, float* out) const {
    if (options().pooling != Pooling::kConcat) {
      kernels::pool_rows(table, size_, bag.positions, bag.scale, bag.weights, out);
      return;
    }
    for (std::size_t k = 0; k < bag.positions.size(); ++k) {
      kernels::pool_rows(table, size_, bag.positions.subspan(k, 1), bag.scale,
                         bag.weights == nullptr ? nullptr : bag.weights + k, out + k * size_);
    }
    std::fill(out + bag.positions.size() * size_, out + options().length * size_, 0.0F);
  }

  TableRows rows_;
  std::size_t size_;
  OutputSlice slice_;
};

Result<Pooling> parse_pooling(const Builder& builder) {
  const std::string& name = builder.config().pooling;
  if (name.empty()) return Pooling::kNone;
  if (name == "sum") return Pooling::kSum;
  if (name == "mean") return Pooling::kMean;
  if (name == "concat") return Pooling::kConcat;
  return builder.error(fmt::format("unknown pooling '{}'", name), "poolings are sum, mean, concat");
}

}  // namespace

LayerResult make_embedding(Builder& builder) {
  const config::LayerConfig& config = builder.config();
  if (config.inputs.empty()) return builder.error("key 'input' is missing");
  if (config.size == 0) return builder.error("key 'size' is missing: the length of a row");
  TableRows::Options options;
  options.layer = config.name;
  for (const std::string& input : config.inputs) {
    PADDLE_TRY(const std::size_t slot, builder.slot(input, "input", true));
    options.slots.push_back(slot);
    options.slot_names.push_back(input);
    if (config.vocabulary == 0) continue;
    builder.add_rule({.layer = config.name,
                      .subject = builder.subject(),
                      .slot_name = input,
                      .slot = slot,
                      .is_label = false,
                      .is_single = false,
                      .below = config.vocabulary,
                      .except = config.padding_id,
                      .is_binary = false});
  }
  PADDLE_TRY(options.pooling, parse_pooling(builder));
  if (options.pooling == Pooling::kConcat) {
    if (config.length == 0) {
      return builder.error("key 'length' is missing: the ids of an example that are kept");
    }
    options.length = config.length;
  } else if (config.length != 0) {
    return builder.error("key 'length' is for pooling = \"concat\"");
  }
  options.sparse = config.weight.sparse;
  options.vocabulary = config.vocabulary;
  options.padding_id = config.padding_id;
  if (!options.sparse && config.vocabulary == 0) {
    return builder.error("key 'vocabulary' is missing: the rows of a dense table",
                         "or make it sparse: weight = { sparse = true }");
  }
  // An output is one row's value, so the scale follows from the row's length instead of a fan-in.
  PADDLE_TRY(options.parameter,
             builder.parameter({config.weight,
                                "_" + config.name + ".w0",
                                {options.sparse ? 0 : config.vocabulary, config.size},
                                1.0 / std::sqrt(static_cast<double>(config.size)),
                                config.vocabulary}));
  return LayerResult(
      std::make_unique<Embedding>(builder, TableRows(std::move(options)), config.size));
}

}  // namespace paddle::nn

// embedding: rows of a table by id, side by side in the output for several slots.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "engine/kernels/rows.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

enum class Pooling { kNone, kSum, kMean, kConcat };

class Embedding final : public Layer {
 public:
  struct Options {
    std::vector<std::size_t> slots;
    std::vector<std::string> slot_names;
    std::size_t parameter = 0;
    std::size_t size = 0;
    std::uint64_t vocabulary = 0;  // 0: any id
    std::optional<std::uint64_t> padding_id;
    bool sparse = false;
    Pooling pooling = Pooling::kNone;
    std::size_t length = 1;  // rows side by side for each slot
  };

  Embedding(const Builder& builder, Options options)
      : Layer(builder.config().name, builder.index(),
              options.slots.size() * options.length * options.size),
        options_(std::move(options)),
        slice_{index(), 0, width()} {}

  bool redirect_output(const OutputSlice& slice) override {
    slice_ = slice;
    return true;
  }

  Status forward(const Run& run, LayerAccess access, double&) const override {
    auto& positions = access.positions(index());
    auto& starts = access.starts(index());
    starts.clear();
    const float* table = options_.sparse ? run.parameters.sparse[options_.parameter].values.data()
                                         : run.parameters.dense[options_.parameter].data();
    if (is_plain(run)) {
      const std::size_t slots = options_.slots.size();
      positions.resize(slots * run.rows());
      for (std::size_t i = 0; i < slots; ++i) {
        PADDLE_TRY_STATUS(locate(run, i, positions.data() + i, slots));
      }
      kernels::gather_rows(table, positions, plain_layout(),
                           access.output(slice_.layer) + slice_.offset);
      return {};
    }
    positions.clear();
    for (std::size_t i = 0; i < options_.slots.size(); ++i) {
      starts.push_back(positions.size());
      const auto [first, last] = ids_of(run, i);
      positions.resize(starts[i] + (last - first));
      PADDLE_TRY_STATUS(locate(run, i, positions.data() + starts[i], 1));
    }
    for (std::size_t i = 0; i < options_.slots.size(); ++i) {
      float* out = access.output(slice_.layer) + column(i);
      const auto own = std::span<const std::uint32_t>(positions).subspan(starts[i]);
      for_bags(run, i, own, [&](std::size_t row, const Bag& bag) {
        pool(table, bag, out + row * slice_.stride);
      });
    }
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    float* table = access.zeroed_parameter_gradient(options_.parameter);
    const std::span<const std::uint32_t> positions = access.positions(index());
    if (is_plain(run)) {
      const float* gradient = access.output_gradient(slice_.layer) + slice_.offset;
      kernels::scatter_add_rows(gradient, plain_layout(), positions, 1.0F, nullptr, table);
      return;
    }
    // With stride 0 every row of a pooled bag gets the same gradient.
    const std::size_t stride = options_.pooling == Pooling::kConcat ? options_.size : 0;
    for (std::size_t i = 0; i < options_.slots.size(); ++i) {
      const float* gradient = access.output_gradient(slice_.layer) + column(i);
      const auto own = positions.subspan(access.starts(index())[i]);
      for_bags(run, i, own, [&](std::size_t row, const Bag& bag) {
        kernels::scatter_add_rows(gradient + row * slice_.stride, {options_.size, 1, stride},
                                  bag.positions, bag.scale, bag.weights, table);
      });
    }
  }

  void collect_ids(const Batch& batch, std::uint64_t,
                   std::span<std::vector<std::uint64_t>> ids_by_parameter) const override {
    if (!options_.sparse) return;
    auto& into = ids_by_parameter[options_.parameter];
    for (const std::size_t slot : options_.slots) {
      const std::span ids(batch.slots[slot].ids);
      std::size_t count = into.size();
      into.resize(count + ids.size());
      for (const std::uint64_t id : ids) {
        into[count] = id;
        count += static_cast<std::size_t>(id != options_.padding_id);
      }
      into.resize(count);
    }
  }

 private:
  // Ids of one example in one slot; concat pooling cuts them to its length.
  struct Bag {
    std::span<const std::uint32_t> positions;
    const float* weights = nullptr;  // null: all 1
    float scale = 1;
  };

  // First column of slot number i in a row of the slice.
  std::size_t column(std::size_t i) const {
    return slice_.offset + i * options_.length * options_.size;
  }

  // Whether an example has one unweighted row of each slot. Positions are then ordered by example,
  // as the rows are in the output; else by slot.
  bool is_plain(const Run& run) const {
    return options_.pooling == Pooling::kNone &&
           std::ranges::all_of(options_.slots, [&](std::size_t slot) {
             return run.batch.slots[slot].weights.empty();
           });
  }
  kernels::RowLayout plain_layout() const {
    return {options_.size, options_.slots.size(), slice_.stride};
  }

  // Range of the ids of the run's examples in slot number i.
  std::pair<std::size_t, std::size_t> ids_of(const Run& run, std::size_t i) const {
    const auto& offsets = run.batch.slots[options_.slots[i]].offsets;
    if (offsets.empty()) return {run.begin, run.end};
    return {offsets[run.begin], offsets[run.end]};
  }

  // Writes the table row of every id of the run's examples in slot number i to every `step`th
  // position.
  Status locate(const Run& run, std::size_t i, std::uint32_t* position, std::size_t step) const {
    const Slot& slot = run.batch.slots[options_.slots[i]];
    if (options_.pooling == Pooling::kNone && !slot.offsets.empty()) {
      return Error{Errc::kData,
                   fmt::format("layer '{}': slot '{}' holds a varying number of ids per example",
                               name(), options_.slot_names[i]),
                   "give the layer pooling = \"sum\", \"mean\" or \"concat\""};
    }
    const SparseView& known = run.parameters.sparse[options_.parameter];
    const auto [first, last] = ids_of(run, i);
    for (std::size_t k = first; k < last; ++k, position += step) {
      const std::uint64_t id = slot.ids[k];
      if (id == options_.padding_id) {
        *position = kernels::kNoRow;
        continue;
      }
      if (options_.vocabulary != 0 && id >= options_.vocabulary) {
        return Error{Errc::kData,
                     fmt::format("layer '{}': id {} in slot '{}' is not below the "
                                 "vocabulary of {}",
                                 name(), id, options_.slot_names[i], options_.vocabulary)};
      }
      const std::size_t row = options_.sparse ? known.row_of(id) : id;
      *position = static_cast<std::uint32_t>(row);
    }
    return {};
  }

  void pool(const float* table, const Bag& bag, float* out) const {
    if (options_.pooling != Pooling::kConcat) {
      kernels::pool_rows(table, options_.size, bag.positions, bag.scale, bag.weights, out);
      return;
    }
    for (std::size_t k = 0; k < bag.positions.size(); ++k) {
      kernels::pool_rows(table, options_.size, bag.positions.subspan(k, 1), bag.scale,
                         bag.weights == nullptr ? nullptr : bag.weights + k,
                         out + k * options_.size);
    }
    std::fill(out + bag.positions.size() * options_.size, out + options_.length * options_.size,
              0.0F);
  }

  // Calls visit(row, bag) for the run's examples in slot number i, whose positions are `own`.
  template <class Visit>
  void for_bags(const Run& run, std::size_t i, std::span<const std::uint32_t> own,
                Visit visit) const {
    const Slot& slot = run.batch.slots[options_.slots[i]];
    std::size_t used = 0;
    for (std::size_t row = 0; row < run.rows(); ++row) {
      const std::size_t example = run.begin + row;
      const std::size_t first = slot.offsets.empty() ? example : slot.offsets[example];
      const std::size_t count = slot.offsets.empty() ? 1 : slot.offsets[example + 1] - first;
      Bag bag{own.subspan(used, count), nullptr, 1};
      used += count;
      if (!slot.weights.empty()) bag.weights = slot.weights.data() + first;
      if (options_.pooling == Pooling::kMean) bag.scale = mean_scale(bag.positions);
      if (options_.pooling == Pooling::kConcat) {
        bag.positions = bag.positions.first(std::min(count, options_.length));
      }
      visit(row, bag);
    }
  }

  // Padding ids do not count.
  static float mean_scale(std::span<const std::uint32_t> positions) {
    const auto padding = std::ranges::count(positions, kernels::kNoRow);
    const std::size_t count = positions.size() - static_cast<std::size_t>(padding);
    return count == 0 ? 1.0F : 1.0F / static_cast<float>(count);
  }

  Options options_;
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
  Embedding::Options options;
  for (const std::string& input : config.inputs) {
    PADDLE_TRY(const std::size_t slot, builder.slot(input, "input", true));
    options.slots.push_back(slot);
    options.slot_names.push_back(input);
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
  options.size = config.size;
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
                                1.0 / std::sqrt(static_cast<double>(config.size))}));
  return LayerResult(std::make_unique<Embedding>(builder, std::move(options)));
}

}  // namespace paddle::nn

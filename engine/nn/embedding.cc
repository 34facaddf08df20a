// embedding: rows of a table by id, side by side in the output for several slots.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/result.h"
#include "engine/math/rows.h"
#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"
#include "engine/nn/run.h"

namespace paddle::nn {
namespace {

enum class Pooling { kNone, kSum, kMean, kConcat };

// Rows of an embedding's table for the ids of a run's examples.
class TableRows {
 public:
  struct Options {
    std::string layer;  // for messages
    std::vector<std::size_t> slots;
    std::vector<std::string> slot_names;
    std::size_t parameter = 0;
    std::uint64_t vocabulary = 0;  // 0: any id
    std::optional<std::uint64_t> padding_id;
    bool sparse = false;
    Pooling pooling = Pooling::kNone;
    std::size_t length = 1;  // rows side by side for each slot
  };

  // Ids of one example in one slot; with concat pooling, at most the first `length` of them.
  struct Bag {
    std::span<const std::uint32_t> positions;
    const float* weights = nullptr;  // null: all 1
    float scale = 1;
  };

  explicit TableRows(Options options) : options_(std::move(options)) {}

  const Options& options() const { return options_; }
  std::size_t slots() const { return options_.slots.size(); }

  // Whether any of the slots has weights in the run's batch.
  bool has_weights(const Run& run) const {
    return std::ranges::any_of(
        options_.slots, [&](std::size_t slot) { return !run.batch.slots[slot].weights.empty(); });
  }
  // Range of the ids of the run's examples in slot number i.
  std::pair<std::size_t, std::size_t> ids_of(const Run& run, std::size_t i) const;
  // Writes the table row of every id of the run's examples in slot number i to every `step`th
  // position; kNoRow for the padding id. kData: an id is not below the vocabulary, or a slot
  // without pooling has a varying number of ids.
  Status locate(const Run& run, std::size_t i, std::uint32_t* position, std::size_t step) const;
  // Writes the table rows of one id in each slot for every example, the slots side by side.
  // Uses the run's team.
  Status locate_side_by_side(const Run& run, std::uint32_t* positions) const;

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

 private:
  // Padding ids do not count. Inline, since it is called for every bag.
  static float mean_scale(std::span<const std::uint32_t> positions) {
    const auto padding = std::ranges::count(positions, kernels::kNoRow);
    const std::size_t count = positions.size() - static_cast<std::size_t>(padding);
    return count == 0 ? 1.0F : 1.0F / static_cast<float>(count);
  }

  Options options_;
};

std::pair<std::size_t, std::size_t> TableRows::ids_of(const Run& run, std::size_t i) const {
  const auto& offsets = run.batch.slots[options_.slots[i]].offsets;
  if (offsets.empty()) return {run.begin, run.end};
  return {offsets[run.begin], offsets[run.end]};
}

Status TableRows::locate(const Run& run, std::size_t i, std::uint32_t* position,
                         std::size_t step) const {
  const Slot& slot = run.batch.slots[options_.slots[i]];
  if (options_.pooling == Pooling::kNone && !slot.offsets.empty()) {
    return Error{Errc::kData,
                 fmt::format("layer '{}': slot '{}' holds a varying number of ids per example",
                             options_.layer, options_.slot_names[i]),
                 "give the layer pooling = \"sum\", \"mean\" or \"concat\""};
  }
  const auto [first, last] = ids_of(run, i);
  const auto ids = std::span(slot.ids).subspan(first, last - first);
  const std::uint64_t id_max = options_.vocabulary - 1;  // all ones without a vocabulary
  const bool has_padding = options_.padding_id.has_value();
  const std::uint64_t padding = options_.padding_id.value_or(0);
  const auto locate_by = [&](auto row_of) -> Status {
    for (const std::uint64_t id : ids) {
      if (has_padding && id == padding) {
        *position = kernels::kNoRow;
      } else if (id > id_max) {
        return Error{Errc::kData,
                     fmt::format("layer '{}': id {} in slot '{}' is not below the "
                                 "vocabulary of {}",
                                 options_.layer, id, options_.slot_names[i], options_.vocabulary)};
      } else {
        *position = static_cast<std::uint32_t>(row_of(id));
      }
      position += step;
    }
    return {};
  };
  if (!options_.sparse) return locate_by([](std::uint64_t id) { return id; });
  const SparseView& known = run.parameters.sparse[options_.parameter];
  if (known.lookup == nullptr) {
    return locate_by([&](std::uint64_t id) { return row_of(known.ids, id); });
  }
  return locate_by([lookup = known.lookup](std::uint64_t id) { return (*lookup)(id); });
}

// Blocks of examples whose positions stay in the first-level cache while slot after slot writes to
// them.
Status TableRows::locate_side_by_side(const Run& run, std::uint32_t* positions) const {
  constexpr std::size_t kBlock = 64;
  const auto locate_all = [&](const Run& block) -> Status {
    std::uint32_t* const to = positions + (block.begin - run.begin) * slots();
    for (std::size_t i = 0; i < slots(); ++i) {
      PADDLE_TRY_STATUS(locate(block, i, to + i, slots()));
    }
    return {};
  };
  std::atomic<bool> has_failed = false;
  for_each_part(run.team, run.rows() * slots(), [&](std::size_t part, std::size_t parts) {
    Run block = run;
    const std::size_t end = run.begin + run.rows() * (part + 1) / parts;
    for (std::size_t at = run.begin + run.rows() * part / parts; at < end; at = block.end) {
      block.begin = at;
      block.end = std::min(end, at + kBlock);
      if (!locate_all(block)) has_failed = true;
    }
  });
  // In the order of slots again, so that the error does not depend on the team.
  return has_failed ? locate_all(run) : Status();
}

// The two classes below turn the rows of an embedding's table into arrays for its ops.

// Input of op::Gather, without pooling or with concat pooling. Fills `indices` and, where a slot
// has weights or the pooling is concat, `weights`. The entries of an example are side by side,
// `length` for each slot; `indices` is kNoRow where the example has fewer ids.
class GatheredRows final : public BatchInput {
 public:
  explicit GatheredRows(TableRows rows) : rows_(std::move(rows)) {}

  Status fill(const Run& run, InputArrays& arrays) const override;

 private:
  TableRows rows_;
};

// Input of op::Pool, with sum or mean pooling. Fills `indices` and `starts`, where a slot has
// weights also `weights`, and for a mean `scales`. The bags of all examples in the first slot come
// before those in the next slot.
class PooledRows final : public BatchInput {
 public:
  explicit PooledRows(TableRows rows) : rows_(std::move(rows)) {}

  Status fill(const Run& run, InputArrays& arrays) const override;

 private:
  TableRows rows_;
};

Status GatheredRows::fill(const Run& run, InputArrays& arrays) const {
  const std::size_t length = rows_.options().length;
  const std::size_t columns = rows_.slots() * length;
  arrays.weights.clear();
  if (rows_.options().pooling == Pooling::kNone && !rows_.has_weights(run)) {
    arrays.indices.resize(run.rows() * columns);
    return rows_.locate_side_by_side(run, arrays.indices.data());
  }
  arrays.indices.assign(run.rows() * columns, kernels::kNoRow);
  arrays.weights.assign(arrays.indices.size(), 1.0F);
  std::vector<std::uint32_t> positions;
  for (std::size_t i = 0; i < rows_.slots(); ++i) {
    const auto [first, last] = rows_.ids_of(run, i);
    positions.resize(last - first);
    PADDLE_TRY_STATUS(rows_.locate(run, i, positions.data(), 1));
    rows_.for_bags(run, i, positions, [&](std::size_t row, const TableRows::Bag& bag) {
      const std::size_t at = row * columns + i * length;
      std::ranges::copy(bag.positions, arrays.indices.data() + at);
      if (bag.weights == nullptr) return;
      std::copy_n(bag.weights, bag.positions.size(), arrays.weights.data() + at);
    });
  }
  return {};
}

Status PooledRows::fill(const Run& run, InputArrays& arrays) const {
  arrays = {};
  const bool has_weights = rows_.has_weights(run);
  for (std::size_t i = 0; i < rows_.slots(); ++i) {
    const auto [first, last] = rows_.ids_of(run, i);
    const std::size_t before = arrays.indices.size();
    arrays.indices.resize(before + (last - first));
    PADDLE_TRY_STATUS(rows_.locate(run, i, arrays.indices.data() + before, 1));
    const auto own = std::span<const std::uint32_t>(arrays.indices).subspan(before);
    if (has_weights) arrays.weights.resize(arrays.indices.size(), 1.0F);
    rows_.for_bags(run, i, own, [&](std::size_t, const TableRows::Bag& bag) {
      const auto start = static_cast<std::size_t>(bag.positions.data() - arrays.indices.data());
      arrays.starts.push_back(static_cast<std::uint32_t>(start));
      if (rows_.options().pooling == Pooling::kMean) arrays.scales.push_back(bag.scale);
      if (bag.weights == nullptr) return;
      std::copy_n(bag.weights, bag.positions.size(), arrays.weights.data() + start);
    });
  }
  arrays.starts.push_back(static_cast<std::uint32_t>(arrays.indices.size()));
  return {};
}

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
      positions.resize(options().slots.size() * run.rows());
      PADDLE_TRY_STATUS(rows_.locate_side_by_side(run, positions.data()));
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
                   std::span<TableReads> by_parameter) const override {
    if (!options().sparse) return;
    TableReads& reads = by_parameter[options().parameter];
    for (const std::size_t slot : options().slots) {
      const std::span ids(batch.slots[slot].ids);
      if (!options().padding_id) {
        reads.add(ids);
        continue;
      }
      auto& into = reads.own();
      std::size_t count = into.size();
      into.resize(count + ids.size());
      for (const std::uint64_t id : ids) {
        into[count] = id;
        count += static_cast<std::size_t>(id != *options().padding_id);
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

  // Whether every example has one row without a weight in each slot. Positions are then ordered by
  // example, as in the output; otherwise by slot.
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

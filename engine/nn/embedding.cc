// embedding: rows of a table by id. With several slots their rows lie side by side in the output.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "engine/kernels/rows.h"
#include "engine/nn/builder.h"

namespace paddle::nn {
namespace {

enum class Pooling { kNone, kSum, kMean };

class Embedding final : public Layer {
 public:
  struct Options {
    std::vector<std::size_t> slots;
    std::vector<std::string> slot_names;
    std::size_t parameter = 0;
    std::size_t size = 0;
    std::uint64_t vocabulary = 0;  // 0: any id
    bool sparse = false;
    Pooling pooling = Pooling::kNone;
  };

  Embedding(const Builder& builder, Options options)
      : Layer(builder.config().name, builder.index(), options.slots.size() * options.size),
        options_(std::move(options)) {}

  Status forward(const Run& run, LayerAccess access, double&) const override {
    auto& positions = access.positions(index());
    auto& starts = access.starts(index());
    positions.clear();
    starts.clear();
    for (std::size_t i = 0; i < options_.slots.size(); ++i) {
      starts.push_back(positions.size());
      PADDLE_TRY_STATUS(locate(run, i, positions));
    }
    const float* table = options_.sparse ? run.parameters.sparse[options_.parameter].values.data()
                                         : run.parameters.dense[options_.parameter].data();
    for (std::size_t i = 0; i < options_.slots.size(); ++i) {
      float* out = access.output(index()) + i * options_.size;
      const auto own = std::span<const std::uint32_t>(positions).subspan(starts[i]);
      if (options_.pooling == Pooling::kNone) {
        kernels::gather_rows(table, options_.size, own.first(run.rows()), out, width());
        continue;
      }
      for_bags(run, i, own, [&](std::size_t row, std::span<const std::uint32_t> bag, float scale) {
        kernels::pool_rows(table, options_.size, bag, scale, out + row * width());
      });
    }
    return {};
  }

  void backward(const Run& run, LayerAccess access) const override {
    float* table = access.zeroed_parameter_gradient(options_.parameter);
    const std::span<const std::uint32_t> positions = access.positions(index());
    for (std::size_t i = 0; i < options_.slots.size(); ++i) {
      const float* gradient = access.output_gradient(index()) + i * options_.size;
      const auto own = positions.subspan(access.starts(index())[i]);
      if (options_.pooling == Pooling::kNone) {
        kernels::scatter_add_rows(gradient, width(), options_.size, own.first(run.rows()), 1.0F,
                                  table);
        continue;
      }
      for_bags(run, i, own, [&](std::size_t row, std::span<const std::uint32_t> bag, float scale) {
        // Stride 0: every row of the bag gets the same gradient.
        kernels::scatter_add_rows(gradient + row * width(), 0, options_.size, bag, scale, table);
      });
    }
  }

  void collect_ids(const Batch& batch,
                   std::span<std::vector<std::uint64_t>> ids_by_parameter) const override {
    if (!options_.sparse) return;
    auto& into = ids_by_parameter[options_.parameter];
    for (const std::size_t slot : options_.slots) {
      const auto& ids = batch.slots[slot].ids;
      into.insert(into.end(), ids.begin(), ids.end());
    }
  }

 private:
  // Appends the table row of every id of the run's examples in slot number i.
  Status locate(const Run& run, std::size_t i, std::vector<std::uint32_t>& positions) const {
    const Slot& slot = run.batch.slots[options_.slots[i]];
    std::size_t first = run.begin;
    std::size_t last = run.end;
    if (options_.pooling == Pooling::kNone && !slot.offsets.empty()) {
      return Error{Errc::kData,
                   fmt::format("layer '{}': slot '{}' holds a varying number of ids per example",
                               name(), options_.slot_names[i]),
                   "give the layer pooling = \"sum\" or \"mean\""};
    }
    if (!slot.offsets.empty()) {
      first = slot.offsets[run.begin];
      last = slot.offsets[run.end];
    }
    const std::span<const std::uint64_t> known = options_.sparse
                                                     ? run.parameters.sparse[options_.parameter].ids
                                                     : std::span<const std::uint64_t>();
    for (std::size_t k = first; k < last; ++k) {
      const std::uint64_t id = slot.ids[k];
      if (options_.vocabulary != 0 && id >= options_.vocabulary) {
        return Error{Errc::kData,
                     fmt::format("layer '{}': id {} in slot '{}' is not below the "
                                 "vocabulary of {}",
                                 name(), id, options_.slot_names[i], options_.vocabulary),
                     ""};
      }
      std::size_t row = id;
      if (options_.sparse) {
        const auto found = std::lower_bound(known.begin(), known.end(), id);
        PADDLE_CHECK(found != known.end() && *found == id);  // the view holds what collect_ids said
        row = static_cast<std::size_t>(found - known.begin());
      }
      positions.push_back(static_cast<std::uint32_t>(row));
    }
    return {};
  }

  // visit(row, positions of the row's ids, weight of each).
  template <class Visit>
  void for_bags(const Run& run, std::size_t i, std::span<const std::uint32_t> own,
                Visit visit) const {
    const auto& offsets = run.batch.slots[options_.slots[i]].offsets;
    std::size_t used = 0;
    for (std::size_t row = 0; row < run.rows(); ++row) {
      const std::size_t example = run.begin + row;
      const std::size_t count = offsets.empty() ? 1 : offsets[example + 1] - offsets[example];
      const bool mean = options_.pooling == Pooling::kMean && count > 0;
      visit(row, own.subspan(used, count), mean ? 1.0F / static_cast<float>(count) : 1.0F);
      used += count;
    }
  }

  Options options_;
};

}  // namespace

LayerResult make_embedding(Builder& builder) {
  const config::LayerConfig& config = builder.config();
  PADDLE_TRY_STATUS(builder.need_inputs(1, std::numeric_limits<std::size_t>::max()));
  if (config.size == 0) return builder.error("key 'size' is missing: the length of a row");
  Embedding::Options options;
  for (const std::string& input : config.inputs) {
    PADDLE_TRY(const std::size_t slot, builder.slot(input, "input", Builder::SlotKind::kIds));
    options.slots.push_back(slot);
    options.slot_names.push_back(input);
  }
  if (config.pooling == "sum") {
    options.pooling = Pooling::kSum;
  } else if (config.pooling == "mean") {
    options.pooling = Pooling::kMean;
  } else if (!config.pooling.empty()) {
    return builder.error(fmt::format("unknown pooling '{}'", config.pooling),
                         "poolings are sum, mean");
  }
  options.size = config.size;
  options.sparse = config.weight.sparse;
  options.vocabulary = config.vocabulary;
  if (!options.sparse && config.vocabulary == 0) {
    return builder.error("key 'vocabulary' is missing: the rows of a dense table",
                         "or make it sparse: weight = { sparse = true }");
  }
  // A row sums into an output alone, so its own length is the scale that keeps activations near 1.
  PADDLE_TRY(options.parameter,
             builder.parameter({config.weight,
                                "_" + config.name + ".w0",
                                {options.sparse ? 0 : config.vocabulary, config.size},
                                1.0 / std::sqrt(static_cast<double>(config.size))}));
  return LayerResult(std::make_unique<Embedding>(builder, std::move(options)));
}

}  // namespace paddle::nn

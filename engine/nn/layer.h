// A layer: reads the outputs of earlier layers or data slots, writes its own, and walks back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/nn/run.h"
#include "engine/nn/workspace.h"

namespace paddle::nn {

// Where the outputs of a layer and their gradient lie: among those of `layer`, from column `offset`
// of each row on.
struct OutputPlace {
  std::size_t layer;
  std::size_t offset;
  std::size_t stride;  // of that layer's rows
};

class Layer {
 public:
  // `width`: outputs per example; 0 for a cost layer, which has none.
  Layer(std::string name, std::size_t index, std::size_t width)
      : name_(std::move(name)), index_(index), width_(width) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const std::string& name() const { return name_; }
  std::size_t index() const { return index_; }
  std::size_t width() const { return width_; }
  // The gradient of so many of its first outputs is read; who writes it may leave out the others.
  virtual std::size_t gradient_width() const { return width_; }

  // Adds to cost_sum, which only cost layers do. kData: the batch holds what the layer cannot take.
  virtual Status forward(const Run& run, LayerAccess access, double& cost_sum) const = 0;
  // Turns the gradient of its output into that of its inputs and parameters; may overwrite the
  // former.
  virtual void backward(const Run& run, LayerAccess access) const = 0;
  // Appends the ids of sparse parameters, in any order, with repeats.
  virtual void collect_ids(const Batch&, std::uint64_t /*seed*/,
                           std::span<std::vector<std::uint64_t>>) const {}
  // How many layers read each layer's output; called once, when the whole network is known.
  virtual void set_consumers(std::span<const std::uint32_t>) {}
  // From now on its outputs and their gradient are there; false: it cannot.
  virtual bool put_output(const OutputPlace&) { return false; }
  // The chance to put the outputs of other layers among its own. `readers` counts those of each
  // layer, evaluators included; called once, before the first run.
  virtual void place_inputs(std::span<const std::unique_ptr<Layer>> /*layers*/,
                            std::span<const std::uint32_t> /*readers*/) {}

 private:
  std::string name_;
  std::size_t index_;
  std::size_t width_;
};

class Builder;
using LayerResult = Result<std::unique_ptr<Layer>>;
// Float slot number `slot_index` of the batch as layer number `index`.
std::unique_ptr<Layer> make_data(const config::SlotConfig& slot, std::size_t index,
                                 std::size_t slot_index);
LayerResult make_embedding(Builder& builder);
LayerResult make_fc(Builder& builder);
LayerResult make_concat(Builder& builder);
LayerResult make_add(Builder& builder);
LayerResult make_multiply(Builder& builder);
LayerResult make_activation(Builder& builder);
LayerResult make_dropout(Builder& builder);
LayerResult make_layer_norm(Builder& builder);
LayerResult make_factorization_machine(Builder& builder);
LayerResult make_cosine_similarity(Builder& builder);
LayerResult make_softmax_cross_entropy(Builder& builder);
LayerResult make_binary_cross_entropy(Builder& builder);
LayerResult make_squared_error(Builder& builder);
LayerResult make_nce(Builder& builder);
LayerResult make_negative_sampling(Builder& builder);

}  // namespace paddle::nn

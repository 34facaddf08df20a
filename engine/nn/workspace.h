// Scratch memory and results of one thread. It grows to the largest batch, then never allocates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/tally.h"
#include "engine/math/huge_pages.h"

namespace paddle::nn {

using Floats = LargeArray<float>;

class Workspace {
 public:
  // Counters of the evaluators after the last forward; Network::values turns them into figures.
  const Tally& tally() const { return tally_; }

  // Gradient summed over the examples of every backward since clear_gradients. Dense: the
  // parameter's shape. Sparse: one row for each id of the SparseView, in its order.
  std::span<const float> gradient(std::size_t parameter) const {
    return gradients_[parameter].values();
  }
  // Makes later runs write the gradient to `buffer`, of the gradient's size; an empty one restores
  // the workspace's own memory. Call again when the buffer moves or the SparseView changes.
  void set_gradient_buffer(std::size_t parameter, std::span<float> buffer) {
    if (gradients_.size() <= parameter) gradients_.resize(parameter + 1);
    gradients_[parameter].buffer = buffer;
  }
  // Call before the first forward of each batch; costs nothing.
  void clear_gradients() {
    for (Gradient& gradient : gradients_) gradient.written = false;
  }

 private:
  friend class Network;
  friend class LayerAccess;

  struct Gradient {
    Floats own;
    std::span<float> buffer;  // used instead of `own` when not empty
    bool written = false;     // else the content is left over from an earlier batch

    std::span<float> values() { return buffer.empty() ? std::span<float>(own) : buffer; }
    std::span<const float> values() const { return buffer.empty() ? std::span(own) : buffer; }
  };
  struct LayerState {
    Floats output;
    Floats gradient;  // gradient of the cost with respect to `output`
    bool is_gradient_written = false;
    Floats scratch;
    std::vector<std::uint32_t> positions;  // table rows of each id
    std::vector<std::size_t> starts;       // first position of each slot
    std::vector<std::uint32_t>
        predictions;  // index of each row's largest output, if a cost found it
    double cost = 0;  // sum over the rows; cost layers only
  };

  std::vector<LayerState> layers_;
  std::vector<Gradient> gradients_;
  Tally tally_;
};

// Part of a workspace that layers may use.
class LayerAccess {
 public:
  explicit LayerAccess(Workspace& workspace) : workspace_(workspace) {}

  float* output(std::size_t layer) { return workspace_.layers_[layer].output.data(); }
  // The only consumer of the layer may write it before backward.
  float* output_gradient(std::size_t layer) { return workspace_.layers_[layer].gradient.data(); }
  // False for the first writer, which must overwrite the buffer; later ones must add to it.
  bool claim_output_gradient(std::size_t layer) {
    return std::exchange(workspace_.layers_[layer].is_gradient_written, true);
  }
  float* parameter_gradient(std::size_t parameter) {
    return workspace_.gradients_[parameter].values().data();
  }
  // 0 for the first writer, 1 for later ones: the beta of a matrix product.
  float claim_parameter_gradient(std::size_t parameter) {
    return std::exchange(workspace_.gradients_[parameter].written, true) ? 1.0F : 0.0F;
  }
  // For writers that only add; clears what an earlier batch left.
  float* zeroed_parameter_gradient(std::size_t parameter) {
    const std::span<float> values = workspace_.gradients_[parameter].values();
    if (claim_parameter_gradient(parameter) == 0.0F) std::ranges::fill(values, 0.0F);
    return values.data();
  }
  float* scratch(std::size_t layer, std::size_t count) {
    Floats& values = workspace_.layers_[layer].scratch;
    if (values.size() < count) values.resize(count);
    return values.data();
  }
  std::vector<std::uint32_t>& positions(std::size_t layer) {
    return workspace_.layers_[layer].positions;
  }
  std::vector<std::size_t>& starts(std::size_t layer) { return workspace_.layers_[layer].starts; }
  // Index of each row's largest output; empty until a softmax cost that reads the layer has run.
  std::vector<std::uint32_t>& predictions(std::size_t layer) {
    return workspace_.layers_[layer].predictions;
  }
  double cost(std::size_t layer) const { return workspace_.layers_[layer].cost; }

 private:
  Workspace& workspace_;
};

}  // namespace paddle::nn

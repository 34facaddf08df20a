// One thread's scratch memory and results: grows to the largest batch, then never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/tally.h"
#include "engine/memory/huge_pages.h"

namespace paddle::nn {

using Floats = LargeArray<float>;

class Workspace {
 public:
  // What the evaluators counted in the last forward: Network::values tells what it means.
  const Tally& tally() const { return tally_; }

  // Summed over the examples of every backward since clear_gradients. Dense: the parameter's shape.
  // Sparse: one row for each id of the SparseView, in its order.
  std::span<const float> gradient(std::size_t parameter) const {
    return gradients_[parameter].values();
  }
  // Where that is written from the next forward on, of the gradient's size; empty: in memory of the
  // workspace's own. Call it again when the place moves or the SparseView changes.
  void put_gradient(std::size_t parameter, std::span<float> place);
  // Call before the first forward of each batch; costs nothing.
  void clear_gradients();

 private:
  friend class Network;
  friend class LayerAccess;

  struct Gradient {
    Floats own;
    std::span<float> place;  // instead, when not empty
    bool written = false;    // else the content is left over from an earlier batch

    std::span<float> values() { return place.empty() ? std::span<float>(own) : place; }
    std::span<const float> values() const { return place.empty() ? std::span(own) : place; }
  };
  struct LayerState {
    Floats output;
    Floats gradient;  // of the cost with respect to output
    bool is_gradient_written = false;
    Floats scratch;
    std::vector<std::uint32_t> positions;    // table rows of each id
    std::vector<std::size_t> starts;         // first position of each slot
    std::vector<std::uint32_t> predictions;  // largest output of each row, where a cost found it
    double cost = 0;                         // of a cost layer, summed over the rows
  };

  std::vector<LayerState> layers_;
  std::vector<Gradient> gradients_;
  Tally tally_;
};

// The part of a workspace that layers may touch.
class LayerAccess {
 public:
  explicit LayerAccess(Workspace& workspace) : workspace_(workspace) {}

  float* output(std::size_t layer) { return workspace_.layers_[layer].output.data(); }
  // Writing it before backward is allowed to the only consumer of the layer.
  float* output_gradient(std::size_t layer) { return workspace_.layers_[layer].gradient.data(); }
  // True when the caller must add to the buffer, false when it must overwrite it: it is the first.
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
  // For writers that only add: zeros what an earlier batch left.
  float* zeroed_parameter_gradient(std::size_t parameter);
  float* scratch(std::size_t layer, std::size_t count);
  std::vector<std::uint32_t>& positions(std::size_t layer) {
    return workspace_.layers_[layer].positions;
  }
  std::vector<std::size_t>& starts(std::size_t layer) { return workspace_.layers_[layer].starts; }
  // Of the layer's outputs; empty until a softmax cost that reads it has run.
  std::vector<std::uint32_t>& predictions(std::size_t layer) {
    return workspace_.layers_[layer].predictions;
  }
  double cost(std::size_t layer) const { return workspace_.layers_[layer].cost; }

 private:
  Workspace& workspace_;
};

}  // namespace paddle::nn

// Layer of a network: computes its outputs from earlier layers or data slots, and computes the
// gradients of its inputs and parameters from the gradient of its outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/nn/run.h"
#include "engine/nn/workspace.h"

namespace paddle::nn {

class Lowering;

// Columns of another layer's rows that hold a layer's outputs and their gradient.
struct OutputSlice {
  std::size_t layer;
  std::size_t offset;  // first column
  std::size_t stride;  // width of that layer's rows
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
  // Only the first gradient_width() columns of the output gradient are read; the rest may be left
  // unset.
  virtual std::size_t gradient_width() const { return width_; }

  // Cost layers add their cost to cost_sum. kData: the batch has an id or label out of range.
  virtual Status forward(const Run& run, LayerAccess access, double& cost_sum) const = 0;
  // Adds to the gradients of its inputs and parameters; may overwrite the gradient of its outputs.
  virtual void backward(const Run& run, LayerAccess access) const = 0;
  // Adds the ids that the layer reads from each sparse parameter, in any order, with repeats.
  virtual void collect_ids(const Batch&, std::uint64_t /*seed*/,
                           std::span<TableReads> /*by_parameter*/) const {}
  // Receives the number of layers that read each layer's output; called once, when all layers are
  // known.
  virtual void set_consumers(std::span<const std::uint32_t>) {}
  // Makes the layer keep its outputs and their gradient in `slice` from then on. False: the layer
  // cannot do this.
  virtual bool redirect_output(const OutputSlice& /*slice*/) { return false; }
  // Lets the layer redirect the outputs of its inputs into its own. `readers` counts the layers and
  // evaluators that read each layer; called once, before the first run.
  virtual void redirect_inputs(std::span<const std::unique_ptr<Layer>> /*layers*/,
                               std::span<const std::uint32_t> /*readers*/) {}
  // Types of the evaluators that a network with this cost gets if the job names no evaluators.
  virtual std::vector<std::string_view> default_evaluators() const { return {}; }
  // Emits the layer's forward as ops on symbolic buffers, and gives the lowering a function that
  // emits its backward. The results of these ops must equal those of forward() and backward() bit
  // for bit.
  virtual void lower(Lowering& lowering) const = 0;

 private:
  std::string name_;
  std::size_t index_;
  std::size_t width_;
};

}  // namespace paddle::nn

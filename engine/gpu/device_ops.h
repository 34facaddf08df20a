// Computes the ops of a plan on a card: gives it the commands for each op.
#pragma once

#include <cstddef>

#include "engine/gpu/device_frame.h"
#include "engine/math/card_kernel.h"

namespace paddle::nn {

// kUsage: a layer has more inputs than a kernel takes.
Status check_for_device(const Plan& plan);

class DeviceOps {
 public:
  // `run` is the run that DeviceFrame::begin() was last called with. All arguments must outlive the
  // object.
  DeviceOps(const DeviceFrame& frame, const Run& run, device::Device& device,
            device::StreamHandle stream)
      : frame_(frame), run_(run), device_(device), stream_(stream) {}

  void execute(const Op& op);

 private:
  bool trains() const { return run_.mode == Mode::kTrain; }
  std::size_t rows() const { return run_.rows(); }
  std::size_t extent(std::size_t size) const { return size == op::kRows ? rows() : size; }
  void launch(const kernels::device::Kernel& kernel) { device_.launch(stream_, kernel); }
  // Where a cost writes the gradient; null in a test, so that it is not written.
  kernels::device::Rows slopes(const Region& gradient) const {
    return trains() ? frame_.write(gradient) : kernels::device::Rows();
  }

  void compute(const op::Gemm& op);
  void compute(const op::Activate& op);
  void compute(const op::ActivateBackward& op);
  void compute(const op::Copy& op);
  void compute(const op::Sum& op);
  void compute(const op::Product& op);
  void compute(const op::Dropout& op);
  void compute(const op::SoftmaxCrossEntropy& op);
  void compute(const op::BinaryCrossEntropy& op);
  void compute(const op::SquaredError& op);
  void compute(const op::Zero& op);
  void compute(const op::Gather& op);
  void compute(const op::GatherBackward& op);
  void compute(const op::Pool& op);
  void compute(const op::PoolBackward& op);
  void compute(const op::LayerNorm& op);
  void compute(const op::LayerNormBackward& op);
  void compute(const op::PairSum& op);
  void compute(const op::PairSumBackward& op);
  void compute(const op::CosineSimilarity& op);
  void compute(const op::CosineSimilarityBackward& op);
  void compute(const op::SampledCost& op);
  void compute(const op::SampledCostBackward& op);

  // Whether a NaN of the product's shows although the library's relu makes 0 of it. It shows in the
  // gradients of the weights, products of the same factors that are NaN even where the slope is 0.
  // A test has no gradients, and those of static weights are not looked at.
  bool shows_nan(const op::Gemm& product) const;
  // The copy of a factor in bfloat16, which it writes first unless an earlier product has.
  const std::uint16_t* rounded(const RoundedFactors::Factor& factor);
  // Where the rows of a table occur, with the scratch memory for sums in pieces.
  kernels::device::Occurrences occurrences(std::size_t input, const Region& gradient) const;
  void copy(std::size_t width, const Region& from, const Region& to, bool accumulate);
  template <class Kernel, class CostOp>
  void compare_with_labels(const CostOp& op);
  // Where a kernel writes and adds up `count` costs. Sets the sum to 0 if `count` is 0, because a
  // kernel for no rows does not run.
  kernels::device::CostSum cost_sum(std::size_t count, std::size_t cost);
  // to = the sums of columns over rows, or += when accumulate.
  template <class Terms>
  void sum_columns(std::size_t width, const Terms& terms, const Region& to, bool accumulate);

  const DeviceFrame& frame_;
  const Run& run_;
  device::Device& device_;
  device::StreamHandle stream_;
};

}  // namespace paddle::nn

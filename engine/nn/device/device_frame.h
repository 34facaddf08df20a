// Memory of a card for runs of a plan: where the ops find what they read and write. It grows to the
// largest run, and then stays where it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/nn/device/device_inputs.h"
#include "engine/nn/device/device_results.h"

namespace paddle::nn {

class DeviceFrame {
 public:
  // Runs are computed by the stream. Plan and device outlive it.
  static Result<DeviceFrame> make(const Plan& plan, device::Device& device,
                                  device::StreamHandle compute, WantedResults wanted);

  // Makes what the next run reads ready, while one is computed; another run may be begun in its
  // place. Where the host's parameters have the values of that run (has_values), all is sent.
  // kData: as BatchInput::fill.
  Status stage(const Run& run, bool has_values, TimePoint deadline);
  // Gives all memory its size and sends what the run reads; the run before must have ended. kData:
  // likewise.
  Status begin(const Run& run, TimePoint deadline);
  // Rises with every begin() that moved memory, or made room for more rows of a table: no order
  // from before holds.
  std::uint64_t generation() const { return generation_; }

  // First value of a region.
  float* at(const Region& region) const;
  kernels::device::Rows write(const Region& region) const { return {at(region), region.stride}; }
  kernels::device::ConstRows read(const Region& region) const {
    return {at(region), region.stride};
  }
  // Floats of the gradient of a parameter, of which a sparse table's may be more than the run has.
  std::size_t gradient_floats(std::size_t buffer) const {
    const Buffer& gradient = plan_.buffers[buffer];
    const bool is_table = gradient.rows == Buffer::Rows::kTable;
    return (is_table ? table_rows_[gradient.index] : 1) * gradient.width;
  }
  // Rows of the gradient of a table, likewise.
  std::size_t table_rows_max(const Region& gradient) const;

  DeviceInputs& inputs() { return inputs_; }
  const DeviceInputs& inputs() const { return inputs_; }
  const DeviceResults& results() const { return results_; }
  void download(device::StreamHandle stream) const {
    results_.download(stream, [this](std::size_t layer) { return at(*plan_.outputs[layer]); });
  }

  // Scratch for one op: a cost for each row or candidate, sums of chunks of rows, counters of
  // warps, which are 0 between kernels, and the factors of a product in bfloat16.
  double* costs() const { return costs_.data(); }
  float* chunks() const { return chunks_.data(); }
  std::uint32_t* counters() const { return counters_.data(); }
  std::uint16_t* factor(std::size_t index) const { return factors_[index].data(); }

 private:
  DeviceFrame(const Plan& plan, device::Lane compute, DeviceInputs inputs, WantedResults wanted);
  // A run by what its inputs are made of; no two batches of a job have one seed.
  struct Staged {
    std::uint64_t seed;
    std::size_t rows;
    Mode mode;
    bool is_sent;
  };
  bool is_staged(const Run& run) const {
    return staged_ && staged_->seed == run.seed && staged_->rows == run.rows() &&
           staged_->mode == run.mode;
  }
  Status write(const Run& run, TimePoint deadline);
  Result<bool> reserve(const Run& run);

  const Plan& plan_;
  device::Lane compute_;
  DeviceInputs inputs_;
  DeviceResults results_;
  std::size_t rows_max_ = 0;
  std::vector<std::size_t> table_rows_;             // by parameter: most rows of a sparse table
  std::vector<device::CardMemory<float>> buffers_;  // those of outputs, their gradients, scratch
  device::CardMemory<double> costs_;
  device::CardMemory<float> chunks_;
  device::CardMemory<std::uint32_t> counters_;
  std::array<device::CardMemory<std::uint16_t>, 2> factors_;
  std::optional<Staged> staged_;
  bool have_inputs_moved_ = false;  // since the last begin()
  std::uint64_t generation_ = 0;
};

// Values of an array that must begin at whole 16 bytes for a card's bfloat16 units.
constexpr std::size_t padded(std::size_t values) {
  return (values + 7) / 8 * 8;
}

// Scratch that the ops of a plan need at most.
struct ScratchSizes {
  std::size_t costs = 0;
  std::size_t chunks = 0;
  std::size_t counters = 0;
  std::array<std::size_t, 2> factors = {};

  static ScratchSizes of(const Plan& plan, std::size_t rows, kernels::Compute compute);
};

}  // namespace paddle::nn

// Executor of a plan on a card. Results are those of HostInterpreter bit for bit, but for products
// of matrices and sums over the rows of a run, which a card adds up in an order of its own; that
// order is the same in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>

#include "engine/nn/device/device_frame.h"
#include "engine/nn/device/gradient_ends.h"

namespace paddle::nn {

// A card that has not computed a run by then hangs.
constexpr Duration kRunDeadline = std::chrono::seconds(60);

class DeviceExecutor {
 public:
  // Both outlive it. kUsage: the plan has an op that is too large for a card.
  static Result<std::unique_ptr<DeviceExecutor>> make(const Plan& plan, device::Device& device,
                                                      WantedResults wanted,
                                                      Duration deadline = kRunDeadline);
  ~DeviceExecutor();
  DeviceExecutor(const DeviceExecutor&) = delete;
  DeviceExecutor& operator=(const DeviceExecutor&) = delete;

  // Makes what the card reads of the next run ready while one is computed, and sends it where the
  // host's parameters have that run's values; another run may be begun in its place. Errors: as
  // begin().
  Status stage(const Run& run, bool has_values);
  // Begins forward and, in training, backward of a whole batch, of which the card is given all
  // orders. What the run refers to is the caller's again when it returns. kData: as
  // BatchInput::fill. Other errors are the card's.
  Status begin(const Run& run);
  // Returns when all results of the run that was begun are there. The gradients, by parameter, are
  // overwritten; those of a test are empty. A card that hangs has failed.
  Result<double> finish(std::span<const std::span<float>> gradients);
  Result<double> run(const Run& run, std::span<const std::span<float>> gradients) {
    PADDLE_TRY_STATUS(begin(run));
    return finish(gradients);
  }

  // Computes all runs, one after the other.
  device::StreamHandle stream() const { return stream_.handle(); }
  // Results of the last run; outputs and predictions only where they are wanted.
  double cost(std::size_t index) const { return results().costs_found()[index]; }
  std::span<const std::uint32_t> predictions(std::size_t index) const {
    return results().predictions_found(index);
  }
  std::span<const float> output(std::size_t layer) const;

 private:
  // All on which the orders of a run depend, but for the addresses of the frame.
  using Shape = std::tuple<std::size_t, std::size_t, Mode, kernels::Compute, std::uint32_t,
                           std::vector<const float*>, std::vector<bool>, std::vector<std::size_t>>;
  // Events that come between ops of the backward, by how many are before them; and its end.
  using Cuts = std::map<std::size_t, std::vector<device::EventHandle>>;

  DeviceExecutor(const Plan& plan, device::Device& device, Duration deadline, device::Stream stream,
                 device::Event done, DeviceFrame frame)
      : plan_(plan),
        device_(device),
        deadline_(deadline),
        stream_(std::move(stream)),
        done_(std::move(done)),
        frame_(std::move(frame)),
        gradient_ends_(gradient_ends(plan)) {}
  const DeviceResults& results() const { return frame_.results(); }
  Cuts cuts_of(const Run& run) const;
  Shape shape_of(const Run& run, const Cuts& cuts) const;
  Result<std::vector<device::Graph>> capture(const Run& run, const Cuts& cuts);
  Status replay(const Run& run);
  Status order(const Run& run);
  void read_gradients(std::span<const std::span<float>> gradients) const;

  const Plan& plan_;
  device::Device& device_;
  Duration deadline_;
  device::Stream stream_;
  device::Event done_;
  DeviceFrame frame_;
  const std::vector<std::size_t> gradient_ends_;
  TimePoint run_ends_by_;
  std::map<Shape, std::vector<device::Graph>> graphs_;  // one for each part between cuts
  std::uint64_t generation_ = 0;                        // of the frame, when the graphs were made
};

}  // namespace paddle::nn

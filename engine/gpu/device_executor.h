// Executor of a plan on a card. Its results equal those of HostInterpreter bit for bit, except for
// products of matrices and sums over the rows of a run: a card adds these up in another order,
// which is the same in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>

#include "engine/gpu/device_frame.h"
#include "engine/gpu/device_ops.h"
#include "engine/gpu/gradient_ends.h"

namespace paddle::nn {

// Limit for the computation of a run; a card that needs longer counts as hung.
constexpr Duration kRunDeadline = std::chrono::seconds(60);

class DeviceExecutor {
 public:
  // `plan` and `device` must outlive the executor. kUsage: a layer has more inputs than a card can
  // combine.
  static Result<std::unique_ptr<DeviceExecutor>> make(const Plan& plan, device::Device& device,
                                                      WantedResults wanted,
                                                      Duration deadline = kRunDeadline);
  ~DeviceExecutor();
  DeviceExecutor(const DeviceExecutor&) = delete;
  DeviceExecutor& operator=(const DeviceExecutor&) = delete;

  // Prepares the inputs of the next run while a run is computed. With `has_values`, the host's
  // parameters already have the values for the next run, and all is sent to the card. The next
  // begin() may be of another run. Errors: as begin().
  Status stage(const Run& run, bool has_values);
  // Begins the forward and, in training, the backward of a whole batch: gives the card all commands
  // of the run. After the return, the caller may change all that the run refers to. kData: as
  // BatchInput::fill. Other errors are errors of the card.
  Status begin(const Run& run);
  // Waits until the host has all results of the run that was begun, and returns its cost.
  // Overwrites `gradients`, which are indexed by parameter; empty ones are not written. A card that
  // hangs is an error. REQUIRES: in a test, no gradients.
  Result<double> finish(std::span<const std::span<float>> gradients);
  Result<double> run(const Run& run, std::span<const std::span<float>> gradients) {
    PADDLE_TRY_STATUS(begin(run));
    return finish(gradients);
  }

  // The stream that computes all runs, one after the other.
  device::StreamHandle stream() const { return stream_.handle(); }
  // Results of the last run; outputs and predictions only if they are in WantedResults.
  double cost(std::size_t index) const { return results().costs_found()[index]; }
  std::span<const std::uint32_t> predictions(std::size_t index) const {
    return results().predictions_found(index);
  }
  std::span<const float> output(std::size_t layer) const;

 private:
  // All that the commands of a run depend on, except the addresses in the frame. Runs with equal
  // shapes have the same commands.
  using Shape = std::tuple<std::size_t, std::size_t, Mode, kernels::Compute, std::uint32_t,
                           std::vector<const float*>, std::vector<bool>, std::vector<std::size_t>>;
  // Events to record between ops of the backward, by the number of ops before them. The end of the
  // backward always has an entry.
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
  // A shape that has run. Its first run has no graphs: it gives the commands one by one, and the
  // device then chooses algorithms, loads kernels and takes memory. Its second run captures them.
  struct Known {
    std::vector<device::Graph> graphs;  // one for each part between cuts
    std::uint64_t last_run = 0;
  };

  Status order(const Run& run);
  Status compute(const Run& run);
  Known& known(Shape shape);
  Cuts cuts_of(const Run& run) const;
  Shape shape_of(const Run& run, const Cuts& cuts) const;
  // Gives the commands of the part of the run between two cuts.
  void give(DeviceOps& ops, std::size_t from, std::size_t end) const;
  Result<std::vector<device::Graph>> capture(const Run& run, const Cuts& cuts);
  void read_gradients(std::span<const std::span<float>> gradients) const;

  const Plan& plan_;
  device::Device& device_;
  Duration deadline_;
  device::Stream stream_;
  device::Event done_;
  DeviceFrame frame_;
  const std::vector<std::size_t> gradient_ends_;
  TimePoint run_ends_by_;
  std::map<Shape, Known> shapes_;
  std::uint64_t generation_ = 0;  // frame_.generation() of the shapes
  std::uint64_t runs_ = 0;
};

}  // namespace paddle::nn

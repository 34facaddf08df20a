// A plan run by a fake card beside the interpreter of the host.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/gpu/device_executor.h"
#include "tests/support/device/fake_device.h"
#include "tests/support/device/host_interpreter.h"
#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {

// Results of a run that the host can read.
struct RunResults {
  double cost = 0;
  std::vector<std::vector<float>> outputs;  // by layer; empty where the plan has none
  std::vector<std::vector<std::uint32_t>> predictions;
  std::vector<std::vector<float>> gradients;  // by parameter, in training

  bool operator==(const RunResults&) const = default;
};

class DeviceRun {
 public:
  // The network outlives it. `seed` as FakeDeviceOptions has it.
  explicit DeviceRun(TestNetwork& test, std::uint64_t seed = test::kLate);
  // On another device, which outlives it too.
  DeviceRun(TestNetwork& test, device::Device& device);

  Result<RunResults> on_card(const Batch& batch, Mode mode, std::uint64_t seed,
                             kernels::Compute compute = kernels::Compute::kFloat32);
  // With the batch whole, in float32.
  RunResults on_host(const Batch& batch, Mode mode, std::uint64_t seed);

  // Called while a card computes a batch.
  std::function<void()> meanwhile = {};
  // Makes the batch ready on the card.
  void stage(const Batch& batch, std::uint64_t seed, bool has_values);

  // From now on the card has all parameters and their gradients, in memory that is not the
  // executor's; rows of tables are in another order there. With `early`, each dense gradient is
  // read on another stream as soon as it is written, while the card computes the others.
  void keep_on_card(bool early = false);

  const Plan& plan() const { return plan_; }
  test::FakeDevice& device() { return device_; }

 private:
  TestNetwork& test_;
  Plan plan_;
  HostInterpreter host_;
  test::FakeDevice device_;
  device::Device& used_;  // device_, or another one
  struct KeptDense {
    device::CardMemory<float> memory;      // values, then the gradient
    device::PinnedMemory<float> room;      // the gradient that is read early
    std::optional<device::Event> written;  // only if it is
  };
  std::map<std::size_t, KeptDense> kept_;  // by parameter, of the dense ones that the card keeps
  std::optional<device::Stream> beside_;   // reads gradients early
  struct KeptTable {
    device::CardMemory<float> memory;  // values, then gradients
    CardRows rows;
  };
  std::map<std::size_t, KeptTable> kept_tables_;  // likewise, of the tables
  std::unique_ptr<DeviceExecutor> executor_;

  Parameters parameters_of(const Batch& batch, std::uint64_t seed);
  void read_early();
  // Copies between the card and the host.
  void move(std::span<float> host, float* card, bool is_down);
};

// Expects each output to be within `relative` of the largest one of its layer, and gradients within
// five times as much, of the largest of all too: layers and sums of terms that cancel amplify.
void expect_near(const RunResults& found, const RunResults& right, double relative);

}  // namespace paddle::nn

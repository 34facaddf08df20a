// Driver of fake cards, for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/gpu/device.h"
#include "tests/support/device/fake_device.h"

namespace paddle::test {

// Failures of a driver, as a real one words them.
Error no_driver();
Error old_driver();
Error missing_library();

class FakeDriver final : public device::Driver {
 public:
  // As many cards: "Fake", UUIDs GPU-<serial>-0, ...
  explicit FakeDriver(std::uint32_t cards, std::size_t memory_bytes = std::size_t{1} << 30U,
                      const std::string& serial = "fake");

  // From now on all calls fail, or none.
  void fail(std::optional<Error> error) { error_ = std::move(error); }
  // For devices that are opened from now on.
  void set_seed(std::uint64_t seed) { seed_ = seed; }
  // Called with each device that open() returns, which others own.
  void on_open(std::function<void(FakeDevice&)> visit) { on_open_ = std::move(visit); }

  std::string describe() override;
  Result<std::vector<device::Card>> cards() override;
  Result<std::unique_ptr<device::Device>> open(std::uint32_t index) override;

 private:
  std::vector<device::Card> cards_;
  std::optional<Error> error_;
  std::uint64_t seed_ = kLate;
  std::function<void(FakeDevice&)> on_open_;
};

}  // namespace paddle::test

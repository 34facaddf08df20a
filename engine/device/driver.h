// Access to the cards of this machine. A program has one driver or none; `paddle` has none,
// `paddle-gpu` has CUDA's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/device/device.h"

namespace paddle::device {

class Driver {
 public:
  Driver() = default;
  virtual ~Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // For `paddle version`: the driver and libraries it would use, one a line, or what is missing.
  virtual std::string describe() = 0;
  // kVersion: the driver is too old; kResource: there is no driver, no card or a library missing,
  // each with its name and the paths tried.
  virtual Result<std::vector<Card>> cards() = 0;
  // kUsage: no such card, with the number of those there are.
  virtual Result<std::unique_ptr<Device>> open(std::uint32_t index) = 0;
};

// Set once, by main; null where this program has none.
void set_driver(Driver* driver);
Driver* driver();

}  // namespace paddle::device

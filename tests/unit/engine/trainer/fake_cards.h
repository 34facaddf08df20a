// Cards of host memory that this program has for a while.
#pragma once

#include "engine/gpu/device.h"
#include "tests/support/device/fake_driver.h"

namespace paddle::trainer {

struct FakeCards {
  explicit FakeCards(std::uint32_t count, std::size_t memory_bytes = std::size_t{1} << 30U)
      : driver(count, memory_bytes) {
    device::set_driver(&driver);
  }
  ~FakeCards() { device::set_driver(nullptr); }
  FakeCards(const FakeCards&) = delete;
  FakeCards& operator=(const FakeCards&) = delete;

  test::FakeDriver driver;
};

}  // namespace paddle::trainer

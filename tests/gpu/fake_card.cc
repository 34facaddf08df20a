// The tests' device in place of a card.
#include "tests/gpu/card.h"
#include "tests/support/device/fake_device.h"

namespace paddle::test {

device::Device& card() {
  static auto* const fake = new FakeDevice();
  return *fake;
}

}  // namespace paddle::test

#include "engine/gpu/device.h"

namespace paddle::device {
namespace {

Driver* g_driver = nullptr;  // NOLINT: set once, before any thread

}  // namespace

void set_driver(Driver* driver) {
  g_driver = driver;
}

Driver* driver() {
  return g_driver;
}

}  // namespace paddle::device

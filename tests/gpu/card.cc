#include "tests/gpu/card.h"

#include <cstdio>

#include <gtest/gtest.h>

#include "engine/gpu/cuda_driver.h"
#include "engine/gpu/handles.h"
#include "tests/gpu/shared_memory.h"

namespace paddle::test {
namespace {

device::Device* g_card = nullptr;  // NOLINT: set once, by main

TimePoint in_a_minute() {
  return SteadyClock().now() + std::chrono::minutes(1);
}

}  // namespace

device::Device& card() {
  PADDLE_CHECK(g_card != nullptr);
  return *g_card;
}

void run_on_card(const kernels::device::Kernel& kernel) {
  static const auto stream = new auto(device::Stream::open(card()));
  static const auto event = new auto(device::Event::make(card()));
  ASSERT_TRUE(*stream && *event);
  card().launch((*stream)->handle(), kernel);
  card().record((*stream)->handle(), (*event)->handle());
  const Status status = card().wait((*event)->handle(), in_a_minute());
  ASSERT_TRUE(status) << status.error().message;
}

}  // namespace paddle::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  paddle::device::CudaDriver driver;
  auto opened = driver.open(0);
  if (!opened) {
    std::printf("no test runs on a card: %s\n", opened.error().message.c_str());
    return 3;
  }
  std::printf("card 0 is %s\n", (*opened)->card().name.c_str());
  paddle::test::g_card = opened->release();
  paddle::test::share_memory();
  return RUN_ALL_TESTS();
}

// CudaDevice with another runtime in place of CUDA's: what it does when a card hangs, breaks or is
// full, which a real card cannot be asked for.
#include "engine/gpu/cuda_device.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/unit/engine/gpu/cuda_fake_runtime.h"

namespace paddle::device {
namespace {

using test::runtime;

TimePoint soon() {
  return clock_now() + std::chrono::milliseconds(1);
}

class CudaDevices : public testing::Test {
 protected:
  CudaDevices() { test::reset_runtime(); }

  Result<std::unique_ptr<Device>> open(CudaDevice::Mode mode = CudaDevice::Mode::kQueues) {
    return CudaDevice::open(
        {0, "H100", "GPU-0", std::size_t{1} << 40U}, test::fake_lt(),
        [] { return Result<NcclApi>(test::fake_nccl()); }, mode);
  }
  // Gives the stream a command, and records the event behind it.
  void give(Device& device, StreamHandle stream, EventHandle event) {
    device.launch(stream, kernels::device::Fill{1, 0, &value_});
    device.record(stream, event);
  }
  Product product_of(std::size_t m) {
    Product product{.m = m, .n = 1, .k = 1};
    product.a = product.b = &value_;
    product.c = &value_;
    product.a_stride = product.b_stride = product.c_stride = 1;
    return product;
  }

  float value_ = 0;
};

// Everything that a card gives out, to be given back.
struct Given {
  StreamHandle stream;
  EventHandle event;
  std::byte* memory;
  std::byte* pinned;
  GraphHandle graph;
};

Given take_all(Device& device) {
  const StreamHandle stream = *device.open_stream(Device::Urgency::kNormal);
  device.begin_capture(stream);
  const GraphHandle graph = *device.end_capture(stream);
  return {stream, *device.make_event(), *device.allocate(4), *device.allocate_pinned(4), graph};
}

void give_back(Device& device, const Given& all) {
  device.release(all.memory);
  device.release_pinned(all.pinned);
  device.destroy_graph(all.graph);
  device.destroy_event(all.event);
  device.close_stream(all.stream);
}

TEST_F(CudaDevices, Trap31TheEndOfACardThatHangsWaitsForNothing) {
  auto device = *open();
  const Given all = take_all(*device);
  device->multiply(all.stream, product_of(1));
  runtime().hangs = true;
  give(*device, all.stream, all.event);
  EXPECT_EQ(device->wait(all.event, soon()).error().code, Errc::kUnreachable);
  give_back(*device, all);
  device.reset();
  EXPECT_EQ(runtime().waits_for_ever, 0U);
}

TEST_F(CudaDevices, Trap31ACardThatHangsUnnoticedIsWaitedForOnce) {
  auto device = *open();
  const Given all = take_all(*device);
  runtime().hangs = true;
  give(*device, all.stream, all.event);
  const TimePoint begun = clock_now();
  give_back(*device, all);
  device.reset();
  EXPECT_EQ(runtime().waits_for_ever, 0U);
  EXPECT_LT(clock_now() - begun, 2 * kDrainMax);
}

TEST_F(CudaDevices, WhatACardThatWorksGaveIsGivenBack) {
  {
    auto device = *open();
    const Given all = take_all(*device);
    device->multiply(all.stream, product_of(1));
    give(*device, all.stream, all.event);
    EXPECT_TRUE(device->wait(all.event, soon()));
    give_back(*device, all);
  }
  EXPECT_TRUE(runtime().memory.empty());
  EXPECT_TRUE(runtime().streams.empty());
  EXPECT_EQ(runtime().descriptions, 0U);
}

// A card that was late: its memory is released again once it has caught up.
TEST_F(CudaDevices, ACardThatWasLateIsUsedAgain) {
  auto device = *open();
  const Given all = take_all(*device);
  runtime().hangs = true;
  give(*device, all.stream, all.event);
  EXPECT_FALSE(device->wait(all.event, soon()));
  runtime().hangs = false;
  for (auto& [stream, hangs] : runtime().streams) hangs = false;
  give_back(*device, all);
  device.reset();
  EXPECT_TRUE(runtime().memory.empty());
}

TEST_F(CudaDevices, AnErrorNamesTheCommandIfTheDeviceWaitsForEach) {
  for (const auto mode : {CudaDevice::Mode::kQueues, CudaDevice::Mode::kWaits}) {
    test::reset_runtime();
    runtime().fails_at = 2;
    auto device = *open(mode);
    EXPECT_EQ(device->captures(), mode == CudaDevice::Mode::kQueues);
    const StreamHandle stream = *device->open_stream(Device::Urgency::kNormal);
    const EventHandle event = *device->make_event();
    device->launch(stream, kernels::device::Fill{1, 0, &value_});
    device->launch(stream, kernels::device::Scale{1, 2, &value_});
    device->record(stream, event);
    const Status broken = device->wait(event, soon());
    ASSERT_FALSE(broken);
    const Error& error = broken.error();
    const bool is_named = error.message.find("kernel Scale: ") != std::string::npos;
    EXPECT_EQ(is_named, mode == CudaDevice::Mode::kWaits) << error.message;
    const bool says_how = error.hint.find("PADDLE_CUDA_SYNC=1") != std::string::npos;
    EXPECT_EQ(says_how, mode == CudaDevice::Mode::kQueues) << error.hint;
    device->close_stream(stream);
    device->destroy_event(event);
  }
}

TEST_F(CudaDevices, Trap33AFullCardIsNotBroken) {
  auto device = *open();
  runtime().memory_left = Products::kScratchBytes - 1;
  const auto refused = device->open_stream(Device::Urgency::kNormal);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kResource);
  EXPECT_EQ(runtime().last, cudaSuccess);
  runtime().memory_left = 2 * Products::kScratchBytes;
  const Given all = take_all(*device);
  runtime().memory_left = 0;
  device->multiply(all.stream, product_of(1));
  device->record(all.stream, all.event);
  EXPECT_TRUE(device->wait(all.event, soon())) << "products need no more memory";
  give_back(*device, all);
}

TEST_F(CudaDevices, Trap30ACardThatOthersUseIsNamedAsSuch) {
  runtime().opens = cudaErrorMemoryAllocation;
  const auto full = open();
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::kResource);
  EXPECT_EQ(full.error().message,
            "card 0 (H100) has no memory left to be opened: other processes use it");
  runtime().opens = cudaErrorDevicesUnavailable;
  const auto taken = open();
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::kResource);
  EXPECT_NE(taken.error().message.find("in use by another process"), std::string::npos);
  runtime().opens = cudaErrorInvalidDevice;
  EXPECT_EQ(open().error().code, Errc::kFailed);
}

TEST_F(CudaDevices, AnAlgorithmWithoutItsOwnStateIsNone) {
  runtime().algorithm_state = CUBLAS_STATUS_NOT_SUPPORTED;
  auto device = *open();
  const Given all = take_all(*device);
  device->multiply(all.stream, product_of(1));
  EXPECT_EQ(runtime().products, 0U);
  const auto broken = device->is_done(all.event);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("cublasLtMatmulAlgoGetHeuristic"), std::string::npos);
  give_back(*device, all);
}

TEST_F(CudaDevices, OfManyFormsOfProductsTheOneUsedLongestAgoIsForgotten) {
  auto device = *open();
  const Given all = take_all(*device);
  constexpr std::size_t kForms = 10'000;
  for (std::size_t m = 2; m < kForms; ++m) {
    device->multiply(all.stream, product_of(m));
    device->multiply(all.stream, product_of(1));  // the full batch
  }
  EXPECT_LE(runtime().descriptions, 4096U);
  EXPECT_EQ(runtime().choices, kForms - 1) << "each form's algorithm is chosen once";
  EXPECT_EQ(runtime().products, 2 * (kForms - 2));
  give_back(*device, all);
}

TEST_F(CudaDevices, Trap32SumsNeverBlockWhateverTheEnvironmentSays) {
  auto device = *open();
  ASSERT_EQ(::setenv("NCCL_COMM_BLOCKING", "1", 1), 0);
  const auto refused = device->begin_join({}, 0, 2, "job");
  ASSERT_EQ(::unsetenv("NCCL_COMM_BLOCKING"), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUsage);
  EXPECT_NE(refused.error().message.find("NCCL_COMM_BLOCKING=1"), std::string::npos);
  EXPECT_EQ(runtime().communicator_name, nullptr);
}

TEST_F(CudaDevices, TheNameOfACommunicatorThatFailedStays) {
  auto device = *open();
  const std::string name = "the name of a job that is not short";
  {
    const auto communicator = *device->begin_join({}, 0, 2, name);
    runtime().nccl_state = ncclSystemError;
    EXPECT_FALSE(communicator->poll());
  }
  EXPECT_EQ(runtime().communicator_name, name) << "NCCL keeps the pointer";
  std::free(const_cast<char*>(runtime().communicator_name));
}

TEST(NcclEnvironment, ClosesTheServiceAndKeepsWhatTheUserHasSet) {
  ASSERT_EQ(::setenv("NCCL_COMM_BLOCKING", "1", 1), 0);
  set_nccl_environment();
  EXPECT_STREQ(std::getenv("NCCL_RAS_ENABLE"), "0");
  EXPECT_STREQ(std::getenv("NCCL_COMM_BLOCKING"), "1");
  ASSERT_EQ(::unsetenv("NCCL_COMM_BLOCKING"), 0);
  ASSERT_EQ(::unsetenv("NCCL_RAS_ENABLE"), 0);
}

}  // namespace
}  // namespace paddle::device

#include "engine/gpu/cuda_driver.h"

#include <cstring>

#include <gtest/gtest.h>

#include "engine/gpu/cuda_errors.h"

namespace paddle::device {
namespace {

TEST(CudaDriver, Trap30WhatIsMissingIsOneSentence) {
  struct Case {
    cudaError_t error;
    int driver;
    const char* visible;
    Errc code;
    const char* message;
  };
  for (const Case& c : {
           Case{
               cudaErrorInsufficientDriver, 0, nullptr, Errc::kResource,
               "this machine has no NVIDIA driver: libcuda.so.1 was not found, or is not a driver"},
           Case{
               cudaErrorStubLibrary, 13000, nullptr, Errc::kResource,
               "this machine has no NVIDIA driver: libcuda.so.1 was not found, or is not a driver"},
           Case{cudaErrorInsufficientDriver, 12040, nullptr, Errc::kVersion,
                "the NVIDIA driver of this machine is for CUDA 12.4; this program needs one for "
                "CUDA 13.0 or later"},
           Case{cudaErrorNoDevice, 13000, nullptr, Errc::kResource,
                "the NVIDIA driver reports no GPU for this process"},
           Case{cudaErrorNoDevice, 13000, "7", Errc::kResource,
                "the NVIDIA driver reports no GPU for this process: CUDA_VISIBLE_DEVICES is '7'"},
           Case{cudaErrorSystemDriverMismatch, 13000, nullptr, Errc::kVersion,
                "the NVIDIA driver in the kernel and its libcuda.so.1 have different versions"},
       }) {
    const Error error = driver_error(c.error, c.driver, 13000, c.visible);
    EXPECT_EQ(error.code, c.code) << c.message;
    EXPECT_EQ(error.message, c.message);
    EXPECT_FALSE(error.hint.empty());
  }
}

TEST(CudaDriver, NamesAPartOfAGpuAsNvidiaSmiDoes) {
  cudaDeviceProp card{};
  for (int i = 0; i < 16; ++i) card.uuid.bytes[i] = static_cast<char>(17 * i);
  std::strcpy(card.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(uuid_of(card), "GPU-00112233-4455-6677-8899-aabbccddeeff");
  std::strcpy(card.name, "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
  EXPECT_EQ(uuid_of(card), "MIG-00112233-4455-6677-8899-aabbccddeeff");
}

// On a machine without a card, too.
TEST(CudaDriver, TellsWhatItHasOrWhatIsMissing) {
  CudaDriver driver;
  const auto cards = driver.cards();
  const std::string text = driver.describe();
  EXPECT_NE(text.find("libcublasLt.so"), text.npos) << text;
  EXPECT_NE(text.find("libnccl.so"), text.npos) << text;
  if (!cards) {
    EXPECT_TRUE(cards.error().code == Errc::kResource || cards.error().code == Errc::kVersion);
    EXPECT_EQ(driver.open(0).error().message, cards.error().message);
    EXPECT_TRUE(text.starts_with(cards.error().message + "\n")) << text;
    return;
  }
  ASSERT_FALSE(cards->empty());
  EXPECT_EQ(cards->front().uuid.substr(3, 1), "-") << cards->front().uuid;
  EXPECT_EQ(cards->front().uuid.size(), 40U);
  EXPECT_GT(cards->front().memory_bytes, 0U);
  EXPECT_EQ(driver.open(static_cast<std::uint32_t>(cards->size())).error().code, Errc::kUsage);
}

}  // namespace
}  // namespace paddle::device

#include "engine/gpu/cuda_driver.h"

#include <cstdlib>
#include <string_view>

#include "engine/gpu/cuda_device.h"
#include "engine/gpu/cuda_errors.h"
#include "engine/gpu/cuda_library.h"

namespace paddle::device {
namespace {

struct Versions {
  int driver = 0;
  int runtime = 0;
};

Versions versions() {
  Versions found;
  cudaDriverGetVersion(&found.driver);
  cudaRuntimeGetVersion(&found.runtime);
  return found;
}

Error refused(cudaError_t error) {
  static_cast<void>(cudaGetLastError());
  const Versions found = versions();
  return driver_error(error, found.driver, found.runtime,
                      std::getenv("CUDA_VISIBLE_DEVICES"));  // NOLINT: no thread sets variables
}

CudaDevice::Mode asked_mode() {
  const char* const waits = std::getenv("PADDLE_CUDA_SYNC");  // NOLINT: no thread sets variables
  return waits != nullptr && std::string_view(waits) == "1" ? CudaDevice::Mode::kWaits
                                                            : CudaDevice::Mode::kQueues;
}

}  // namespace

std::string uuid_of(const cudaDeviceProp& card) {
  constexpr const char* kDigits = "0123456789abcdef";
  const bool is_part = std::string_view(card.name).find(" MIG ") != std::string_view::npos;
  std::string text = is_part ? "MIG" : "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(card.uuid.bytes[i]);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

std::string CudaDriver::describe() {
  const Versions found = versions();
  std::string text;
  if (const auto all = cards(); all) {
    text += "driver for CUDA " + cuda_version(found.driver) + ", program for CUDA " +
            cuda_version(found.runtime) + "\n";
    for (const Card& card : *all) {
      text += name_of(card) + ", " + card.uuid + ", " + std::to_string(card.memory_bytes >> 20U) +
              " MiB\n";
    }
  } else {
    text += all.error().message + "\n";
  }
  const auto folders = library_folders();
  const auto lt = load_lt(folders);
  text += lt ? "cuBLASLt " + std::to_string(lt->version) + ": " + lt->path : lt.error().message;
  const auto nccl = load_nccl(folders);
  text += "\n";
  text += nccl ? "NCCL " + std::to_string(nccl->version) + ": " + nccl->path : nccl.error().message;
  return text + "\n";
}

Result<std::vector<Card>> CudaDriver::cards() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return refused(error);
  }
  std::vector<Card> cards;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, i); error != cudaSuccess) {
      return refused(error);
    }
    cards.push_back({static_cast<std::uint32_t>(i), properties.name, uuid_of(properties),
                     properties.totalGlobalMem});
  }
  return cards;
}

Result<std::unique_ptr<Device>> CudaDriver::open(std::uint32_t index) {
  PADDLE_TRY(const std::vector<Card> all, cards());
  if (index >= all.size()) {
    return Error{Errc::kUsage, "there is no card " + std::to_string(index) + ": this process has " +
                                   std::to_string(all.size())};
  }
  PADDLE_TRY(const LtApi lt, load_lt(library_folders()));
  return CudaDevice::open(
      all[index], lt, [] { return load_nccl(library_folders()); }, asked_mode());
}

}  // namespace paddle::device

#include "engine/gpu/cuda_errors.h"

#include "base/text.h"

namespace paddle::device {

std::string text_of(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

std::string name_of(const Card& card) {
  return "card " + std::to_string(card.index) + " (" + card.name + ")";
}

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Error driver_error(cudaError_t error, int driver, int runtime, const char* visible) {
  if (error == cudaErrorInsufficientDriver && driver > 0) {
    return {Errc::kVersion,
            "the NVIDIA driver of this machine is for CUDA " + cuda_version(driver) +
                "; this program needs one for CUDA " + cuda_version(runtime) + " or later",
            "update the driver"};
  }
  if (driver == 0 || error == cudaErrorStubLibrary) {
    return {Errc::kResource,
            "this machine has no NVIDIA driver: libcuda.so.1 was not found, or is not a driver",
            "install the driver on the machine, or make it available in the container"};
  }
  if (error == cudaErrorSystemDriverMismatch) {
    return {Errc::kVersion,
            "the NVIDIA driver in the kernel and its libcuda.so.1 have different versions",
            "restart the machine after an update of its driver"};
  }
  if (error == cudaErrorNoDevice) {
    std::string message = "the NVIDIA driver reports no GPU for this process";
    if (visible != nullptr) {
      message += ": CUDA_VISIBLE_DEVICES is '" + escape_control(visible) + "'";
    }
    return {Errc::kResource, message, "list the GPUs of the machine: nvidia-smi -L"};
  }
  return {Errc::kResource, "the NVIDIA driver fails: " + text_of(error)};
}

Error open_error(cudaError_t error, const Card& card) {
  constexpr const char* kHint = "list the processes that use it: nvidia-smi";
  if (error == cudaErrorMemoryAllocation) {
    return {Errc::kResource,
            name_of(card) + " has no memory left to be opened: other processes use it", kHint};
  }
  if (error == cudaErrorDevicesUnavailable) {
    return {Errc::kResource,
            name_of(card) + " is in use by another process, and takes one only: its compute mode " +
                "is exclusive, or prohibited",
            kHint};
  }
  return {Errc::kFailed, name_of(card) + ": to open it: " + text_of(error)};
}

}  // namespace paddle::device

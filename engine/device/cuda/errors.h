// Sentences for what CUDA and its driver refuse.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/result.h"
#include "engine/device/device.h"

namespace paddle::device {

// "an illegal memory access was encountered (cudaErrorIllegalAddress)"
std::string text_of(cudaError_t error);
// "card 0 (NVIDIA H100)"
std::string name_of(const Card& card);
// "12.4" of 12040
std::string cuda_version(int version);

// Of the first call to the driver. Versions are those of cudaDriverGetVersion, which is 0 without
// a driver, and of this program's runtime; `visible` is CUDA_VISIBLE_DEVICES, null where unset.
// kVersion: the driver is older than the runtime. kResource: there is none, or it has no card.
Error driver_error(cudaError_t error, int driver, int runtime, const char* visible);

}  // namespace paddle::device

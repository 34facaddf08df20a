// Messages for errors of CUDA and its driver.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/result.h"
#include "engine/gpu/device.h"

namespace paddle::device {

// "an illegal memory access was encountered (cudaErrorIllegalAddress)"
std::string text_of(cudaError_t error);
// "card 0 (NVIDIA H100)"
std::string name_of(const Card& card);
// "12.4" for 12040
std::string cuda_version(int version);

// Error for a first call to the driver that has failed. `driver` is the version from
// cudaDriverGetVersion(), 0 without a driver; `runtime` is the version of this program's runtime;
// `visible` is the value of CUDA_VISIBLE_DEVICES, null if it is not set. kVersion: the driver is
// older than the runtime. kResource: there is no driver, or it has no card.
Error driver_error(cudaError_t error, int driver, int runtime, const char* visible);

// Error for a card that cannot be opened, or that breaks while it is. kResource: it is in use, or
// its memory is.
Error open_error(cudaError_t error, const Card& card);

}  // namespace paddle::device

// CUDA's handles behind a device's.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/device/device.h"

namespace paddle::device {

inline cudaStream_t stream_of(StreamHandle handle) {
  return static_cast<cudaStream_t>(handle.value);
}
inline cudaEvent_t event_of(EventHandle handle) {
  return static_cast<cudaEvent_t>(handle.value);
}
inline cudaGraphExec_t graph_of(GraphHandle handle) {
  return static_cast<cudaGraphExec_t>(handle.value);
}

}  // namespace paddle::device

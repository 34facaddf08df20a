#include "tests/unit/engine/gpu/cuda_fake_runtime.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "engine/gpu/cuda_kernels.h"

namespace paddle::test {
namespace {

FakeRuntime g_runtime;  // NOLINT: as CUDA's own

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) runtime().last = error;
  return error;
}

// A command of a stream; null: of none.
cudaError_t command(cudaStream_t stream) {
  if (runtime().broken != cudaSuccess) return result(runtime().broken);
  if (++runtime().commands == runtime().fails_at) runtime().broken = cudaErrorIllegalAddress;
  if (runtime().hangs) runtime().streams.at(stream) = true;
  return cudaSuccess;
}

cudaError_t state_of(bool hangs) {
  if (runtime().broken != cudaSuccess) return result(runtime().broken);
  return result(hangs ? cudaErrorNotReady : cudaSuccess);
}

bool hangs() {
  return std::ranges::any_of(runtime().streams, [](const auto& stream) { return stream.second; });
}

cudaError_t allocate(void** memory, std::size_t bytes) {
  if (bytes > runtime().memory_left) return result(cudaErrorMemoryAllocation);
  runtime().memory_left -= bytes;
  *memory = std::malloc(1);
  runtime().memory.emplace(*memory, bytes);
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  if (hangs()) ++runtime().waits_for_ever;
  const auto found = runtime().memory.find(memory);
  if (found == runtime().memory.end()) return result(cudaErrorInvalidValue);
  runtime().memory_left += found->second;
  runtime().memory.erase(found);
  std::free(memory);
  return cudaSuccess;
}

// An event is the stream that it was last recorded in.
struct FakeEvent {
  cudaStream_t stream = nullptr;
};

FakeEvent& event_of(cudaEvent_t event) {
  return *reinterpret_cast<FakeEvent*>(event);
}

template <class Handle>
cublasStatus_t make(Handle* handle) {
  *handle = static_cast<Handle>(std::malloc(1));
  return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t destroy(Handle handle) {
  std::free(const_cast<void*>(static_cast<const void*>(handle)));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

FakeRuntime& runtime() {
  return g_runtime;
}

void reset_runtime() {
  for (const auto& [memory, bytes] : g_runtime.memory) std::free(memory);
  for (const auto& [stream, hangs] : g_runtime.streams) std::free(stream);
  for (void* const graph : g_runtime.graphs) std::free(graph);
  g_runtime = {};
}

device::LtApi fake_lt() {
  device::LtApi api;
  api.status_string = [](cublasStatus_t) { return "fake"; };
  api.create = [](cublasLtHandle_t* handle) { return make(handle); };
  api.destroy = [](cublasLtHandle_t handle) {
    if (hangs()) ++runtime().waits_for_ever;
    return destroy(handle);
  };
  api.make_matmul = [](cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
    ++runtime().descriptions;
    return make(made);
  };
  api.destroy_matmul = [](cublasLtMatmulDesc_t made) {
    --runtime().descriptions;
    return destroy(made);
  };
  api.set_matmul = [](cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*,
                      std::size_t) { return CUBLAS_STATUS_SUCCESS; };
  api.make_layout = [](cublasLtMatrixLayout_t* made, cudaDataType, std::uint64_t, std::uint64_t,
                       std::int64_t) { return make(made); };
  api.destroy_layout = [](cublasLtMatrixLayout_t made) { return destroy(made); };
  api.make_preference = [](cublasLtMatmulPreference_t* made) { return make(made); };
  api.destroy_preference = [](cublasLtMatmulPreference_t made) { return destroy(made); };
  api.set_preference = [](cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                          const void*, std::size_t) { return CUBLAS_STATUS_SUCCESS; };
  api.choose = [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                  cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                  cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t results[],
                  int* count) {
    ++runtime().choices;
    results[0].state = runtime().algorithm_state;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
  };
  api.matmul = [](cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
                  cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*,
                  const void*, cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
                  const cublasLtMatmulAlgo_t*, void* scratch, std::size_t bytes,
                  cudaStream_t stream) {
    ++runtime().products;
    const auto found = runtime().memory.find(scratch);
    const bool has_scratch = found != runtime().memory.end() && found->second >= bytes;
    return has_scratch && command(stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                         : CUBLAS_STATUS_EXECUTION_FAILED;
  };
  return api;
}

device::NcclApi fake_nccl() {
  device::NcclApi api;
  api.error_string = [](ncclResult_t) { return "fake"; };
  api.init_rank = [](ncclComm_t* made, int, ncclUniqueId, int, ncclConfig_t* config) {
    static int communicator = 0;
    *made = reinterpret_cast<ncclComm_t>(&communicator);
    runtime().communicator_name = config->commName;
    return ncclInProgress;
  };
  api.get_async_error = [](ncclComm_t, ncclResult_t* state) {
    *state = runtime().nccl_state;
    return ncclSuccess;
  };
  return api;
}

}  // namespace paddle::test

using namespace paddle::test;  // NOLINT: below are CUDA's functions

namespace paddle::device {

cudaError_t launch_kernel(cudaStream_t stream, const kernels::device::Kernel& /*kernel*/) {
  return command(stream);
}
cudaError_t load_kernels() {
  return cudaSuccess;
}

}  // namespace paddle::device

extern "C" {

const char* cudaGetErrorName(cudaError_t) {
  return "fake";
}
const char* cudaGetErrorString(cudaError_t) {
  return "fake";
}
cudaError_t cudaGetLastError() {
  return std::exchange(runtime().last, cudaSuccess);
}
cudaError_t cudaSetDevice(int) {
  return result(runtime().opens);
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 9;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* all) {
  *left = *all = runtime().memory_left;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return allocate(memory, bytes);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return allocate(memory, bytes);
}
cudaError_t cudaFree(void* memory) {
  return release(memory);
}
cudaError_t cudaFreeHost(void* memory) {
  return release(memory);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = static_cast<cudaStream_t>(std::malloc(1));
  runtime().streams.emplace(*stream, false);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  runtime().streams.erase(stream);
  std::free(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return state_of(runtime().streams.at(stream));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = static_cast<cudaGraph_t>(std::malloc(1));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new FakeEvent);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event_of(event).stream = stream;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const cudaStream_t stream = event_of(event).stream;
  return stream == nullptr ? cudaSuccess : state_of(runtime().streams.at(stream));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t, unsigned long long) {
  *made = static_cast<cudaGraphExec_t>(std::malloc(1));
  runtime().graphs.insert(*made);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  std::free(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  if (hangs()) ++runtime().waits_for_ever;
  runtime().graphs.erase(graph);
  std::free(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t stream) {
  return command(stream);
}

cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t stream) {
  return command(stream);
}
cudaError_t cudaMemset2DAsync(void*, std::size_t, int, std::size_t, std::size_t,
                              cudaStream_t stream) {
  return command(stream);
}

}  // extern "C"

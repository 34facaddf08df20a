// Orders and graphs of a CudaDevice. A broken one passes them over.
#include <variant>

#include "base/check.h"
#include "engine/device/cuda/cuda_device.h"
#include "engine/device/cuda/cuda_handles.h"
#include "engine/device/cuda/kernels.h"

namespace paddle::device {
void CudaDevice::record(StreamHandle stream, EventHandle event) {
  if (is_broken()) return;
  use_card();
  check(cudaEventRecord(event_of(event), stream_of(stream)), "to record an event");
}

void CudaDevice::wait_for(StreamHandle stream, EventHandle event) {
  if (is_broken()) return;
  use_card();
  check(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "to wait for an event");
}

void CudaDevice::upload(StreamHandle stream, const std::byte* from, std::byte* to,
                        std::size_t bytes) {
  PADDLE_CHECK(is_pinned(from, bytes));
  if (is_broken() || bytes == 0) return;
  use_card();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_of(stream)), "an upload");
}

void CudaDevice::download(StreamHandle stream, const std::byte* from, std::byte* to,
                          std::size_t bytes) {
  PADDLE_CHECK(is_pinned(to, bytes));
  if (is_broken() || bytes == 0) return;
  use_card();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(stream)), "a download");
}

void CudaDevice::launch(StreamHandle stream, const kernels::device::Kernel& kernel) {
  if (is_broken()) return;
  use_card();
  check(launch_kernel(stream_of(stream), kernel), "kernel " + std::to_string(kernel.index()));
}

void CudaDevice::multiply(StreamHandle stream, const Product& product) {
  if (is_broken()) return;
  use_card();
  if (Status status = products_->multiply(stream_of(stream), product); !status) {
    break_with(std::move(status).error());
  }
}

// Relaxed: cuBLASLt loads its kernels when they are first used, and a stream's first product takes
// memory, which stricter captures forbid. Neither becomes a part of the graph.
void CudaDevice::begin_capture(StreamHandle stream) {
  if (is_broken()) return;
  use_card();
  check(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeRelaxed),
        "to begin a capture");
}

Result<GraphHandle> CudaDevice::end_capture(StreamHandle stream) {
  use_card();
  // Of a device that broke meanwhile, too: the stream would be captured for ever.
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_of(stream), &graph);
  cudaGraphExec_t runnable = nullptr;
  if (!is_broken() && check(ended, "to end a capture")) {
    check(cudaGraphInstantiate(&runnable, graph, 0), "to make a graph");
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (is_broken()) return error();
  return GraphHandle{runnable};
}

void CudaDevice::destroy_graph(GraphHandle graph) {
  use_card();
  check(cudaGraphExecDestroy(graph_of(graph)), "to destroy a graph");
}

void CudaDevice::replay(StreamHandle stream, GraphHandle graph) {
  if (is_broken()) return;
  use_card();
  check(cudaGraphLaunch(graph_of(graph), stream_of(stream)), "a graph");
}

}  // namespace paddle::device

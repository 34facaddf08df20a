#include "engine/gpu/cuda_device.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/gpu/cuda_errors.h"
#include "engine/gpu/cuda_kernels.h"
#include "engine/gpu/kernel_name.h"

namespace paddle::device {
namespace {

// CUDA's handles from those of a device.
cudaStream_t stream_of(StreamHandle handle) {
  return static_cast<cudaStream_t>(handle.value);
}
cudaEvent_t event_of(EventHandle handle) {
  return static_cast<cudaEvent_t>(handle.value);
}
cudaGraphExec_t graph_of(GraphHandle handle) {
  return static_cast<cudaGraphExec_t>(handle.value);
}

constexpr int kMajorMin = 8;  // oldest compute capability that kernels are compiled for
constexpr auto kNap = std::chrono::microseconds(50);
// Limit for a command by Mode::kWaits.
constexpr Duration kCommandMax = std::chrono::seconds(60);
constexpr const char* kHowToName =
    "set PADDLE_CUDA_SYNC=1 in the trainer's environment: the message then names the command";

// Whether `state` is cudaErrorNotReady. Clears CUDA's last error then: CUDA stores
// cudaErrorNotReady there, too, although it is not a failure.
bool is_not_ready(cudaError_t state) {
  if (state != cudaErrorNotReady) return false;
  static_cast<void>(cudaGetLastError());
  return true;
}

// Waits until the stream has run all its commands; cudaErrorNotReady if the deadline passed first.
cudaError_t await(cudaStream_t stream, TimePoint deadline) {
  const TimePoint begun = clock_now();
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (!is_not_ready(state)) return state;
    const TimePoint now = clock_now();
    if (now >= deadline) return state;
    if (now - begun < kSpin) {
      pause_spin();
    } else {
      ::poll(nullptr, 0, 1);
    }
  }
}

std::string bytes_left(std::size_t bytes) {
  std::size_t left = 0;
  std::size_t all = 0;
  const bool is_known = cudaMemGetInfo(&left, &all) == cudaSuccess;
  return " has " + (is_known ? std::to_string(left) + " bytes of" : std::string("no")) +
         " memory left; " + std::to_string(bytes) + " are needed";
}

}  // namespace

CudaDevice::CudaDevice(Card card, LoadNccl nccl, Mode mode)
    : card_(std::move(card)), load_nccl_(std::move(nccl)), mode_(mode) {}

// Streams that are left hang. Releasing the library's memory would wait for them, so it stays with
// the process.
CudaDevice::~CudaDevice() {
  use_card();
  if (!hangs()) return;
  static auto* const left = new std::vector<std::unique_ptr<Products>>;
  left->push_back(std::move(products_));
}

Result<std::unique_ptr<Device>> CudaDevice::open(const Card& card, const LtApi& lt, LoadNccl nccl,
                                                 Mode mode) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(card, std::move(nccl), mode));
  PADDLE_TRY_STATUS(device->start(lt));
  return std::unique_ptr<Device>(std::move(device));
}

Status CudaDevice::start(const LtApi& lt) {
  int major = 0;
  int minor = 0;
  const int index = static_cast<int>(card_.index);
  const auto opened = [this](cudaError_t error) -> Status {
    if (error == cudaSuccess) return {};
    static_cast<void>(cudaGetLastError());
    return open_error(error, card_);
  };
  PADDLE_TRY_STATUS(opened(cudaSetDevice(index)));
  PADDLE_TRY_STATUS(
      opened(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index)));
  PADDLE_TRY_STATUS(
      opened(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index)));
  if (major < kMajorMin) {
    return Error{Errc::kVersion,
                 name_of(card_) + " has compute capability " + std::to_string(major) + "." +
                     std::to_string(minor) + "; this program needs " + std::to_string(kMajorMin) +
                     ".0 or later",
                 "use an A100 or a later GPU"};
  }
  PADDLE_TRY_STATUS(opened(load_kernels()));
  PADDLE_TRY(products_, Products::create(lt).with(name_of(card_)));
  return {};
}

Error CudaDevice::error() const {
  const std::lock_guard lock(mutex_);
  PADDLE_CHECK(error_.has_value());
  return *error_;
}

bool CudaDevice::check(cudaError_t error, std::string_view order, const char* hint) {
  if (error == cudaSuccess) return true;
  break_with({Errc::kFailed, std::string(order) + ": " + text_of(error), hint});
  return false;
}

template <class Name>
void CudaDevice::check_command(cudaError_t given, StreamHandle stream, Name name) {
  cudaError_t state = given;
  if (given == cudaSuccess && mode_ == Mode::kWaits) {
    state = await(stream_of(stream), clock_now() + kCommandMax);
    if (state == cudaErrorNotReady) {
      has_passed_deadline_ = true;
      return break_with({Errc::kFailed, name() + " has not ended within 60 s"});
    }
  }
  if (state != cudaSuccess) check(state, name());
}

void CudaDevice::break_with(Error error) {
  {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    error_ = std::move(error).with(name_of(card_));
    is_broken_.store(true, std::memory_order_release);
  }
  broke_.notify_all();
}

bool CudaDevice::hangs() {
  if (!has_passed_deadline_) return false;
  const bool is_running = std::ranges::any_of(
      streams_, [](const auto& stream) { return is_not_ready(cudaStreamQuery(stream.first)); });
  if (!is_running) has_passed_deadline_ = false;
  return is_running;
}

bool CudaDevice::hangs_after_wait() {
  if (has_passed_deadline_) return hangs();
  const TimePoint deadline = clock_now() + kDrainMax;
  for (const auto& [stream, scratch] : streams_) {
    if (await(stream, deadline) == cudaErrorNotReady) has_passed_deadline_ = true;
  }
  return has_passed_deadline_;
}

Result<std::byte*> CudaDevice::allocate(std::size_t bytes) {
  PADDLE_CHECK(bytes > 0);
  if (is_broken()) return error();
  use_card();
  void* memory = nullptr;
  const cudaError_t failed = cudaMalloc(&memory, bytes);
  if (failed == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // the card itself has not failed
    return Error{Errc::kResource, name_of(card_) + bytes_left(bytes)};
  }
  if (!check(failed, "memory")) return error();
  return static_cast<std::byte*>(memory);
}

// cudaFree() waits for all streams, with no deadline. So does cudaFreeHost().
void CudaDevice::release(std::byte* memory) {
  use_card();
  if (hangs_after_wait()) return;
  check(cudaFree(memory), "to release memory");
}

Result<std::byte*> CudaDevice::allocate_pinned(std::size_t bytes) {
  PADDLE_CHECK(bytes > 0);
  if (is_broken()) return error();
  use_card();
  void* memory = nullptr;
  const cudaError_t failed = cudaHostAlloc(&memory, bytes, cudaHostAllocDefault);
  if (failed == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return Error{Errc::kResource, name_of(card_) + ": cannot allocate " + std::to_string(bytes) +
                                      " bytes of pinned memory"};
  }
  if (!check(failed, "pinned memory")) return error();
  auto* const pinned = static_cast<std::byte*>(memory);
  pinned_.emplace(pinned, bytes);
  return pinned;
}

void CudaDevice::release_pinned(std::byte* memory) {
  PADDLE_CHECK(pinned_.erase(memory) == 1);
  use_card();
  if (hangs_after_wait()) return;
  check(cudaFreeHost(memory), "to release pinned memory");
}

bool CudaDevice::is_pinned(const std::byte* memory, std::size_t bytes) const {
  const auto after = pinned_.upper_bound(memory);
  if (after == pinned_.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  const auto offset = static_cast<std::size_t>(memory - begin);
  return offset <= size && bytes <= size - offset;
}

// Also allocates the stream's scratch memory for products: allocate() distinguishes a full card
// from a broken one, and a product could not.
Result<StreamHandle> CudaDevice::open_stream(Urgency urgency) {
  PADDLE_TRY(std::byte* const scratch, allocate(Products::kScratchBytes));
  int least = 0;
  int greatest = 0;
  cudaStream_t stream = nullptr;
  if (!check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities") ||
      !check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                          urgency == Urgency::kHigh ? greatest : least),
             "to open a stream")) {
    release(scratch);
    return error();
  }
  streams_.emplace(stream, scratch);
  return StreamHandle{stream};
}

// Waits until the stream has run all its commands, for kDrainMax at most.
void CudaDevice::close_stream(StreamHandle handle) {
  const auto of = streams_.find(stream_of(handle));
  PADDLE_CHECK(of != streams_.end());
  use_card();
  if (hangs_after_wait()) return;
  const auto [stream, scratch] = *of;
  streams_.erase(of);
  check(cudaStreamDestroy(stream), "to close a stream");
  check(cudaFree(scratch), "to release memory");
}

Result<EventHandle> CudaDevice::make_event() {
  if (is_broken()) return error();
  use_card();
  cudaEvent_t event = nullptr;
  if (!check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "to make an event")) {
    return error();
  }
  return EventHandle{event};
}

void CudaDevice::destroy_event(EventHandle event) {
  use_card();
  check(cudaEventDestroy(event_of(event)), "to destroy an event");
}

// Commands and graphs. A broken device ignores them.

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

Result<bool> CudaDevice::is_done(EventHandle event) {
  if (is_broken()) return error();
  use_card();
  const cudaError_t state = cudaEventQuery(event_of(event));
  if (is_not_ready(state)) return false;
  if (!check(state, "the work before an event", captures() ? kHowToName : "")) return error();
  return true;
}

Status CudaDevice::wait(EventHandle event, TimePoint deadline) {
  const SteadyClock clock;
  const TimePoint begun = clock.now();
  for (;;) {
    PADDLE_TRY(const bool has_come, is_done(event));
    if (has_come) return {};
    const TimePoint now = clock.now();
    if (now >= deadline) {
      has_passed_deadline_ = true;
      return Error{Errc::kUnreachable,
                   name_of(card_) + " did not finish its work before the deadline"};
    }
    if (now - begun < kSpin) {
      pause_spin();
      continue;
    }
    std::unique_lock lock(mutex_);
    broke_.wait_until(lock, std::min<TimePoint>(now + kNap, deadline),
                      [&] { return error_.has_value(); });
  }
}

void CudaDevice::upload(StreamHandle stream, const std::byte* from, std::byte* to,
                        std::size_t bytes) {
  PADDLE_CHECK(is_pinned(from, bytes));
  if (is_broken() || bytes == 0) return;
  use_card();
  check_command(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_of(stream)), stream,
                [&] { return "an upload of " + std::to_string(bytes) + " bytes"; });
}

void CudaDevice::download(StreamHandle stream, const std::byte* from, std::byte* to,
                          std::size_t bytes) {
  PADDLE_CHECK(is_pinned(to, bytes));
  if (is_broken() || bytes == 0) return;
  use_card();
  check_command(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(stream)), stream,
                [&] { return "a download of " + std::to_string(bytes) + " bytes"; });
}

void CudaDevice::launch(StreamHandle stream, const kernels::device::Kernel& kernel) {
  if (is_broken()) return;
  use_card();
  check_command(launch_kernel(stream_of(stream), kernel), stream,
                [&] { return "kernel " + name_of(kernel); });
}

void CudaDevice::multiply(StreamHandle stream, const Product& product) {
  if (is_broken()) return;
  use_card();
  const cudaStream_t on = stream_of(stream);
  if (Status status = products_->multiply(on, streams_.at(on), product); !status) {
    return break_with(std::move(status).error());
  }
  check_command(cudaSuccess, stream, [&] { return form_of(product); });
}

// Relaxed, because stricter captures forbid what cuBLASLt may still do for a product that has run
// before: load a kernel. It does not become a part of the graph.
void CudaDevice::begin_capture(StreamHandle stream) {
  if (is_broken()) return;
  use_card();
  check(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeRelaxed),
        "to begin a capture");
}

Result<GraphHandle> CudaDevice::end_capture(StreamHandle stream) {
  use_card();
  // Ends the capture even if the device broke meanwhile: otherwise the stream would stay in
  // capture.
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
  if (hangs()) return;
  check(cudaGraphExecDestroy(graph_of(graph)), "to destroy a graph");
}

void CudaDevice::replay(StreamHandle stream, GraphHandle graph) {
  if (is_broken()) return;
  use_card();
  check(cudaGraphLaunch(graph_of(graph), stream_of(stream)), "a graph");
}

Result<const NcclApi*> CudaDevice::nccl() {
  if (!nccl_) {
    PADDLE_TRY(nccl_, load_nccl_());
  }
  return &*nccl_;
}

Result<CommunicatorId> CudaDevice::make_communicator_id() {
  PADDLE_TRY(const NcclApi* const nccl, this->nccl());
  use_card();
  return make_nccl_id(*nccl);
}

Result<std::unique_ptr<Communicator>> CudaDevice::begin_join(const CommunicatorId& id,
                                                             std::uint32_t rank,
                                                             std::uint32_t ranks,
                                                             const std::string& name) {
  if (is_broken()) return error();
  PADDLE_TRY(const NcclApi* const nccl, this->nccl());
  use_card();
  return begin_nccl_join(*nccl, name_of(card_), id, rank, ranks, name);
}

}  // namespace paddle::device

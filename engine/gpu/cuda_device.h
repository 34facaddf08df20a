// Device of an NVIDIA card.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "engine/gpu/cuda_nccl.h"
#include "engine/gpu/cuda_products.h"
#include "engine/gpu/device.h"

namespace paddle::device {

class CudaDevice final : public Device {
 public:
  using LoadNccl = std::function<Result<NcclApi>()>;
  // kWaits: waits for each command, so that an error names the command that caused it, and captures
  // none.
  enum class Mode { kQueues, kWaits };
  // Loads all kernels onto the card. `nccl` is called to load NCCL when sums are first needed.
  // kResource: another process uses the card or its memory.
  static Result<std::unique_ptr<Device>> open(const Card& card, const LtApi& lt, LoadNccl nccl,
                                              Mode mode = Mode::kQueues);
  ~CudaDevice() override;

  const Card& card() const override { return card_; }
  Result<std::byte*> allocate(std::size_t bytes) override;
  void release(std::byte* memory) override;
  Result<std::byte*> allocate_pinned(std::size_t bytes) override;
  void release_pinned(std::byte* memory) override;
  Result<StreamHandle> open_stream(Urgency urgency) override;
  void close_stream(StreamHandle stream) override;
  Result<EventHandle> make_event() override;
  void destroy_event(EventHandle event) override;
  void record(StreamHandle stream, EventHandle event) override;
  void wait_for(StreamHandle stream, EventHandle event) override;
  Result<bool> is_done(EventHandle event) override;
  Status wait(EventHandle event, TimePoint deadline) override;
  void upload(StreamHandle stream, const std::byte* from, std::byte* to,
              std::size_t bytes) override;
  void download(StreamHandle stream, const std::byte* from, std::byte* to,
                std::size_t bytes) override;
  void launch(StreamHandle stream, const kernels::device::Kernel& kernel) override;
  void multiply(StreamHandle stream, const Product& product) override;
  bool captures() const override { return mode_ == Mode::kQueues; }
  void begin_capture(StreamHandle stream) override;
  Result<GraphHandle> end_capture(StreamHandle stream) override;
  void destroy_graph(GraphHandle graph) override;
  void replay(StreamHandle stream, GraphHandle graph) override;
  Result<CommunicatorId> make_communicator_id() override;
  Result<std::unique_ptr<Communicator>> begin_join(const CommunicatorId& id, std::uint32_t rank,
                                                   std::uint32_t ranks,
                                                   const std::string& name) override;

 private:
  CudaDevice(Card card, LoadNccl nccl, Mode mode);
  Status start(const LtApi& lt);
  Result<const NcclApi*> nccl();
  // Makes this card the thread's current one: CUDA has a current card for each thread.
  void use_card() const { cudaSetDevice(static_cast<int>(card_.index)); }
  bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  Error error() const;
  // Records an error, if it is the first; `order` names the failed call. False if there is an
  // error.
  bool check(cudaError_t error, std::string_view order, const char* hint = "");
  // The same for a command that was given to the stream; `name` returns what names it.
  template <class Name>
  void check_command(cudaError_t given, StreamHandle stream, Name name);
  void break_with(Error error);
  // Whether a stream still runs commands although a wait for them has passed its deadline. What
  // waits for the whole card must not be called then: releasing memory, for one.
  bool hangs();
  // The same after a wait of at most kDrainMax for all streams.
  bool hangs_after_wait();
  bool is_pinned(const std::byte* memory, std::size_t bytes) const;

  const Card card_;
  const LoadNccl load_nccl_;
  const Mode mode_;
  std::optional<NcclApi> nccl_;
  std::unique_ptr<Products> products_;
  std::map<cudaStream_t, std::byte*> streams_;      // with scratch memory for products
  std::map<const std::byte*, std::size_t> pinned_;  // address to bytes
  std::atomic<bool> has_passed_deadline_ = false;
  std::atomic<bool> is_broken_ = false;
  mutable std::mutex mutex_;  // guards error_
  std::condition_variable broke_;
  std::optional<Error> error_;
};

}  // namespace paddle::device

// Cards that compute, behind one interface: a device, sums between the cards of ranks, and the
// driver that a program opens devices with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/kernels/device/kernel.h"

namespace paddle::device {

struct Card {
  std::uint32_t index = 0;
  std::string name;
  std::string uuid;  // GPU-..., as nvidia-smi prints it
  std::size_t memory_bytes = 0;
};

// Handles are the device's own; null is none.
struct StreamHandle {
  void* value = nullptr;
  bool operator==(const StreamHandle&) const = default;
};
struct EventHandle {
  void* value = nullptr;
};
struct GraphHandle {
  void* value = nullptr;
};

// Precision of a product's factors; sums are in float32 always.
enum class Precision { kFloat32, kTensorFloat32, kBfloat16 };

// c = op(a) op(b), or += when accumulate, with op(a) m x k and op(b) k x n; all row-major, rows
// stride values apart; then the bias is added to every row, then relu. a and b are bfloat16 where
// precision says so, c and bias float32 always.
struct Product {
  bool transpose_a = false;
  bool transpose_b = false;
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  Precision precision = Precision::kFloat32;
  const void* a = nullptr;
  std::size_t a_stride = 0;
  const void* b = nullptr;
  std::size_t b_stride = 0;
  float* c = nullptr;
  std::size_t c_stride = 0;
  bool accumulate = false;
  const float* bias = nullptr;  // optional
  bool relu = false;
};

// Made by rank 0. The others get it over connections that are proven, as it lets anybody join.
using CommunicatorId = std::array<std::byte, 128>;

// Communicator: this process's rank among the cards that add up. Its calls only begin something;
// poll() tells what has become of it, and the stream's events when a sum is done.
class Communicator {
 public:
  enum class State {
    kReady,     // all that was begun has been taken up; a stream may still compute it
    kUnderWay,  // nothing else may be begun but abort()
  };

  Communicator() = default;
  // Of one that has neither failed nor been aborted: waits for what its streams still compute.
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // An error of any call before, or of another rank, which may come late: only abort() is left
  // then.
  virtual Result<State> poll() = 0;
  // values[i] = the sum over all ranks, in place, with the same bits on each.
  virtual Status begin_sum(StreamHandle stream, float* values, std::size_t count) = 0;
  // Ends this rank's part, and its work on streams, for good. It may take long, or never return: so
  // it is for a thread of its own.
  virtual void abort() = 0;
};

// Card that computes: memory of its own, streams of work that run in order beside each other, and
// events between them. The host only orders work, which runs later. An order that the card refuses
// breaks the device: wait() and all that gives a Result say why from then on, and orders are
// passed over. Not thread-safe, but that is_done() and wait() may be called from any thread.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual const Card& card() const = 0;

  // Of the card. kResource: it has no more, with its name and what is left.
  virtual Result<std::byte*> allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory) = 0;
  // Of the host, pinned: the only memory that upload and download take.
  virtual Result<std::byte*> allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(std::byte* memory) = 0;

  enum class Urgency { kNormal, kHigh };
  virtual Result<StreamHandle> open_stream(Urgency urgency) = 0;
  virtual void close_stream(StreamHandle stream) = 0;
  virtual Result<EventHandle> make_event() = 0;
  virtual void destroy_event(EventHandle event) = 0;

  // The event comes when all that the stream was given before is done.
  virtual void record(StreamHandle stream, EventHandle event) = 0;
  // Later orders of the stream start after the event, if that was ever recorded.
  virtual void wait_for(StreamHandle stream, EventHandle event) = 0;
  virtual Result<bool> is_done(EventHandle event) = 0;
  // kUnreachable: the deadline passed.
  virtual Status wait(EventHandle event, TimePoint deadline) = 0;

  // In the order of the stream. PADDLE_CHECKs that the host's side is pinned.
  virtual void upload(StreamHandle stream, const std::byte* from, std::byte* to,
                      std::size_t bytes) = 0;
  virtual void download(StreamHandle stream, const std::byte* from, std::byte* to,
                        std::size_t bytes) = 0;
  virtual void launch(StreamHandle stream, const kernels::device::Kernel& kernel) = 0;
  virtual void multiply(StreamHandle stream, const Product& product) = 0;

  // The orders between the two are kept as a graph and not run; pointers in it stay
  // as they are. While a stream is captured no memory is allocated and no event asked.
  virtual void begin_capture(StreamHandle stream) = 0;
  virtual Result<GraphHandle> end_capture(StreamHandle stream) = 0;
  virtual void destroy_graph(GraphHandle graph) = 0;
  virtual void replay(StreamHandle stream, GraphHandle graph) = 0;

  // kResource: there is no library for sums between cards, with the paths tried; kVersion: it is
  // of another version than this program needs.
  virtual Result<CommunicatorId> make_communicator_id() { return no_sums(); }
  // Begins to join: the communicator is there for use when poll() says so. `name` is for messages.
  virtual Result<std::unique_ptr<Communicator>> begin_join(const CommunicatorId& id,
                                                           std::uint32_t rank, std::uint32_t ranks,
                                                           const std::string& name) {
    (void)id, (void)rank, (void)ranks, (void)name;
    return no_sums();
  }

 private:
  static Error no_sums() {
    return {Errc::kResource, "this device has no library for sums between cards"};
  }
};

// The stream of a card that a trainer computes on.
struct Lane {
  Device* device = nullptr;
  StreamHandle stream;
};

// Waits of a process for its own card alone, in which no other process takes part.

// A card that passes a deadline has failed. A peer that cannot be reached is another failure, after
// which a trainer may join its job again.
inline Status as_own(Status of_card) {
  if (of_card || of_card.error().code != Errc::kUnreachable) return of_card;
  Error error = std::move(of_card).error();
  error.code = Errc::kFailed;
  return error;
}

// Waits until the stream has run all that it was given, before memory goes that it uses. Only
// briefly: the work of a whole card is done by then, and one that hangs keeps its memory.
constexpr Duration kDrainMax = std::chrono::seconds(5);
inline void drain(Device& device, StreamHandle stream, EventHandle event) {
  device.record(stream, event);
  static_cast<void>(device.wait(event, SteadyClock().now() + kDrainMax));
}

// Access to the cards of this machine. A program has one driver or none; `paddle` has none,
// `paddle-gpu` has CUDA's.
class Driver {
 public:
  Driver() = default;
  virtual ~Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // For `paddle version`: the driver and libraries it would use, one a line, or what is missing.
  virtual std::string describe() = 0;
  // kVersion: the driver is too old; kResource: there is no driver, no card or a library missing,
  // each with its name and the paths tried.
  virtual Result<std::vector<Card>> cards() = 0;
  // kUsage: no such card, with the number of those there are.
  virtual Result<std::unique_ptr<Device>> open(std::uint32_t index) = 0;
};

// Set once, by main; null where this program has none.
void set_driver(Driver* driver);
Driver* driver();

}  // namespace paddle::device

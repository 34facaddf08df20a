// Interface of cards that compute: a device, sums between the cards of ranks, and the driver that a
// program opens devices with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/math/card_kernel.h"

namespace paddle::device {

struct Card {
  std::uint32_t index = 0;
  std::string name;
  std::string uuid;  // GPU-... or MIG-..., as nvidia-smi prints it
  std::size_t memory_bytes = 0;
};

// Handles of a device's objects. A null value stands for no object.
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

// Precision of a product's factors; sums are always in float32.
enum class Precision { kFloat32, kTensorFloat32, kBfloat16 };

// c = op(a) op(b), or += when accumulate, with op(a) m x k and op(b) k x n; all row-major, with
// rows `stride` values apart; then the bias is added to every row, then relu. a and b are bfloat16
// if precision is kBfloat16; c and bias are always float32. relu may make 0 of NaN: libraries
// compute it as max(x, 0).
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

// Id of a communicator, made by rank 0. It must reach the other ranks over authenticated
// connections only: any process that knows it can join.
using CommunicatorId = std::array<std::byte, 128>;

// Communicator: this process's rank in the sums between cards. Its calls only begin an operation.
// poll() returns whether the library has accepted it, and an event of the stream shows when a sum
// is done.
class Communicator {
 public:
  enum class State {
    kReady,     // all operations are accepted; a stream may still compute them
    kUnderWay,  // an operation is being accepted; only poll() and abort() may be called
  };

  Communicator() = default;
  // Waits for what its streams still compute, if the communicator has neither failed nor been
  // aborted.
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Error: an earlier call failed, or another rank did, which may be noticed late. Only abort() may
  // be called after an error.
  virtual Result<State> poll() = 0;
  // values[i] = the sum over all ranks, in place, with the same bits on each.
  virtual Status begin_sum(StreamHandle stream, float* values, std::size_t count) = 0;
  // Ends this rank's part, and its work on streams, for good. It may take long, or never return, so
  // it must be called on a thread of its own.
  virtual void abort() = 0;
};

// Card that computes. It has its own memory, streams and events. The commands of a stream run in
// order; streams run in parallel, and events order commands between them. The host only gives
// commands, which run later. A command that the card refuses breaks the device: from then on,
// wait() and all functions with a Result return the error, and commands are ignored. Not
// thread-safe, except is_done() and wait(), which any thread may call.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual const Card& card() const = 0;

  // Memory of the card. kResource: it has too little; the message names the card and the bytes
  // left.
  virtual Result<std::byte*> allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory) = 0;
  // Pinned memory of the host, the only host memory that upload() and download() accept.
  virtual Result<std::byte*> allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(std::byte* memory) = 0;

  enum class Urgency { kNormal, kHigh };
  virtual Result<StreamHandle> open_stream(Urgency urgency) = 0;
  virtual void close_stream(StreamHandle stream) = 0;
  virtual Result<EventHandle> make_event() = 0;
  virtual void destroy_event(EventHandle event) = 0;

  // The event is done when all earlier commands of the stream are done.
  virtual void record(StreamHandle stream, EventHandle event) = 0;
  // Later commands of the stream start after the event is done, if it was ever recorded.
  virtual void wait_for(StreamHandle stream, EventHandle event) = 0;
  virtual Result<bool> is_done(EventHandle event) = 0;
  // kUnreachable: the deadline passed.
  virtual Status wait(EventHandle event, TimePoint deadline) = 0;

  // Commands, which run in the order of the stream. PADDLE_CHECKs that memory of the host is
  // pinned.
  virtual void upload(StreamHandle stream, const std::byte* from, std::byte* to,
                      std::size_t bytes) = 0;
  virtual void download(StreamHandle stream, const std::byte* from, std::byte* to,
                        std::size_t bytes) = 0;
  virtual void launch(StreamHandle stream, const kernels::device::Kernel& kernel) = 0;
  virtual void multiply(StreamHandle stream, const Product& product) = 0;

  // Whether commands may be captured. False while a search for a fault has the device wait after
  // each command.
  virtual bool captures() const { return true; }
  // Commands between begin_capture() and end_capture() are recorded in a graph and do not run.
  // Pointers are recorded as they are. REQUIRES: meanwhile no memory is allocated and no event is
  // queried, and every product has run before: a device chooses the algorithm of a product when it
  // first runs, which libraries may refuse within a capture.
  virtual void begin_capture(StreamHandle stream) = 0;
  virtual Result<GraphHandle> end_capture(StreamHandle stream) = 0;
  virtual void destroy_graph(GraphHandle graph) = 0;
  virtual void replay(StreamHandle stream, GraphHandle graph) = 0;

  // kResource: there is no library for sums between cards; the message lists the paths tried.
  // kVersion: the library has another version than this program needs.
  virtual Result<CommunicatorId> make_communicator_id() { return no_sums(); }
  // Begins to join. The communicator may be used when its poll() returns kReady. `name` is for
  // messages.
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

// How a thread waits for a card: it spins for as long as most steps take, because a sleeping thread
// wakes up to 0.1 ms late, and then sleeps between looks.
constexpr Duration kSpin = std::chrono::milliseconds(2);
// Between two looks of a thread that spins: lets the other thread of its core work.
inline void pause_spin() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The stream of a card on which a trainer computes.
struct ComputeStream {
  Device* device = nullptr;
  StreamHandle stream;
};

// Waits of a process for its own card, which do not depend on other processes.

// Turns kUnreachable into kFailed: a card that passes a deadline has failed. kUnreachable is kept
// for peers that cannot be reached; after that error a trainer may join its job again.
inline Status as_own(Status of_card) {
  if (of_card || of_card.error().code != Errc::kUnreachable) return of_card;
  Error error = std::move(of_card).error();
  error.code = Errc::kFailed;
  return error;
}

// Waits until the stream has run all its commands; called before the memory that they use is
// released. Gives up after kDrainMax: a card that works is done by then, and the memory of a card
// that hangs is not released.
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

  // For `paddle version`: the driver and libraries that the program would use, one per line, or
  // what is missing.
  virtual std::string describe() = 0;
  // kVersion: the driver is too old; kResource: there is no driver, no card, or a library is
  // missing; the message has its name and the paths tried.
  virtual Result<std::vector<Card>> cards() = 0;
  // kUsage: there is no such card; the message has the number of cards.
  virtual Result<std::unique_ptr<Device>> open(std::uint32_t index) = 0;
};

// Set once, by main(), before any thread starts. driver() returns null if the program has none.
void set_driver(Driver* driver);
Driver* driver();

}  // namespace paddle::device

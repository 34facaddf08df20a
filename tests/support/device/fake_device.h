// Device of host memory, for tests. Orders run late, in a legal order chosen by a seed. It ends the
// program with a sentence (violation) where a rule is broken:
// memory of the card that the host touches, or that an order yet to run names when it is released;
// a stream, event, graph or block that is released twice or never; anything asked while a stream is
// captured; a product captured before it ran once; a graph that names memory that is gone; memory
// that is allocated or released beside a sum, for which a card may wait, however long.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/gpu/device.h"
#include "tests/support/device/fake_communicator.h"
#include "tests/support/device/fake_memory.h"
#include "tests/support/device/fake_streams.h"

namespace paddle::test {

struct FakeDeviceOptions {
  device::Card card = {0, "Fake", "GPU-fake-0", std::size_t{1} << 30U};
  std::uint64_t seed = kLate;
  bool captures = true;
};

class FakeDevice final : public device::Device {
 public:
  explicit FakeDevice(FakeDeviceOptions options = {});
  ~FakeDevice() override;

  // The nth order given from now on, from 1, fails when it runs, as if the card fell off the bus.
  // Marks of streams are not counted, orders of a graph are, at each replay.
  void fail_order(std::uint64_t nth);
  // It never ends; waits for it pass their deadlines.
  void hang_order(std::uint64_t nth);
  void set_sum_faults(FakeSumFaults faults);
  // Orders given, to be run or captured; what a graph replays is counted once, when captured.
  struct Counts {
    std::size_t uploads = 0;
    std::size_t downloads = 0;
    std::size_t kernels = 0;
    std::size_t products = 0;
    std::size_t replays = 0;
    std::size_t sums = 0;
    std::size_t allocations = 0;  // of both kinds of memory
  };
  Counts counts() const;
  std::size_t memory_used() const;
  std::size_t memory_most() const;  // at any time

  const device::Card& card() const override { return card_; }
  Result<std::byte*> allocate(std::size_t bytes) override;
  void release(std::byte* memory) override;
  Result<std::byte*> allocate_pinned(std::size_t bytes) override;
  void release_pinned(std::byte* memory) override;
  Result<device::StreamHandle> open_stream(Urgency urgency) override;
  void close_stream(device::StreamHandle stream) override;
  Result<device::EventHandle> make_event() override;
  void destroy_event(device::EventHandle event) override;
  void record(device::StreamHandle stream, device::EventHandle event) override;
  void wait_for(device::StreamHandle stream, device::EventHandle event) override;
  Result<bool> is_done(device::EventHandle event) override;
  Status wait(device::EventHandle event, TimePoint deadline) override;
  void upload(device::StreamHandle stream, const std::byte* from, std::byte* to,
              std::size_t bytes) override;
  void download(device::StreamHandle stream, const std::byte* from, std::byte* to,
                std::size_t bytes) override;
  void launch(device::StreamHandle stream, const kernels::device::Kernel& kernel) override;
  void multiply(device::StreamHandle stream, const device::Product& product) override;
  bool captures() const override { return captures_; }
  void begin_capture(device::StreamHandle stream) override;
  Result<device::GraphHandle> end_capture(device::StreamHandle stream) override;
  void destroy_graph(device::GraphHandle graph) override;
  void replay(device::StreamHandle stream, device::GraphHandle graph) override;
  Result<device::CommunicatorId> make_communicator_id() override;
  Result<std::unique_ptr<device::Communicator>> begin_join(const device::CommunicatorId& id,
                                                           std::uint32_t rank, std::uint32_t ranks,
                                                           const std::string& name) override;

 private:
  friend class FakeCommunicator;
  struct Event {
    std::shared_ptr<Mark> mark;  // null: it was never recorded
  };
  struct Graph {
    std::vector<Order> orders;
  };
  struct Capture {
    FakeStream* stream;
    std::unique_ptr<Graph> graph;
  };
  // While it lives, orders may run. They open the memory that they name.
  class Running {
   public:
    explicit Running(FakeDevice& device) : device_(device) {}
    ~Running() { device_.memory_.close(); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    FakeDevice& device_;
  };

  // All that follow hold mutex_.
  FakeStream* stream_of(device::StreamHandle handle) const;
  Event& event_of(device::EventHandle handle) const;
  Graph& graph_of(device::GraphHandle handle) const;
  // The order runs or is captured.
  void give(device::StreamHandle stream, Command command);
  // A library chooses a product's algorithm when its form first runs.
  void choose(device::StreamHandle stream, const device::Product& product);
  void enqueue(FakeStream* stream, Order order);
  std::vector<const std::byte*> uses_of(const Command& command) const;
  void expect_no_use(const std::byte* memory) const;
  void expect_no_capture(const std::string& call) const;
  void expect_may_move(const std::string& call) const;
  FakeStreams::Ran run(const Order& order);
  FakeStreams::Ran run_sum(const Sum& sum);
  void give_sum(device::StreamHandle stream, Sum sum);
  // False: the mark has not come by then, or the device broke.
  bool await(std::unique_lock<std::mutex>& lock, const Mark& mark, TimePoint deadline);

  using ProductForm = std::array<std::size_t, 8>;

  const device::Card card_;
  const bool captures_;
  mutable std::mutex mutex_;
  std::condition_variable broke_;
  FakeMemory memory_{"the card", FakeMemory::Access::kWhileOpen};
  FakeMemory pinned_{"the host that is pinned", FakeMemory::Access::kAlways};
  FakeStreams streams_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::optional<Capture> capture_;
  std::set<ProductForm> chosen_;
  std::optional<Error> error_;  // it is broken
  bool has_hung_ = false;
  std::uint64_t orders_ = 0;
  std::uint64_t fails_ = 0;  // the number of the order; 0: none
  std::uint64_t hangs_ = 0;
  std::size_t memory_most_ = 0;
  Counts counts_;
  FakeSumFaults sum_faults_;
  std::vector<UniqueFd> hubs_;  // of the ids that it made
  std::size_t communicators_ = 0;
};

}  // namespace paddle::test

// Orders and graphs of a FakeDevice.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/support/device/fake_device.h"

namespace paddle::test {

using device::EventHandle;
using device::GraphHandle;
using device::StreamHandle;

void FakeDevice::upload(StreamHandle stream, const std::byte* from, std::byte* to,
                        std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  ++counts_.uploads;
  give(stream, Upload{from, to, bytes});
}

void FakeDevice::download(StreamHandle stream, const std::byte* from, std::byte* to,
                          std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  ++counts_.downloads;
  give(stream, Download{from, to, bytes});
}

void FakeDevice::launch(StreamHandle stream, const kernels::device::Kernel& kernel) {
  const std::lock_guard lock(mutex_);
  ++counts_.kernels;
  give(stream, kernel);
}

void FakeDevice::multiply(StreamHandle stream, const device::Product& product) {
  const std::lock_guard lock(mutex_);
  ++counts_.products;
  choose(stream, product);
  give(stream, product);
}

void FakeDevice::begin_capture(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  FakeStream* const on = stream_of(stream);
  if (!captures_) violation("a capture begins on a device that has none");
  if (capture_) violation("a second capture begins");
  capture_ = Capture{on, std::make_unique<Graph>()};
}

Result<GraphHandle> FakeDevice::end_capture(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  if (!capture_ || capture_->stream != stream_of(stream)) {
    violation("a capture ends that has not begun");
  }
  auto graph = std::move(capture_->graph);
  capture_.reset();
  if (error_) return *error_;
  graphs_.push_back(std::move(graph));
  return GraphHandle{graphs_.back().get()};
}

void FakeDevice::destroy_graph(GraphHandle graph) {
  const std::lock_guard lock(mutex_);
  const Graph& own = graph_of(graph);
  if (!has_hung_ && streams_.any_of([&](const Order& order) { return order.graph == &own; })) {
    violation("a graph is destroyed before it was replayed");
  }
  std::erase_if(graphs_, [&](const auto& one) { return one.get() == &own; });
}

void FakeDevice::replay(StreamHandle stream, GraphHandle graph) {
  const std::lock_guard lock(mutex_);
  FakeStream* const on = stream_of(stream);
  if (capture_ && capture_->stream == on) violation("a graph is replayed in a graph");
  const Graph& own = graph_of(graph);
  ++counts_.replays;
  for (const Order& order : own.orders) {
    for (const std::byte* memory : order.uses) {
      if (memory_.block_of(memory) == nullptr && pinned_.block_of(memory) == nullptr) {
        violation("a graph is replayed that names memory that was released");
      }
    }
    if (error_) continue;
    Order again = order;
    again.graph = &own;
    enqueue(on, std::move(again));
  }
}

void FakeDevice::give_sum(StreamHandle stream, Sum sum) {
  FakeStream* const on = stream_of(stream);
  if (capture_ && capture_->stream == on) {
    violation("a sum is captured: nobody could abort it alone");
  }
  ++counts_.sums;
  FakeRank& rank = *sum.rank;
  // Sums of one communicator are in order, whatever their streams.
  if (rank.last != nullptr) enqueue(on, {WaitFor{rank.last}});
  rank.last = std::make_shared<Mark>(Mark{on});
  give(stream, sum);
  enqueue(on, {Reach{rank.last}});
}

void FakeDevice::give(StreamHandle stream, Command command) {
  FakeStream* const on = stream_of(stream);
  if (error_) return;
  auto uses = uses_of(command);
  Order order{std::move(command), 0, std::move(uses)};
  if (capture_ && capture_->stream == on) {
    capture_->graph->orders.push_back(std::move(order));
  } else {
    enqueue(on, std::move(order));
  }
}

void FakeDevice::choose(StreamHandle stream, const device::Product& p) {
  if (p.m == 0 || p.n == 0 || p.k == 0) return;
  const std::size_t form = (p.transpose_a ? 1 : 0) | (p.transpose_b ? 2 : 0) |
                           (p.accumulate ? 4 : 0) | (p.bias != nullptr ? 8 : 0) | (p.relu ? 16 : 0);
  const bool is_new = chosen_
                          .insert({form, static_cast<std::size_t>(p.precision), p.m, p.n, p.k,
                                   p.a_stride, p.b_stride, p.c_stride})
                          .second;
  if (is_new && capture_ && capture_->stream == stream_of(stream)) {
    violation("a product is captured that has not run: its algorithm is chosen when it first runs");
  }
}

void FakeDevice::enqueue(FakeStream* stream, Order order) {
  if (!is_mark(order)) order.number = ++orders_;
  if (const auto* const download = std::get_if<Download>(&order.command)) {
    // The host has no business there until the event after it; an upload that comes before may.
    const bool is_read = streams_.any_of([&](const Order& other) {
      const auto* const upload = std::get_if<Upload>(&other.command);
      return upload != nullptr && upload->from < download->to + download->bytes &&
             download->to < upload->from + upload->bytes;
    });
    if (!is_read) std::memset(download->to, kPoison, download->bytes);
  }
  const Running running(*this);
  streams_.give(stream, std::move(order));
}

std::vector<const std::byte*> FakeDevice::uses_of(const Command& command) const {
  std::vector<const std::byte*> uses;
  const auto use = [&](const FakeMemory& memory, const void* from, std::size_t bytes,
                       const char* user) {
    memory.expect_within(from, bytes, user);
    uses.push_back(memory.block_of(from));
  };
  if (const auto* const upload = std::get_if<Upload>(&command)) {
    use(pinned_, upload->from, upload->bytes, "an upload");
    use(memory_, upload->to, upload->bytes, "an upload");
  } else if (const auto* const download = std::get_if<Download>(&command)) {
    use(memory_, download->from, download->bytes, "a download");
    use(pinned_, download->to, download->bytes, "a download");
  } else if (const auto* const kernel = std::get_if<kernels::device::Kernel>(&command)) {
    visit_pointers(*kernel, [&](const void* pointer) { use(memory_, pointer, 0, "a kernel"); });
  } else if (const auto* const product = std::get_if<device::Product>(&command)) {
    visit_operands(*product, [&](const void* operand, std::size_t bytes) {
      use(memory_, operand, bytes, "a product");
    });
  } else if (const auto* const sum = std::get_if<Sum>(&command)) {
    use(memory_, sum->values, sum->count * sizeof(float), "a sum");
  }
  return uses;
}

void FakeDevice::expect_no_use(const std::byte* memory) const {
  const bool is_used = streams_.any_of([&](const Order& order) {
    return std::ranges::find(order.uses, memory) != order.uses.end();
  });
  // Nobody can wait for an order that never ends.
  if (is_used && !has_hung_) violation("memory is released that an order yet to run names");
}

void FakeDevice::expect_no_capture(const std::string& call) const {
  if (capture_) violation(call + " while a stream is captured");
}

void FakeDevice::expect_may_move(const std::string& call) const {
  expect_no_capture(call);
  const bool has_sum = streams_.any_of(
      [](const Order& order) { return std::holds_alternative<Sum>(order.command); });
  if (has_sum && !has_hung_) violation(call + " beside a sum: a card may wait for it first");
}

FakeStreams::Ran FakeDevice::run(const Order& order) {
  if (!is_mark(order) && order.number == fails_) {
    error_ = Error{Errc::kFailed, "card " + std::to_string(card_.index) + " (" + card_.name +
                                      ") fell off the bus"};
    broke_.notify_all();
    return FakeStreams::Ran::kBroke;
  }
  if (!is_mark(order) && order.number == hangs_) {
    has_hung_ = true;
    return FakeStreams::Ran::kNeverEnds;
  }
  const auto* const kernel = std::get_if<kernels::device::Kernel>(&order.command);
  if (kernel != nullptr && has_table(*kernel)) {
    memory_.open_all();
  } else {
    memory_.open(order.uses);
  }
  if (const auto* const sum = std::get_if<Sum>(&order.command)) return run_sum(*sum);
  compute(order.command, order.number);
  return FakeStreams::Ran::kDone;
}

FakeStream* FakeDevice::stream_of(StreamHandle handle) const {
  if (!streams_.has(handle.value)) violation("there is no such stream, or it was closed");
  return static_cast<FakeStream*>(handle.value);
}

FakeDevice::Event& FakeDevice::event_of(EventHandle handle) const {
  const auto found = std::ranges::find(events_, handle.value, &std::unique_ptr<Event>::get);
  if (found == events_.end()) violation("there is no such event, or it was destroyed");
  return **found;
}

FakeDevice::Graph& FakeDevice::graph_of(GraphHandle handle) const {
  const auto found = std::ranges::find(graphs_, handle.value, &std::unique_ptr<Graph>::get);
  if (found == graphs_.end()) violation("there is no such graph, or it was destroyed");
  return **found;
}

}  // namespace paddle::test

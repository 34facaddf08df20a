#include "tests/support/device/fake_device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace paddle::test {

using device::EventHandle;
using device::GraphHandle;
using device::StreamHandle;

FakeDevice::FakeDevice(FakeDeviceOptions options)
    : card_(std::move(options.card)),
      captures_(options.captures),
      streams_(options.seed, [this](const Order& order) { return run(order); }) {}

FakeDevice::~FakeDevice() {
  const std::array<std::pair<std::size_t, const char*>, 6> left = {{
      {communicators_, "communicators"},
      {streams_.size(), "streams"},
      {events_.size(), "events"},
      {graphs_.size(), "graphs"},
      {memory_.blocks(), "blocks of memory"},
      {pinned_.blocks(), "blocks of pinned memory"},
  }};
  for (const auto& [count, of] : left) {
    if (count > 0) violation(std::to_string(count) + " " + of + " outlive the device");
  }
}

void FakeDevice::fail_order(std::uint64_t nth) {
  const std::lock_guard lock(mutex_);
  fails_ = orders_ + nth;
}

void FakeDevice::hang_order(std::uint64_t nth) {
  const std::lock_guard lock(mutex_);
  hangs_ = orders_ + nth;
}

FakeDevice::Counts FakeDevice::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::size_t FakeDevice::memory_used() const {
  const std::lock_guard lock(mutex_);
  return memory_.used();
}

std::size_t FakeDevice::memory_most() const {
  const std::lock_guard lock(mutex_);
  return memory_most_;
}

Result<std::byte*> FakeDevice::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  expect_may_move("memory is allocated");
  if (error_) return *error_;
  if (const std::size_t left = card_.memory_bytes - memory_.used(); bytes > left) {
    return Error{Errc::kResource, "card " + std::to_string(card_.index) + " (" + card_.name +
                                      ") has " + std::to_string(left) + " bytes of memory left; " +
                                      std::to_string(bytes) + " are needed"};
  }
  ++counts_.allocations;
  std::byte* const memory = memory_.allocate(bytes);
  memory_most_ = std::max(memory_most_, memory_.used());
  return memory;
}

void FakeDevice::release(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  expect_may_move("memory is released");
  expect_no_use(memory);
  memory_.release(memory);
}

Result<std::byte*> FakeDevice::allocate_pinned(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  expect_may_move("pinned memory is allocated");
  if (error_) return *error_;
  ++counts_.allocations;
  return pinned_.allocate(bytes);
}

void FakeDevice::release_pinned(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  expect_may_move("pinned memory is released");
  expect_no_use(memory);
  pinned_.release(memory);
}

Result<StreamHandle> FakeDevice::open_stream(Urgency /*urgency*/) {
  const std::lock_guard lock(mutex_);
  if (error_) return *error_;
  return StreamHandle{streams_.open()};
}

void FakeDevice::close_stream(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  expect_no_capture("a stream is closed");
  const Running running(*this);
  if (!streams_.close(stream_of(stream)) && !error_ && !has_hung_) {
    violation("a stream is closed with a sum under way: wait for it, or abort it");
  }
}

Result<EventHandle> FakeDevice::make_event() {
  const std::lock_guard lock(mutex_);
  if (error_) return *error_;
  events_.push_back(std::make_unique<Event>());
  return EventHandle{events_.back().get()};
}

void FakeDevice::destroy_event(EventHandle event) {
  const std::lock_guard lock(mutex_);
  const Event& own = event_of(event);
  std::erase_if(events_, [&](const auto& one) { return one.get() == &own; });
}

void FakeDevice::record(StreamHandle stream, EventHandle event) {
  const std::lock_guard lock(mutex_);
  FakeStream* const on = stream_of(stream);
  if (capture_ && capture_->stream == on) {
    violation("an event is recorded in a graph: record it after the replay");
  }
  Event& recorded = event_of(event);
  if (error_) return;
  recorded.mark = std::make_shared<Mark>(Mark{on});
  enqueue(on, {Reach{recorded.mark}});
}

void FakeDevice::wait_for(StreamHandle stream, EventHandle event) {
  const std::lock_guard lock(mutex_);
  FakeStream* const on = stream_of(stream);
  if (capture_ && capture_->stream == on) {
    violation("a stream that is captured waits for an event: wait before the replay");
  }
  const Event& awaited = event_of(event);
  if (error_ || awaited.mark == nullptr) return;
  enqueue(on, {WaitFor{awaited.mark}});
}

Result<bool> FakeDevice::is_done(EventHandle event) {
  const std::lock_guard lock(mutex_);
  expect_no_capture("an event is asked for");
  const auto mark = event_of(event).mark;
  if (mark != nullptr && !mark->is_done && !error_) {
    const Running running(*this);
    streams_.run_towards(*mark);
  }
  if (error_) return *error_;
  return mark == nullptr || mark->is_done;
}

bool FakeDevice::await(std::unique_lock<std::mutex>& lock, const Mark& mark, TimePoint deadline) {
  while (!error_) {
    {
      const Running running(*this);
      if (streams_.run_until(mark)) return true;
    }
    const TimePoint now = SteadyClock().now();
    if (error_ || now >= deadline) return false;
    // Other cards may come.
    broke_.wait_until(lock, std::min(deadline, now + std::chrono::microseconds(200)));
  }
  return false;
}

Status FakeDevice::wait(EventHandle event, TimePoint deadline) {
  std::unique_lock lock(mutex_);
  expect_no_capture("an event is waited for");
  const auto mark = event_of(event).mark;
  const bool has_come = mark == nullptr || await(lock, *mark, deadline);
  if (error_) return *error_;
  if (has_come) return {};
  return Error{Errc::kUnreachable, "card " + std::to_string(card_.index) + " (" + card_.name +
                                       ") did not finish its work before the deadline"};
}

}  // namespace paddle::test

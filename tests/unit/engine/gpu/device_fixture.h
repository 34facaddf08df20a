// Values on a fake card, and what the host reads of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/gpu/handles.h"
#include "tests/support/device/fake_device.h"

namespace paddle::device {

// An error fails the test that runs, and no other one.
template <class T>
T expect(Result<T> result) {
  if (!result) throw std::runtime_error("the test: " + result.error().message);
  return *std::move(result);
}
inline void expect(const Status& status) {
  if (!status) throw std::runtime_error("the test: " + status.error().message);
}

inline TimePoint in_seconds(int count) {
  return SteadyClock().now() + std::chrono::seconds(count);
}

inline test::FakeDeviceOptions with_seed(std::uint64_t seed) {
  test::FakeDeviceOptions options;
  options.seed = seed;
  return options;
}

template <class T, Place place>
Memory<T, place> memory_of(Device& device, std::size_t count) {
  Memory<T, place> memory(device);
  expect(memory.reserve(count));
  return memory;
}

template <class T>
PinnedMemory<T> pinned(Device& device, const std::vector<T>& values) {
  auto memory = memory_of<T, Place::kPinned>(device, values.size());
  std::copy(values.begin(), values.end(), memory.data());
  return memory;
}

template <class T>
void upload(Device& device, const Stream& stream, const PinnedMemory<T>& from, T* to) {
  device.upload(stream.handle(), reinterpret_cast<const std::byte*>(from.data()),
                reinterpret_cast<std::byte*>(to), from.capacity() * sizeof(T));
}
template <class T>
void download(Device& device, const Stream& stream, const T* from, const PinnedMemory<T>& to) {
  device.download(stream.handle(), reinterpret_cast<const std::byte*>(from),
                  reinterpret_cast<std::byte*>(to.data()), to.capacity() * sizeof(T));
}

// Waits for all that the stream was given.
inline Status finish(Device& device, const Stream& stream) {
  PADDLE_TRY(const Event event, Event::make(device));
  device.record(stream.handle(), event.handle());
  return device.wait(event.handle(), in_seconds(60));
}

template <class T>
CardMemory<T> on_card(Device& device, const Stream& stream, const std::vector<T>& values) {
  auto memory = memory_of<T, Place::kCard>(device, values.size());
  const auto from = pinned(device, values);
  upload(device, stream, from, memory.data());
  expect(finish(device, stream));
  return memory;
}

// After all that the stream was given.
template <class T>
std::vector<T> read(Device& device, const Stream& stream, const CardMemory<T>& memory) {
  const auto to = memory_of<T, Place::kPinned>(device, memory.capacity());
  download(device, stream, memory.data(), to);
  expect(finish(device, stream));
  return {to.data(), to.data() + to.capacity()};
}

inline kernels::device::Fill fill(const CardMemory<float>& memory, float value) {
  return {memory.capacity(), value, memory.data()};
}

}  // namespace paddle::device

// Owners of a device's memory, streams, events and graphs. The device must outlive them.
#pragma once

#include <cstddef>
#include <utility>

#include "base/check.h"
#include "engine/gpu/device.h"

namespace paddle::device {

class Stream {
 public:
  static Result<Stream> open(Device& device, Device::Urgency urgency = Device::Urgency::kNormal) {
    PADDLE_TRY(const StreamHandle handle, device.open_stream(urgency));
    return Stream(device, handle);
  }
  ~Stream() { reset(); }
  Stream(Stream&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, {})) {}
  Stream& operator=(Stream&& other) noexcept {
    if (this == &other) return *this;
    reset();
    device_ = other.device_;
    handle_ = std::exchange(other.handle_, {});
    return *this;
  }

  StreamHandle handle() const { return handle_; }

 private:
  Stream(Device& device, StreamHandle handle) : device_(&device), handle_(handle) {}
  void reset() {
    if (handle_.value != nullptr) device_->close_stream(std::exchange(handle_, {}));
  }

  Device* device_;
  StreamHandle handle_;
};

class Event {
 public:
  static Result<Event> make(Device& device) {
    PADDLE_TRY(const EventHandle handle, device.make_event());
    return Event(device, handle);
  }
  ~Event() { reset(); }
  Event(Event&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, {})) {}
  Event& operator=(Event&& other) noexcept {
    if (this == &other) return *this;
    reset();
    device_ = other.device_;
    handle_ = std::exchange(other.handle_, {});
    return *this;
  }

  EventHandle handle() const { return handle_; }

 private:
  Event(Device& device, EventHandle handle) : device_(&device), handle_(handle) {}
  void reset() {
    if (handle_.value != nullptr) device_->destroy_event(std::exchange(handle_, {}));
  }

  Device* device_;
  EventHandle handle_;
};

class Graph {
 public:
  Graph(Device& device, GraphHandle handle) : device_(&device), handle_(handle) {}
  ~Graph() { reset(); }
  Graph(Graph&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, {})) {}
  Graph& operator=(Graph&& other) noexcept {
    if (this == &other) return *this;
    reset();
    device_ = other.device_;
    handle_ = std::exchange(other.handle_, {});
    return *this;
  }

  GraphHandle handle() const { return handle_; }

 private:
  void reset() {
    if (handle_.value != nullptr) device_->destroy_graph(std::exchange(handle_, {}));
  }

  Device* device_;
  GraphHandle handle_;
};

// Array of T in memory of the card, or pinned memory of the host; T is trivially copyable.
enum class Place { kCard, kPinned };
template <class T, Place place>
class Memory {
 public:
  explicit Memory(Device& device) : device_(&device) {}
  ~Memory() { reset(); }
  Memory(Memory&& other) noexcept
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    if (this == &other) return *this;
    reset();
    device_ = other.device_;
    data_ = std::exchange(other.data_, nullptr);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  T* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }
  // Makes room for `count` values. True if the memory moved: its content is then lost. REQUIRES: no
  // running command uses the memory.
  Result<bool> reserve(std::size_t count) {
    if (count <= capacity_) return false;
    reset();
    PADDLE_TRY(std::byte* const memory, place == Place::kCard
                                            ? device_->allocate(count * sizeof(T))
                                            : device_->allocate_pinned(count * sizeof(T)));
    data_ = reinterpret_cast<T*>(memory);
    capacity_ = count;
    return true;
  }

 private:
  void reset() {
    if (data_ == nullptr) return;
    auto* const memory = reinterpret_cast<std::byte*>(std::exchange(data_, nullptr));
    capacity_ = 0;
    if (place == Place::kCard) {
      device_->release(memory);
    } else {
      device_->release_pinned(memory);
    }
  }

  Device* device_;
  T* data_ = nullptr;
  std::size_t capacity_ = 0;
};
template <class T>
using CardMemory = Memory<T, Place::kCard>;
template <class T>
using PinnedMemory = Memory<T, Place::kPinned>;

}  // namespace paddle::device

// Memory of a card beside equal pinned memory of the host, and how the inputs of a step go up
// through two of them in turns.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/device/handles.h"

namespace paddle::nn {

// Memory of a card beside equal pinned memory of the host, in sections that one copy moves
// together: an order to copy costs more than some thousand bytes.
class Arena {
 public:
  Arena(device::Device& device, std::size_t sections)
      : device_(device), card_(device), host_(device), sections_(sections) {}

  // Bytes of a section that the next copy moves, and those it has room for at least.
  void use(std::size_t section, std::size_t bytes, std::size_t capacity) {
    sections_[section].used = bytes;
    sections_[section].wanted = capacity;
  }
  // Makes room for the sections; true where any moved. What was in them is lost then, and nothing
  // that runs may use them.
  Result<bool> settle();

  template <class T>
  T* card(std::size_t section) const {
    return reinterpret_cast<T*>(card_.data() + sections_[section].offset);
  }
  template <class T>
  T* host(std::size_t section) const {
    return reinterpret_cast<T*>(host_.data() + sections_[section].offset);
  }

  void upload(device::StreamHandle stream) const;
  void download(device::StreamHandle stream) const;

 private:
  struct Section {
    std::size_t offset = 0;
    std::size_t used = 0;
    std::size_t wanted = 0;
    std::size_t capacity = 0;
  };
  Status reserve(std::size_t bytes);
  // Calls copy(offset, bytes) for runs of sections with little between them.
  template <class Copy>
  void for_runs(Copy copy) const;

  device::Device& device_;
  device::CardMemory<std::byte> card_;
  device::PinnedMemory<std::byte> host_;
  std::vector<Section> sections_;
};

// Inputs of a step on their way to a card. Two arenas take turns, so that those of the next step
// can be filled and go up while a step computes.
class Uploads {
 public:
  static constexpr std::size_t kArenas = 2;

  // Steps are computed by the stream. The device outlives it.
  static Result<Uploads> make(device::Device& device, std::size_t sections,
                              device::StreamHandle compute);

  // The arena of the next step, once the step that had it is computed. One that was sent for a step
  // that never came is lost. kUnreachable: that lasts until the deadline.
  Result<Arena*> take(TimePoint deadline);
  // Index of the arena that was last taken.
  std::size_t turn() const { return turn_; }
  // Sends it, perhaps while the step before is computed.
  void send();
  // Work that the computing stream is given from now on starts when it is there.
  void await() const { device_->wait_for(compute_, turns_[turn_].sent.handle()); }
  // All work that reads it has been given to the computing stream.
  void release();

 private:
  struct Turn {
    Arena arena;
    device::Event sent;
    device::Event computed;
    bool is_sent = false;
    bool is_lent = false;  // to work that `computed` comes after
  };
  Uploads(device::Device& device, device::Stream copies, device::StreamHandle compute)
      : device_(&device), compute_(compute), copies_(std::move(copies)) {}

  device::Device* device_;
  device::StreamHandle compute_;
  std::vector<Turn> turns_;
  std::size_t turn_ = 0;
  device::Stream copies_;  // closed first: it reads the arenas
};

}  // namespace paddle::nn

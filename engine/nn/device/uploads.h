// Inputs of a step on their way to a card. Two arenas take turns, so that those of the next step
// can be filled and go up while a step computes.
#pragma once

#include <vector>

#include "base/clock.h"
#include "engine/nn/device/arena.h"

namespace paddle::nn {

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

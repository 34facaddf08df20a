#include "engine/nn/device/uploads.h"

namespace paddle::nn {

Result<Uploads> Uploads::make(device::Device& device, std::size_t sections,
                              device::StreamHandle compute) {
  PADDLE_TRY(device::Stream copies, device::Stream::open(device));
  Uploads uploads(device, std::move(copies), compute);
  for (std::size_t i = 0; i < kArenas; ++i) {
    PADDLE_TRY(device::Event sent, device::Event::make(device));
    PADDLE_TRY(device::Event computed, device::Event::make(device));
    uploads.turns_.push_back({Arena(device, sections), std::move(sent), std::move(computed)});
  }
  return uploads;
}

Result<Arena*> Uploads::take(TimePoint deadline) {
  turn_ = (turn_ + 1) % kArenas;
  Turn& turn = turns_[turn_];
  const device::Event& last = turn.is_lent ? turn.computed : turn.sent;
  if (turn.is_sent) PADDLE_TRY_STATUS(device_->wait(last.handle(), deadline));
  turn.is_sent = turn.is_lent = false;
  return &turn.arena;
}

void Uploads::send() {
  Turn& turn = turns_[turn_];
  turn.arena.upload(copies_.handle());
  device_->record(copies_.handle(), turn.sent.handle());
  turn.is_sent = true;
}

void Uploads::release() {
  Turn& turn = turns_[turn_];
  device_->record(compute_, turn.computed.handle());
  turn.is_lent = true;
}

}  // namespace paddle::nn

#include "engine/net/peer/arrival.h"

#include <algorithm>

#include "engine/net/peer/sockets.h"

namespace paddle::net::peer {

std::optional<std::uint8_t> Arrival::missing() const {
  if (connection_ == nullptr) return std::uint8_t{0};
  for (std::size_t i = 0; i < others_.size(); ++i) {
    if (!others_[i]) return static_cast<std::uint8_t>(i + 1);
  }
  return std::nullopt;
}

bool Arrival::lacks(std::uint8_t lane) const {
  return connection_ != nullptr && lane > 0 && lane <= others_.size() && !others_[lane - 1U];
}

void Arrival::begin(Handshake& handshake) {
  first_ = handshake.transcript();
  connection_ = handshake.take();
  others_.clear();
  if (!connection_->is_memory()) others_.resize(lanes_ - 1);
}

void Arrival::add(std::uint8_t number, Lane lane) {
  PADDLE_CHECK(lacks(number));
  others_[number - 1U] = std::move(lane);
  if (missing()) return;
  std::vector<Lane> lanes;
  for (auto& other : std::exchange(others_, {})) lanes.push_back(*std::move(other));
  connection_->widen(std::move(lanes));
}

bool Arrival::drop_closed() {
  if (connection_ != nullptr && connection_->is_closed()) {
    connection_.reset();
    others_.clear();
    return true;
  }
  for (auto& lane : others_) {
    if (lane && is_hung_up(lane->fd.get())) lane.reset();
  }
  return false;
}

}  // namespace paddle::net::peer

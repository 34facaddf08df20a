// The connection with one other rank, as far as it has come: first one socket, which both ends have
// proven, then its further lanes.
#pragma once

#include "engine/net/peer/handshake.h"

namespace paddle::net::peer {

class Arrival {
 public:
  // Lanes that it has in the end, unless it shares memory.
  explicit Arrival(std::uint32_t lanes) : lanes_(lanes) {}

  const Connection* connection() const { return connection_.get(); }
  // The handshake of its first lane.
  const Transcript& first() const { return first_; }
  // The lane to call next, 0 when nothing has come, nothing when all have.
  std::optional<std::uint8_t> missing() const;
  bool lacks(std::uint8_t lane) const;

  // Begins anew, with what a handshake has proven.
  void begin(Handshake& handshake);
  void add(std::uint8_t number, Lane lane);
  // Forgets lanes that have ended, or all with the first one; true when that is so.
  bool drop_closed();
  std::unique_ptr<Connection> take() { return std::move(connection_); }

 private:
  std::uint32_t lanes_;
  std::unique_ptr<Connection> connection_;
  Transcript first_;
  std::vector<std::optional<Lane>> others_;  // from lane 1 on, until the connection has them
};

}  // namespace paddle::net::peer

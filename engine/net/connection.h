// One accepted connection: its socket, its session, and the frames in flight both ways.
#pragma once

#include <asio/ip/tcp.hpp>

#include "engine/net/frame_io.h"
#include "engine/net/link.h"
#include "engine/net/ring_stream.h"
#include "engine/net/session.h"
#include "engine/net/socket.h"

namespace paddle::net {

constexpr std::size_t kOutboundBytesMax = 256U << 20U;  // per connection

struct Connection {
  Connection(PeerId peer_id, asio::ip::tcp::socket&& accepted, ServerSession&& fresh,
             std::string remote)
      : id(peer_id),
        socket(std::move(accepted)),
        stream(make_socket_stream(socket.native_handle())),
        session(std::move(fresh)),
        reader(kUnprovenBufferBytes, kUnprovenPayloadBytesMax),
        name(std::move(remote)) {}

  PeerId id;
  asio::ip::tcp::socket socket;
  std::unique_ptr<Stream> stream;
  RingStream* ring = nullptr;  // the stream, once it is shared memory
  ServerSession session;
  FrameReader reader;
  FrameWriter writer;
  std::string name;  // "10.0.0.1:40312", for messages

  bool has_spoken = false;  // a frame has come after the handshake
  bool wait_write = false;  // a wait for writability is armed
  bool close_when_flushed = false;
  bool half_closed = false;  // our side is shut; incoming bytes are dropped
  TimePoint linger_until{};  // of a half-closed connection
  std::string doomed;        // reason to close it, at the end of the wake-up; "": none
};

}  // namespace paddle::net

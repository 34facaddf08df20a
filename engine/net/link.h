// The seam between protocol cores and the world: ordered, authenticated frames to one peer. TCP,
// in-process and simulated links all look like this.
#pragma once

#include <memory>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "proto/frame.h"

namespace paddle::net {

// Client side, blocking, for a trainer's lane to one shard. Thread-compatible: one thread at a
// time.
class Link {
 public:
  virtual ~Link() = default;
  // Takes the frame and writes all of it; job tag, sender and incarnation are those the link
  // proved. An error ends the link.
  virtual Status send(Frame frame, TimePoint deadline) = 0;
  // kUnreachable when the peer is gone or the deadline passed; after a deadline it may be called
  // again.
  virtual Result<Frame> receive(TimePoint deadline) = 0;
  virtual std::string peer() const = 0;  // "10.0.0.1:7164", for messages
};

// Server side: a connection as a passive core sees it; unique in one server's life.
using PeerId = std::uint64_t;

struct Outgoing {
  PeerId to = 0;
  Frame frame;
  bool close_after = false;
};

// A passive protocol core. All calls come from one thread. Replies are appended to `out`.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  virtual void on_frame(TimePoint now, PeerId from, Frame&& frame, std::vector<Outgoing>& out) = 0;
  // Once for every connection that proved itself, whoever closed it and whether or not it sent a
  // frame.
  virtual void on_disconnect(TimePoint now, PeerId from, std::vector<Outgoing>& out) = 0;
  virtual void on_tick(TimePoint now, std::vector<Outgoing>& out) = 0;  // about every 100 ms
};

}  // namespace paddle::net

// Interfaces between protocol cores and transports: ordered, authenticated frames to and from one
// peer. TCP, in-process and simulated links implement them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "proto/frame.h"

namespace paddle::net {

// Chooses memory for the tail of a frame by its unchecked head: spans of tail_bytes in all, valid
// until the frame has arrived, or no spans to use Frame::tail. A broken link may leave them partly
// written.
using TailPlace = std::function<std::vector<std::span<std::byte>>(
    const FrameHeader& header, std::string_view head, std::size_t tail_bytes)>;

// A trainer's blocking connection to one shard. Only one thread at a time may use it, except for
// is_closed() and interrupt().
class Link {
 public:
  virtual ~Link() = default;
  // Writes the whole frame with the job tag, sender and incarnation that the handshake proved.
  // `pieces` continue its tail and are not copied. After an error the link is unusable: every later
  // call fails too.
  virtual Status send(Frame frame, std::span<const ByteSpan> pieces, TimePoint deadline) = 0;
  Status send(Frame frame, TimePoint deadline) { return send(std::move(frame), {}, deadline); }
  // kUnreachable if the peer has gone or the deadline has passed. After a missed deadline it may be
  // called again, unless a tail was being written to memory from `place`. A link may ignore
  // `place`.
  virtual Result<Frame> receive(TimePoint deadline, const TailPlace& place) = 0;
  Result<Frame> receive(TimePoint deadline) { return receive(deadline, TailPlace()); }
  virtual std::string peer() const = 0;  // "10.0.0.1:7164", for messages
  // Whether the peer has closed the connection; frames that it sent before may still be received.
  // Any thread may call it.
  virtual bool is_closed() const { return false; }
  // Makes a call that waits in another thread, and all later calls, fail with this error.
  virtual void interrupt(const Error& /*why*/) {}
};

// The number that a server gives a connection; never reused.
using PeerId = std::uint64_t;

struct Outgoing {
  PeerId to = 0;
  Frame frame;
  bool close_after = false;
  ByteSpan view{};  // continues the frame's tail; memory of the handler, valid until its next call
};

// Copies the views into their frames. Call it before the handler may change that memory.
inline void keep_views(std::span<Outgoing> outgoing) {
  for (Outgoing& one : outgoing) {
    append_bytes(one.frame.tail, std::exchange(one.view, {}));
  }
}

// A passive protocol core. All calls come from one thread. Replies are appended to `out`.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  virtual void on_frame(TimePoint now, PeerId from, Frame&& frame, std::vector<Outgoing>& out) = 0;
  // Called once for every proven connection when it ends, whichever side closed it, even if it sent
  // no frame.
  virtual void on_disconnect(TimePoint now, PeerId from, std::vector<Outgoing>& out) = 0;
  virtual void on_tick(TimePoint now, std::vector<Outgoing>& out) = 0;  // about every 100 ms
};

}  // namespace paddle::net

// The seam between protocol cores and the world: ordered, authenticated frames to one peer. TCP,
// in-process and simulated links all look like this.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "proto/frame.h"

namespace paddle::net {

// Where the tail of a frame goes, by its unchecked head: spans of tail_bytes in all, that stay
// until the frame has come, or none: into the Frame. They may be half written when the link breaks.
using TailPlace = std::function<std::vector<std::span<std::byte>>(
    const FrameHeader& header, std::string_view head, std::size_t tail_bytes)>;

// Client side, blocking, for a trainer's lane to one shard. Thread-compatible: one thread at a
// time.
class Link {
 public:
  virtual ~Link() = default;
  // Takes the frame and writes all of it; job tag, sender and incarnation are those the link
  // proved. `pieces` follow its tail, as parts of it, and are read where they lie. An error ends
  // the link.
  virtual Status send(Frame frame, std::span<const ByteSpan> pieces, TimePoint deadline) = 0;
  Status send(Frame frame, TimePoint deadline) { return send(std::move(frame), {}, deadline); }
  // kUnreachable when the peer is gone or the deadline passed; after a deadline it may be called
  // again, unless it passed within a tail that was placed. A link may ignore `place`.
  virtual Result<Frame> receive(TimePoint deadline, const TailPlace& place) = 0;
  Result<Frame> receive(TimePoint deadline) { return receive(deadline, TailPlace()); }
  virtual std::string peer() const = 0;  // "10.0.0.1:7164", for messages
};

// Server side: a connection as a passive core sees it; unique in one server's life.
using PeerId = std::uint64_t;

inline void append_pieces(Bytes& tail, std::span<const ByteSpan> pieces) {
  std::size_t bytes = tail.size();
  for (const ByteSpan piece : pieces) bytes += piece.size();
  tail.reserve(bytes);
  for (const ByteSpan piece : pieces) append_bytes(tail, piece);
}

struct Outgoing {
  PeerId to = 0;
  Frame frame;
  bool close_after = false;
  ByteSpan
      view{};  // follows the frame's tail, as part of it; lies in the handler until its next call
};

// Copies the views into their frames, before what they show changes.
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
  // The same for a frame whose tail goes on in `pieces`, which lie in memory of the sender's that
  // stays as it is until this returns.
  virtual void on_frame_in_pieces(TimePoint now, PeerId from, Frame&& frame,
                                  std::span<const ByteSpan> pieces, std::vector<Outgoing>& out) {
    append_pieces(frame.tail, pieces);
    on_frame(now, from, std::move(frame), out);
  }
  // Once for every connection that proved itself, whoever closed it and whether or not it sent a
  // frame.
  virtual void on_disconnect(TimePoint now, PeerId from, std::vector<Outgoing>& out) = 0;
  virtual void on_tick(TimePoint now, std::vector<Outgoing>& out) = 0;  // about every 100 ms
};

}  // namespace paddle::net

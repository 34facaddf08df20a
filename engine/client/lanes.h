// A trainer's blocking lanes to all shards of one kind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/client/lane.h"
#include "engine/net/link.h"

namespace paddle::client {

// Patience with other trainers that are connected but silent: a long test pass is no failure.
constexpr Duration kPeerDeadline = std::chrono::minutes(10);

class ClientLanes {
 public:
  // `kind` is "dense" or "sparse", for messages; lane numbers start at first_lane.
  ClientLanes(std::string kind, std::vector<std::unique_ptr<net::Link>> links,
              ClientLane::Options options, std::uint16_t first_lane, Duration deadline);

  std::size_t size() const { return lanes_.size(); }
  const ClientLane& at(std::size_t lane) const { return lanes_[lane].core; }

  template <class Message>
  Status send(std::size_t lane, FrameType type, const Message& message, Bytes tail,
              std::span<const ByteSpan> pieces = {}) {
    return deliver(lane, lanes_[lane].core.request(type, message, std::move(tail), clock_.now()),
                   pieces);
  }
  // The answer, which must have this type; errors name the port. `place` may be asked about frames
  // of other types too.
  Result<Frame> receive(std::size_t lane, FrameType type, const net::TailPlace& place = {});

  template <class Message>
  Result<Frame> exchange(std::size_t lane, FrameType type, const Message& message, Bytes tail,
                         FrameType answer) {
    PADDLE_TRY_STATUS(send(lane, type, message, std::move(tail)));
    return receive(lane, answer);
  }

  template <class Message>
  Status parse(std::size_t lane, const Frame& frame, Message& message) const {
    if (message.ParseFromString(frame.head)) return {};
    return malformed(lane, "head");
  }
  Error malformed(std::size_t lane, std::string_view what) const;

 private:
  struct Lane {
    std::unique_ptr<net::Link> link;
    ClientLane core;
  };

  std::string name(std::size_t lane) const;
  Status deliver(std::size_t lane, Frame frame, std::span<const ByteSpan> pieces);
  Error late(std::size_t lane, const Error& cause) const;

  std::string kind_;
  std::vector<Lane> lanes_;
  Duration deadline_;
  SteadyClock clock_;
};

}  // namespace paddle::client

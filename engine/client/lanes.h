// A trainer's blocking lanes to all shards of one kind, and the pushes sent on them.
#pragma once

#include <optional>

#include "engine/client/lane.h"
#include "engine/client/recovery.h"
#include "engine/net/link.h"

namespace paddle::client {

// Limit for waiting on other trainers that are connected but silent: they may run a long test pass.
constexpr Duration kPeerDeadline = std::chrono::minutes(10);
// Limit for sending the last frame on a lane.
constexpr Duration kAbandonDeadline = std::chrono::seconds(1);

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
  // Receives the answer, which must have this type; errors name the port. `place` may also be
  // called for frames of other types.
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

  // The trainer's position in its pass, counted by its pushes on these lanes.
  TrainerPosition position() const { return position_; }
  void set_position(TrainerPosition position);
  // Sets the lanes' own positions, which may be further than the trainer's (recovery.h). They
  // decide which lanes a push leaves out.
  void set_link_positions(LinkPositions link_positions) {
    link_positions_ = std::move(link_positions);
  }
  const LinkPositions& link_positions() const { return link_positions_; }
  bool is_behind() const { return is_behind_; }
  bool lacks(std::size_t lane, TrainerPosition push) const {
    return !is_behind_ || link_positions_.lacks(lane, push);
  }
  void on_push(std::uint64_t batches);
  // Records that all lanes have the push that ended at `end`. on_push() records it only if a lane
  // was ahead of the trainer.
  void on_repeat(TrainerPosition end) { link_positions_.on_push(end); }

  // See net::Link::interrupt(). Any thread may call it.
  void interrupt(const Error& why);
  // Sends a last frame on every lane, even while a request is open. It has no answer.
  void abandon(const wire::Abandon& message);
  // While a port waits for other trainers, receive() also checks these lanes: a connection that a
  // pserver closed is an error even if no answer is due on it. `others` must outlive the use of
  // this object.
  void look_after(const ClientLanes& others) { others_ = &others; }
  // Sets how long an answer may take while a port waits for other trainers.
  void set_patience(Duration patience_max) { patience_max_ = patience_max; }
  // Sets how long a port may be silent.
  void set_deadline(Duration deadline) { deadline_ = deadline; }

 private:
  struct Lane {
    std::unique_ptr<net::Link> link;
    ClientLane core;
  };

  std::string name(std::size_t lane) const;
  Status deliver(std::size_t lane, Frame frame, std::span<const ByteSpan> pieces);
  Error late(std::size_t lane, const Error& cause) const;
  Status find_closed(std::optional<std::size_t> except) const;

  std::string kind_;
  std::vector<Lane> lanes_;
  Duration deadline_;
  Duration patience_max_ = Duration::max();
  SteadyClock clock_;
  TrainerPosition position_;
  LinkPositions link_positions_;
  bool is_behind_ = false;
  const ClientLanes* others_ = nullptr;
};

// A push of one kind of parameters to all shards, in parts of bounded size. The last parts are sent
// only after all earlier parts are stored on every shard: the answer to a last part waits for other
// trainers, and these must not in turn wait for a part that is not sent yet.
template <class Message>
struct PartedPush {
  struct Part {
    Message head;
    Bytes tail;
    std::vector<ByteSpan> pieces;  // views of gradients, sent after the tail
  };

  void begin(const ClientLanes& lanes, const wire::PushPart& totals) {
    batches = std::max<std::uint64_t>(1, totals.batches());
    end = lanes.position();
    end.batches += batches;
  }
  // Calls make(i, part) for each of a shard's `count` parts, with its PushPart filled in.
  template <class Make>
  void add_shard(std::size_t count, const wire::PushPart& totals, const Make& make) {
    std::vector<Part>& parts = shards.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      wire::PushPart& part = *parts[i].head.mutable_part();
      part = totals;
      part.set_part(static_cast<std::uint32_t>(i));
      part.set_parts(static_cast<std::uint32_t>(count));
      make(i, parts[i]);
    }
  }

  Status send_early(ClientLanes& lanes) {
    for (std::size_t lane = 0; lane < shards.size(); ++lane) {
      if (!lanes.lacks(lane, end)) continue;
      for (std::size_t i = 0; i + 1 < shards[lane].size(); ++i) {
        PADDLE_TRY_STATUS(send(lanes, lane, shards[lane][i]));
        PADDLE_TRY_STATUS(lanes.receive(lane, FrameType::kStored));
      }
    }
    return {};
  }

  Status send_last(ClientLanes& lanes) {
    for (std::size_t lane = 0; lane < shards.size(); ++lane) {
      if (!lanes.lacks(lane, end)) continue;
      PADDLE_TRY_STATUS(send(lanes, lane, shards[lane].back()));
    }
    return {};
  }

  std::vector<std::vector<Part>> shards;  // at least one part each
  std::uint64_t batches = 1;
  TrainerPosition end;  // position of the trainer after this push

 private:
  static constexpr FrameType kType =
      std::is_same_v<Message, wire::PushDense> ? FrameType::kPushDense : FrameType::kPushRows;

  static Status send(ClientLanes& lanes, std::size_t lane, Part& part) {
    return lanes.send(lane, kType, part.head, std::move(part.tail), part.pieces);
  }
};

}  // namespace paddle::client

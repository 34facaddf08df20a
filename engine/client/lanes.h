// A trainer's blocking lanes to all shards of one kind, and the pushes that they carry.
#pragma once

#include <optional>

#include "engine/client/catch_up.h"
#include "engine/client/lane.h"
#include "engine/net/link.h"

namespace paddle::client {

// Patience with other trainers that are connected but silent: a long test pass is no failure.
constexpr Duration kPeerDeadline = std::chrono::minutes(10);
// For the last frame on a lane.
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

  // Where the trainer is in its pass, by what it has pushed on these lanes.
  LanePosition position() const { return position_; }
  void set_position(LanePosition position);
  // The lanes' own positions, which may be further than the trainer's (catch_up.h). They tell the
  // lanes that a push leaves out.
  void set_catch_up(CatchUp catch_up) { catch_up_ = std::move(catch_up); }
  const CatchUp& catch_up() const { return catch_up_; }
  bool is_behind() const { return is_behind_; }
  bool lacks(std::size_t lane, LanePosition push) const {
    return !is_behind_ || catch_up_.lacks(lane, push);
  }
  void on_push(std::uint64_t batches);
  // A push that ended at `end` is on all lanes, though none of them may have been ahead.
  void on_repeat(LanePosition end) { catch_up_.on_push(end); }

  // See net::Link. Any thread may call it.
  void interrupt(const Error& why);
  // A last word on every lane, whatever is open there; nobody answers.
  void abandon(const wire::Abandon& message);
  // While a port waits for other trainers, these lanes are looked after too: a pserver that is gone
  // is an error, though no answer is due from it. Both kinds' lanes outlive each other's use.
  void look_after(const ClientLanes& others) { others_ = &others; }
  // How long an answer may take while a port waits for other trainers.
  void set_patience(Duration patience_max) { patience_max_ = patience_max; }
  // How long a port may be silent.
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
  LanePosition position_;
  CatchUp catch_up_;
  bool is_behind_ = false;
  const ClientLanes* others_ = nullptr;
};

// A push of one kind of parameters on its way to all shards, in parts of bounded size.
// Last parts go out only when the earlier parts of every shard are stored: the answer to a last
// part waits for other trainers, which must not in turn wait for a part held back here.
template <class Message>
struct PartedPush {
  struct Part {
    Message head;
    Bytes tail;
    std::vector<ByteSpan> pieces;  // gradients where they lie; they follow the tail
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
  LanePosition end;  // of the trainer after this push

 private:
  static constexpr FrameType kType =
      std::is_same_v<Message, wire::PushDense> ? FrameType::kPushDense : FrameType::kPushRows;

  static Status send(ClientLanes& lanes, std::size_t lane, Part& part) {
    return lanes.send(lane, kType, part.head, std::move(part.tail), part.pieces);
  }
};

}  // namespace paddle::client

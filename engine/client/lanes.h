// A trainer's blocking lanes to all shards of one kind, and the pushes sent on them.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
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
  // Memory for the tail of an answer: spans of tail_bytes in all, or none, to use Frame::tail.
  using Place = std::function<std::vector<std::span<std::byte>>(std::size_t tail_bytes)>;

  // `kind` is "dense" or "sparse", for messages; lane numbers start at first_lane.
  // Nothing there: the lanes have no numbers, as those of a reader.
  ClientLanes(std::string kind, std::vector<std::unique_ptr<net::Link>> links,
              ClientLane::Options options, std::optional<std::uint16_t> first_lane,
              Duration deadline);

  std::size_t size() const { return lanes_.size(); }
  const ClientLane& at(std::size_t lane) const { return lanes_[lane].core; }

  template <class Message>
  Status send(std::size_t lane, FrameType type, const Message& message, Bytes tail,
              std::span<const ByteSpan> pieces = {}) {
    Lane& to = lanes_[lane];
    const TimePoint now = clock_.now();
    auto sent = to.link->send(to.core.request(type, message, std::move(tail), now), pieces,
                              now + deadline_);
    if (!sent) return std::move(sent).error().with(name(lane));
    return {};
  }
  // Receives the answer, which must have this type; errors name the port. Its head is
  // at(lane).answer(). A late copy of an earlier answer is not read into `place`.
  Result<Frame> receive(std::size_t lane, FrameType type, const Place& place = {});

  template <class Message>
  Result<Frame> exchange(std::size_t lane, FrameType type, const Message& message, Bytes tail,
                         FrameType answer) {
    PADDLE_TRY_STATUS(send(lane, type, message, std::move(tail)));
    return receive(lane, answer);
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
  // Makes the waiting receive(), and later ones, fail with this error; a port that keeps it waiting
  // sends a frame every second. The connections stay whole, so that abandon() can follow. Any
  // thread may call it.
  void break_off(const Error& why);
  // Sends a last frame on every lane, even while a request is open. It has no answer.
  void abandon(const wire::Abandon& message);
  // While a port waits for other trainers, receive() also checks these lanes: a connection that a
  // pserver closed is an error even if no answer is due on it. `others` must outlive the use of
  // this object.
  void look_after(const ClientLanes& others) { others_ = &others; }
  // Sets how long an answer may take while a port waits for other trainers.
  void set_patience(Duration patience_max) { patience_max_ = patience_max; }
  // See ChannelOptions.
  void set_on_waiting(std::function<void(const std::string& reason)> on_waiting) {
    on_waiting_ = std::move(on_waiting);
  }
  // Sets how long a port may be silent.
  void set_deadline(Duration deadline) { deadline_ = deadline; }
  // Sets how long a port may be silent that owes the values of rows, if shorter.
  void set_pull_silence(Duration most) { pull_silence_max_ = most; }

 private:
  struct Lane {
    std::unique_ptr<net::Link> link;
    ClientLane core;
  };

  // Another thread sets it than the one that receives. It has memory of its own, because lanes are
  // moved.
  struct BreakOff {
    std::mutex mutex;
    std::optional<Error> why;
  };

  Status broken_off() const;
  std::string name(std::size_t lane) const;
  Error late(std::size_t lane, const Error& cause) const;
  Status find_closed(std::optional<std::size_t> except) const;

  std::string kind_;
  std::vector<Lane> lanes_;
  Duration deadline_;
  Duration patience_max_ = Duration::max();
  Duration pull_silence_max_ = Duration::max();
  std::function<void(const std::string& reason)> on_waiting_;
  SteadyClock clock_;
  TrainerPosition position_;
  LinkPositions link_positions_;
  bool is_behind_ = false;
  const ClientLanes* others_ = nullptr;
  std::unique_ptr<BreakOff> break_off_ = std::make_unique<BreakOff>();
};

// A push of one kind of parameters to all shards, in parts of bounded size.
template <class Message>
class PartedPush {
 public:
  struct Part {
    Message head;
    Bytes tail;
    std::vector<ByteSpan> pieces;  // views of gradients, sent after the tail
  };

  // `totals` is the PushPart of each part but for the numbers of parts.
  PartedPush(ClientLanes& lanes, const wire::PushPart& totals)
      : lanes_(lanes),
        totals_(totals),
        batches_(std::max<std::uint64_t>(1, totals.batches())),
        end_(lanes.position()) {
    end_.batches += batches_;
  }
  // Calls make(i, part) for each of the next shard's `count` parts.
  template <class Make>
  void add_shard(std::size_t count, const Make& make) {
    std::vector<Part>& parts = shards_.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      wire::PushPart& part = *parts[i].head.mutable_part();
      part = totals_;
      part.set_part(static_cast<std::uint32_t>(i));
      part.set_parts(static_cast<std::uint32_t>(count));
      make(i, parts[i]);
    }
  }

  // Sends the last parts only after all earlier parts are stored on every shard: the answer to a
  // last part waits for other trainers, and these must not in turn wait for a part that is not sent
  // yet.
  Status send() {
    const auto send_part = [&](std::size_t lane, Part& part) {
      return lanes_.send(lane, kType, part.head, std::move(part.tail), part.pieces);
    };
    for (std::size_t lane = 0; lane < shards_.size(); ++lane) {
      if (!is_sent_to(lane)) continue;
      for (std::size_t i = 0; i + 1 < shards_[lane].size(); ++i) {
        PADDLE_TRY_STATUS(send_part(lane, shards_[lane][i]));
        PADDLE_TRY_STATUS(lanes_.receive(lane, FrameType::kStored));
      }
    }
    for (std::size_t lane = 0; lane < shards_.size(); ++lane) {
      if (is_sent_to(lane)) PADDLE_TRY_STATUS(send_part(lane, shards_[lane].back()));
    }
    return {};
  }

 protected:
  // False: the shard has this push from an earlier process of the trainer.
  bool is_sent_to(std::size_t lane) const { return lanes_.lacks(lane, end_); }

  ClientLanes& lanes_;
  wire::PushPart totals_;
  std::uint64_t batches_;
  TrainerPosition end_;                    // position of the trainer after this push
  std::vector<std::vector<Part>> shards_;  // at least one part each

 private:
  static constexpr FrameType kType =
      std::is_same_v<Message, wire::PushDense> ? FrameType::kPushDense : FrameType::kPushRows;
};

}  // namespace paddle::client

// The protocol of a group, without sockets, threads or clocks: operations in, frames out, frames
// in, sums out. Every rank posts the same operations in the same order. Between two ranks, the
// frames of each direction are sent in that order too, so both know which frame is next, and memory
// is bounded.
//
//     a rank that sends                          a rank that receives
//
//     post()     the operation is open           post()      the same operation, sooner or later
//     next()     its next frame for a peer --.
//     sent()     the frame has left           |
//                                             '-> judge()     kLater: the frame waits at the
//                                                             connection, judged again later
//                                                 place()     kTake: memory for its tail
//                                                 received()  counted, and added to the sums
//
// An operation is done when all its frames are sent and received, and all its sums are made.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <span>

#include "base/bytes.h"
#include "engine/group/events.h"
#include "engine/group/numbered_queue.h"
#include "engine/group/rank_state.h"
#include "engine/group/schedule.h"
#include "engine/group/step_info.h"
#include "engine/math/rank_sums.h"
#include "proto/frame.h"

namespace paddle::collective {

// One collective call of this rank. REQUIRES: its memory stays valid until it is done.
struct Operation {
  FrameType type = FrameType::kSegment;
  // kSegment: the bucket, and for a reduction each rank's weight.
  Shape shape = {};
  std::span<std::byte> data = {};
  std::vector<float> weights = {};
  // It sends the result of the operation before it, and begins only when that result is complete.
  bool follows = false;
  // If not empty, it is sent in place of the bucket's floats and has one element for each. In a
  // reduction its elements are already multiplied by their weight, unlike the bucket's own slice.
  std::span<kernels::Bf16> packed = {};
  // Other types exchange one frame with every rank.
  std::string head = {};
  ByteSpan tail = {};
  std::uint64_t step = 0;
};

// Segments that a peer has sent and that are not added up yet, at most kWindowSegments.
class Window {
 public:
  bool has_room() const { return received_ - added_ < kWindowSegments; }
  bool empty() const { return received_ == added_; }

  // Memory for the next segment. push() adds the segment once it has arrived.
  std::span<std::byte> place(std::size_t bytes) {
    Bytes& segment = segments_[received_ % kWindowSegments];
    if (segment.size() < bytes) segment.resize(bytes);
    return std::span(segment).first(bytes);
  }
  void push() { ++received_; }

  const std::byte* front() const { return segments_[added_ % kWindowSegments].data(); }
  void pop() { ++added_; }

 private:
  std::array<Bytes, kWindowSegments> segments_;
  std::uint64_t received_ = 0;  // segments ever received
  std::uint64_t added_ = 0;     // segments of these that are summed
};

class GroupCore {
 public:
  struct Options {
    std::uint32_t rank = 0;
    std::uint32_t size = 1;
    std::vector<std::string> names = {};  // by rank: "rank 2 (node b)"
    // As in GroupOptions.
    Duration slow_after = std::chrono::seconds(5);
    Duration gone_after = std::chrono::minutes(10);
    std::size_t segment_bytes = kSegmentBytes;
  };
  struct Outgoing {
    FrameHeader header;
    std::string head = {};
    ByteSpan tail = {};
  };
  // The facts that a rank has sent: the frame of a Member, a Step or a leave.
  struct Facts {
    std::uint64_t operation = 0;  // 0: none
    FrameType type = FrameType::kStep;
    std::uint64_t step = 0;
    std::string head = {};
    Bytes tail = {};
  };
  enum class Verdict { kTake, kLater, kBroken };

  explicit GroupCore(Options options);
  std::uint32_t rank() const { return options_.rank; }
  std::uint32_t size() const { return options_.size; }
  const std::string& name(std::uint32_t rank) const { return options_.names[rank]; }

  // Adds an operation and returns its number, from 1.
  std::uint64_t post(TimePoint now, Operation&& operation);
  bool is_done(std::uint64_t number) const { return number < open_.first(); }
  bool is_idle() const { return open_.empty(); }
  // Removes and returns another rank's facts, once an operation that exchanges facts is done. Only
  // then are that rank's next facts accepted.
  Facts take_facts(std::uint32_t peer) { return std::exchange(peers_[peer].facts, Facts()); }

  // The first cause of the group's failure; it never changes.
  const std::optional<Error>& failure() const { return failure_; }
  // Ends the group, on every rank.
  void abort(TimePoint now, Error why);

  // Sending: next() returns the next frame for a peer. Call sent() for each frame, in order, once
  // the frame is written and, if its tail is lent, read by the peer. Further frames may be taken
  // before that.
  std::optional<Outgoing> next(std::uint32_t peer);
  void sent(TimePoint now, std::uint32_t peer);

  // Receiving: judge() decides whether a frame is taken now, place() returns the memory for its
  // tail (empty: Frame::tail), received() handles the complete frame. kLater holds until an
  // operation is posted or makes progress.
  Verdict judge(TimePoint now, std::uint32_t peer, const DecodedHeader& frame);
  std::span<std::byte> place(std::uint32_t peer, const FrameHeader& header, std::size_t tail_bytes);
  void received(TimePoint now, std::uint32_t peer, Frame&& frame);
  // Memory for the tail of the segment that the peer must send next; it may be written before the
  // frame's header is known. It belongs to the core, never to an operation. Empty if no such
  // segment can be taken now.
  std::span<std::byte> likely_place(std::uint32_t peer);
  void on_traffic(TimePoint now, std::uint32_t peer) { peers_[peer].last.received = now; }

  // Call it when the connection has ended. That is a loss, unless the rank has left the group.
  void closed(TimePoint now, std::uint32_t peer, const Error& why);
  // Makes the core take and drop all further frames of a peer, except an abort.
  void drain(std::uint32_t peer) { peers_[peer].is_drained = true; }
  bool has_left(std::uint32_t peer) const { return peers_[peer].has_left; }
  bool is_leaving() const { return is_leaving_; }

  // Call it about every 100 ms. Makes frames with the rank state due, and returns log lines about
  // ranks that this rank waits for.
  std::vector<std::string> on_tick(TimePoint now);
  void set_activity(std::string_view activity);
  // The ranks that the oldest operation waits for: "rank 2 (node b) [last frame
  // received 0.3 s ago, testing]".
  std::string waited_for(TimePoint now) const;
  std::vector<std::uint32_t> awaited() const;
  // The ranks that cause the wait: the awaited ranks, where a rank that reports that it waits is
  // replaced by the ranks that it waits for.
  std::vector<std::uint32_t> holding_up(TimePoint now) const;
  Duration waited(TimePoint now) const { return is_idle() ? Duration() : now - first_since_; }
  // The progress of the oldest operation with each rank that it waits for, as text.
  std::string position(TimePoint now) const;
  const EventRing& events() const { return events_; }

 private:
  struct Open {
    Operation what;
    std::size_t sends_left = 0;  // ranks
    std::size_t receives_left = 0;
    std::span<const std::uint32_t> addends = {};  // ranks, in the order of the sum
    std::size_t added = 0;                        // segments
    std::size_t to_add = 0;
    std::size_t segment_bytes = 0;
  };
  // The progress of one direction between two ranks, in the order of operations.
  struct Progress {
    std::uint64_t operation = 1;  // the first that is not over
    std::size_t done = 0;         // frames of it that are over
    std::size_t count = 0;        // all frames of it; 0 until it is posted
  };
  struct Peer {
    Progress giving;  // frames given to the connection
    Progress sending;
    Progress receiving;
    Window window;  // received segments of reductions
    Facts facts;
    LastRankState last;
    bool state_is_due = false;
    bool abort_is_due = false;
    bool is_drained = false;
    bool has_left = false;
    bool is_closed = false;
    std::deque<FrameHeader> given;  // headers of frames given and not yet sent
  };

  Range range_owed(std::uint32_t peer, const Open& operation) const;
  Outgoing frame_of(std::uint32_t peer, const Open& operation) const;
  std::size_t frames(const Open& operation, std::uint32_t from, std::uint32_t to) const;
  void prepare_sum(Open& operation) const;
  bool may_send(std::uint64_t number) const;
  void go_on(Progress& way, std::uint32_t from, std::uint32_t to);
  Verdict judge_facts(TimePoint now, std::uint32_t peer, const DecodedHeader& frame);
  Verdict judge_segment(TimePoint now, std::uint32_t peer, const DecodedHeader& frame);
  bool fits(const Operation& what, const DecodedHeader& frame) const;
  Verdict broken(TimePoint now, std::uint32_t peer, const DecodedHeader& frame,
                 const std::string& expected);
  void take_abort(TimePoint now, std::uint32_t peer, const Frame& frame);
  void absorb_facts(TimePoint now, std::uint32_t peer);
  void count_received(std::uint32_t peer, Open& operation);
  void work(TimePoint now);
  bool add_segment(TimePoint now, std::uint64_t number, Open& operation);
  void sum(const Open& operation, const Range& part);
  void fail(TimePoint now, Error why, std::uint32_t untold);
  bool is_gone(TimePoint now) const;
  void note(TimePoint now, EventKind kind, std::uint32_t peer, std::uint64_t operation,
            std::uint64_t offset = 0) {
    events_.add({now, kind, peer, operation, offset});
  }

  Options options_;
  std::vector<Peer> peers_;          // by rank; this rank's is unused
  NumberedQueue<Open> open_;         // operations
  std::vector<const float*> terms_;  // terms of the current sum
  std::vector<float> weights_;
  std::vector<const kernels::Bf16*> packed_terms_;
  std::optional<Error> failure_;
  std::string abort_head_;
  RankState state_;  // of this rank, for the others
  bool is_leaving_ = false;
  TimePoint first_since_{};  // when the oldest open operation became the oldest
  Duration warn_after_{};
  TimePoint state_period_began_{};  // see kRankStatePeriod
  EventRing events_;
};

}  // namespace paddle::collective

// The protocol of a group, without sockets, threads or clocks: operations in, frames out, frames
// in, sums out. Every rank posts the same operations in the same order. Between two ranks frames go
// in that order too, each way, so both know which comes next, and memory is bounded.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <span>

#include "base/bytes.h"
#include "engine/collective/events.h"
#include "engine/collective/numbered_queue.h"
#include "engine/collective/pulse.h"
#include "engine/collective/schedule.h"
#include "engine/collective/step_info.h"
#include "engine/kernels/rank_sums.h"
#include "proto/frame.h"

namespace paddle::collective {

// One collective call of this rank. Its memory stays until it is done.
struct Operation {
  FrameType type = FrameType::kSegment;
  // kSegment: the bucket, and for a reduction each rank's weight.
  Shape shape = {};
  std::span<std::byte> data = {};
  std::vector<float> weights = {};
  // It sends on what the operation before it brings, and nothing before all of that is there.
  bool follows = false;
  // Not empty: what goes between ranks, in place of the bucket's floats; an element for each. A
  // reduction's terms are multiplied by their weights already, but for the bucket's own slice.
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

  // For the next segment, which is there once it is pushed.
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
  std::uint64_t received_ = 0;  // ever
  std::uint64_t added_ = 0;     // of those
};

class GroupCore {
 public:
  struct Options {
    std::uint32_t rank = 0;
    std::uint32_t size = 1;
    std::vector<std::string> names = {};  // by rank: "rank 2 (node b)"
    // A rank that is waited for is named after slow_after, and given up after gone_after; one that
    // is busy, and says so, gone_after its last word.
    Duration slow_after = std::chrono::seconds(5);
    Duration gone_after = std::chrono::minutes(10);
    std::size_t segment_bytes = kSegmentBytes;
  };
  struct Outgoing {
    FrameHeader header;
    std::string head = {};
    ByteSpan tail = {};
  };
  // The facts that a rank has sent.
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

  // The operation's number, from 1.
  std::uint64_t post(TimePoint now, Operation&& operation);
  bool is_done(std::uint64_t number) const { return number < open_.first(); }
  bool is_idle() const { return open_.empty(); }
  // Another rank's, once an operation that exchanges facts is done. Its next ones come after that.
  Facts take_facts(std::uint32_t peer) { return std::exchange(peers_[peer].facts, Facts()); }

  // The first cause; final.
  const std::optional<Error>& failure() const { return failure_; }
  // Ends the group, on every rank.
  void abort(TimePoint now, Error why);

  // Sending: the next frame for a peer. sent() follows for each, in their order, once nobody reads
  // its bytes any more; others may be taken before that.
  std::optional<Outgoing> next(std::uint32_t peer);
  void sent(TimePoint now, std::uint32_t peer);

  // Receiving: whether a frame is to be taken now, where its tail goes, and its arrival. A frame
  // without a place keeps its own tail. kLater holds until an operation is posted or goes on.
  Verdict judge(TimePoint now, std::uint32_t peer, const DecodedHeader& frame);
  std::span<std::byte> place(std::uint32_t peer, const FrameHeader& header, std::size_t tail_bytes);
  void received(TimePoint now, std::uint32_t peer, Frame&& frame);
  // Room for the tail of the segment that the peer owes, which may be written to before its frame
  // is known: memory of the core, never an operation's. Empty where no such segment is taken now.
  std::span<std::byte> likely_place(std::uint32_t peer);
  void heard(TimePoint now, std::uint32_t peer) { peers_[peer].word.heard = now; }

  // The connection has ended. A rank that has left the group is no loss.
  void closed(TimePoint now, std::uint32_t peer, const Error& why);
  // Takes and drops all that a peer still sends, but for its reason to end the group.
  void drain(std::uint32_t peer) { peers_[peer].is_drained = true; }
  bool has_left(std::uint32_t peer) const { return peers_[peer].has_left; }
  bool is_leaving() const { return is_leaving_; }

  // About every 100 ms: pulses, and lines about ranks that are waited for.
  std::vector<std::string> on_tick(TimePoint now);
  void set_activity(std::string_view activity);
  // The ranks that the oldest operation waits for: "rank 2 (node b) [last heard 0.3 s ago,
  // testing]".
  std::string waited_for(TimePoint now) const;
  std::vector<std::uint32_t> awaited() const;
  // Those of them that hold this rank up: for one that says that it waits itself, its own.
  std::vector<std::uint32_t> holding_up(TimePoint now) const;
  Duration waited(TimePoint now) const { return is_idle() ? Duration() : now - first_since_; }
  // How far the oldest operation has come with each rank that it waits for.
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
  // One way between two ranks: operations go one after the other.
  struct Progress {
    std::uint64_t operation = 1;  // the first that is not over
    std::size_t done = 0;         // frames of it
    std::size_t count = 0;        // all of them, once it is posted; none only if it is not
  };
  struct Peer {
    Progress giving;  // to the connection
    Progress sending;
    Progress receiving;
    Window window;  // of reductions
    Facts facts;
    LastWord word;
    bool pulse_is_due = false;
    bool abort_is_due = false;
    bool is_drained = false;
    bool has_left = false;
    bool is_closed = false;
    std::deque<FrameHeader> given;  // of frames that are not sent
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
  std::vector<Peer> peers_;          // by rank; its own is unused
  NumberedQueue<Open> open_;         // operations
  std::vector<const float*> terms_;  // of the sum at hand
  std::vector<float> weights_;
  std::vector<const kernels::Bf16*> packed_terms_;
  std::optional<Error> failure_;
  std::string abort_head_;
  Pulse pulse_;  // its own
  bool is_leaving_ = false;
  TimePoint first_since_{};  // the oldest open operation has been it since then
  Duration warn_after_{};
  TimePoint pulsed_{};
  EventRing events_;
};

}  // namespace paddle::collective

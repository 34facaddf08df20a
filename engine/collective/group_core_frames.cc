// Frames that leave a rank of a group, and frames that reach it.
#include <fmt/format.h>

#include "base/text.h"
#include "engine/collective/group_core.h"
#include "proto/collective.pb.h"

namespace paddle::collective {
namespace {

constexpr std::size_t kFactsHeadBytesMax = 32U << 10U;
constexpr std::size_t kTextBytesMax = 4096;  // of another rank's reason

bool is_facts(std::uint8_t type) {
  return type == static_cast<std::uint8_t>(FrameType::kMember) ||
         type == static_cast<std::uint8_t>(FrameType::kStep) ||
         type == static_cast<std::uint8_t>(FrameType::kLeaveGroup);
}

const char* text_of(FrameType type, Pattern pattern) {
  if (type == FrameType::kMember) return "a join";
  if (type == FrameType::kStep) return "the begin of a step";
  if (type == FrameType::kLeaveGroup) return "a leave";
  switch (pattern) {
    case Pattern::kReduce:
      return "a reduction";
    case Pattern::kGather:
      return "a gathering";
    case Pattern::kBroadcast:
      return "a broadcast";
    case Pattern::kExchange:
      return "an exchange";
    case Pattern::kReduceOnHost:
      return "a reduction on hosts";
    case Pattern::kReduceBetween:
      return "a reduction between hosts";
    case Pattern::kGatherBetween:
      return "a gathering between hosts";
    case Pattern::kGatherOnHost:
      return "a gathering on hosts";
  }
  return "an unknown pattern";
}

std::string text_of(const Operation& what) {
  const bool is_segment = what.type == FrameType::kSegment;
  return fmt::format("{} of {} bytes at {}", text_of(what.type, what.shape.pattern),
                     is_segment ? what.shape.bytes : what.tail.size(), what.step);
}

// A part of a bucket as it goes between ranks.
std::span<std::byte> on_wire(const Operation& what, std::size_t begin, std::size_t size) {
  if (what.packed.empty()) return what.data.subspan(begin, size);
  constexpr std::size_t kFold = sizeof(float) / sizeof(kernels::Bf16);
  return std::as_writable_bytes(what.packed).subspan(begin / kFold, size / kFold);
}

FrameHeader header_of(FrameType type) {
  FrameHeader header;
  header.type = static_cast<std::uint8_t>(type);
  return header;
}

}  // namespace

std::string GroupCore::position(TimePoint now) const {
  if (is_idle()) return fmt::format("no operation is under way after {}", open_.first() - 1);
  const Open& oldest = *open_.find(open_.first());
  std::string text = fmt::format("operation {}, {}", open_.first(), text_of(oldest.what));
  std::size_t told = 0;
  const std::vector<std::uint32_t> ranks = awaited();
  for (const std::uint32_t peer : ranks) {
    if (told++ == kRanksTold)
      return text + fmt::format("; {} more ranks", ranks.size() - kRanksTold);
    const Peer& one = peers_[peer];
    const std::size_t sends = frames(oldest, rank(), peer);
    const std::size_t receives = frames(oldest, peer, rank());
    text += fmt::format("; {}: sent {} of {}, received {} of {}, {}", name(peer),
                        one.sending.operation > open_.first() ? sends : one.sending.done, sends,
                        one.receiving.operation > open_.first() ? receives : one.receiving.done,
                        receives, one.word.text(now, options_.names));
  }
  return text;
}

std::optional<GroupCore::Outgoing> GroupCore::next(std::uint32_t peer) {
  Peer& one = peers_[peer];
  if (one.is_closed || peer == rank()) return std::nullopt;
  Outgoing out;
  if (failure_) {
    if (!std::exchange(one.abort_is_due, false)) return std::nullopt;
    out = {header_of(FrameType::kAbort), abort_head_};
  } else if (std::exchange(one.pulse_is_due, false)) {
    out = {header_of(FrameType::kPulse), encode(pulse_)};
  } else {
    const Open* const operation = open_.find(one.giving.operation);
    if (operation == nullptr || !may_send(one.giving.operation)) return std::nullopt;
    out = frame_of(peer, *operation);
    if (++one.giving.done == one.giving.count) go_on(one.giving, rank(), peer);
  }
  one.given.push_back(out.header);
  return out;
}

GroupCore::Outgoing GroupCore::frame_of(std::uint32_t peer, const Open& operation) const {
  const Operation& what = operation.what;
  const Progress& way = peers_[peer].giving;
  Outgoing out{header_of(what.type)};
  out.header.sequence = way.operation;
  if (what.type == FrameType::kSegment) {
    const Range part =
        segment_of(range_sent(what.shape, rank(), peer), way.done, operation.segment_bytes);
    out.header.flags = static_cast<std::uint16_t>(what.shape.pattern);
    out.header.step = part.begin;
    out.tail = on_wire(what, part.begin, part.size());
  } else {
    out.header.step = what.step;
    out.head = what.head;
    out.tail = what.tail;
  }
  return out;
}

void GroupCore::sent(TimePoint now, std::uint32_t peer) {
  Peer& one = peers_[peer];
  const FrameHeader given = one.given.front();
  one.given.pop_front();
  const auto type = static_cast<FrameType>(given.type);
  if (failure_ || type == FrameType::kPulse || type == FrameType::kAbort) return;
  Open* const operation = open_.find(one.sending.operation);
  if (operation == nullptr) return;
  note(now, EventKind::kSent, peer, given.sequence, given.step);
  if (++one.sending.done < one.sending.count) return;
  --operation->sends_left;
  go_on(one.sending, rank(), peer);
  work(now);
}

GroupCore::Verdict GroupCore::judge(TimePoint now, std::uint32_t peer, const DecodedHeader& frame) {
  const std::uint8_t type = frame.header.type;
  Peer& one = peers_[peer];
  if (type == static_cast<std::uint8_t>(FrameType::kPulse) ||
      type == static_cast<std::uint8_t>(FrameType::kAbort)) {
    if (frame.tail_bytes == 0) return Verdict::kTake;
    return broken(now, peer, frame, "no tail");
  }
  if (one.is_drained || failure_) return Verdict::kTake;
  if (one.has_left) return broken(now, peer, frame, "nothing, since it has left");
  if (is_facts(type)) return judge_facts(now, peer, frame);
  if (type == static_cast<std::uint8_t>(FrameType::kSegment)) {
    return judge_segment(now, peer, frame);
  }
  return broken(now, peer, frame, "another type of frame");
}

// The next facts may come before this rank has posted its own, so that a rank that computes for
// long reads on, and hears when the group ends.
GroupCore::Verdict GroupCore::judge_facts(TimePoint now, std::uint32_t peer,
                                          const DecodedHeader& frame) {
  const Peer& one = peers_[peer];
  const Open* const operation = open_.find(one.receiving.operation);
  if (frame.head_bytes > kFactsHeadBytesMax || frame.tail_bytes > whole_bytes_max(size())) {
    return broken(now, peer, frame, "facts of a lawful size");
  }
  // Operations that bring nothing from this peer may stand between the next one and its frame.
  if (operation == nullptr && frame.header.sequence > one.receiving.operation)
    return Verdict::kLater;
  if (frame.header.sequence != one.receiving.operation) {
    return broken(now, peer, frame, fmt::format("operation {}", one.receiving.operation));
  }
  if (operation != nullptr && !fits(operation->what, frame)) {
    return broken(now, peer, frame, text_of(operation->what));
  }
  return one.facts.operation == 0 ? Verdict::kTake : Verdict::kLater;
}

bool GroupCore::fits(const Operation& what, const DecodedHeader& frame) const {
  return static_cast<std::uint8_t>(what.type) == frame.header.type &&
         what.tail.size() == frame.tail_bytes && what.step == frame.header.step;
}

GroupCore::Verdict GroupCore::judge_segment(TimePoint now, std::uint32_t peer,
                                            const DecodedHeader& frame) {
  const Peer& one = peers_[peer];
  const Open* const operation = open_.find(one.receiving.operation);
  // Operations that bring nothing from this peer may stand between the next one and its frame.
  if (operation == nullptr && frame.header.sequence > one.receiving.operation)
    return Verdict::kLater;
  if (frame.header.sequence != one.receiving.operation) {
    return broken(now, peer, frame, fmt::format("operation {}", one.receiving.operation));
  }
  if (operation == nullptr) return Verdict::kLater;
  const Operation& what = operation->what;
  if (what.type != FrameType::kSegment) {
    return broken(now, peer, frame, text_of(what));
  }
  const Range part = range_owed(peer, *operation);
  const std::size_t bytes = on_wire(what, part.begin, part.size()).size();
  if (frame.header.flags != static_cast<std::uint16_t>(what.shape.pattern) ||
      frame.head_bytes != 0 || frame.header.step != part.begin || frame.tail_bytes != bytes) {
    return broken(
        now, peer, frame,
        fmt::format("{} of {} bytes: {} from byte {} on", text_of(what.type, what.shape.pattern),
                    what.shape.bytes, bytes, part.begin));
  }
  const bool has_room = !reduces(what.shape.pattern) || one.window.has_room();
  return has_room ? Verdict::kTake : Verdict::kLater;
}

// Of the segment that the peer's next frame has to bring.
Range GroupCore::range_owed(std::uint32_t peer, const Open& operation) const {
  return segment_of(range_sent(operation.what.shape, peer, rank()), peers_[peer].receiving.done,
                    operation.segment_bytes);
}

std::span<std::byte> GroupCore::likely_place(std::uint32_t peer) {
  Peer& one = peers_[peer];
  const Open* const operation = open_.find(one.receiving.operation);
  if (operation == nullptr || failure_ || one.is_drained || !one.window.has_room()) return {};
  const Operation& what = operation->what;
  if (what.type != FrameType::kSegment || !reduces(what.shape.pattern)) return {};
  const Range part = range_owed(peer, *operation);
  return one.window.place(on_wire(what, part.begin, part.size()).size());
}

GroupCore::Verdict GroupCore::broken(TimePoint now, std::uint32_t peer, const DecodedHeader& frame,
                                     const std::string& expected) {
  const FrameHeader& header = frame.header;
  fail(now,
       Error{Errc::kUsage,
             fmt::format(
                 "{} sends {} (operation {}, {} bytes, at {}), and {} expects {}", name(peer),
                 text_of(static_cast<FrameType>(header.type), static_cast<Pattern>(header.flags)),
                 header.sequence, frame.tail_bytes, header.step, name(rank()), expected),
             "do both run the same program with the same job file?"},
       ~std::uint32_t{0});
  return Verdict::kBroken;
}

std::span<std::byte> GroupCore::place(std::uint32_t peer, const FrameHeader& header,
                                      std::size_t tail_bytes) {
  Peer& one = peers_[peer];
  if (header.type != static_cast<std::uint8_t>(FrameType::kSegment) || one.is_drained || failure_) {
    return {};
  }
  const Operation& what = open_.find(one.receiving.operation)->what;
  if (!reduces(what.shape.pattern)) {
    return on_wire(what, header.step, what.data.size() - header.step).first(tail_bytes);
  }
  return one.window.place(tail_bytes);
}

void GroupCore::received(TimePoint now, std::uint32_t peer, Frame&& frame) {
  Peer& one = peers_[peer];
  one.word.heard = now;
  const FrameHeader& header = frame.header;
  if (header.type == static_cast<std::uint8_t>(FrameType::kPulse)) {
    if (auto pulse = decode_pulse(frame.head, size())) one.word.pulse = *std::move(pulse);
    return;
  }
  if (header.type == static_cast<std::uint8_t>(FrameType::kAbort)) {
    return take_abort(now, peer, frame);
  }
  if (one.is_drained || failure_) return;
  note(now, EventKind::kReceived, peer, header.sequence, header.step);
  if (header.type != static_cast<std::uint8_t>(FrameType::kSegment)) {
    one.has_left = header.type == static_cast<std::uint8_t>(FrameType::kLeaveGroup);
    one.facts = {header.sequence, static_cast<FrameType>(header.type), header.step,
                 std::move(frame.head), std::move(frame.tail)};
    absorb_facts(now, peer);
    return work(now);
  }
  Open& operation = *open_.find(one.receiving.operation);
  if (reduces(operation.what.shape.pattern)) one.window.push();
  count_received(peer, operation);
  work(now);
}

void GroupCore::take_abort(TimePoint now, std::uint32_t peer, const Frame& frame) {
  wire::Abort message;
  Error why{Errc::kFailed, name(peer) + " has ended the group"};
  if (message.ParseFromString(frame.head)) {
    why.code = errc_of(message.code());
    why.message = escape_control(message.message().substr(0, kTextBytesMax));
    why.hint = escape_control(message.hint().substr(0, kTextBytesMax));
  }
  peers_[peer].has_left = true;
  fail(now, std::move(why), peer);
}

// Facts that came before their operation was posted, or just now.
void GroupCore::absorb_facts(TimePoint now, std::uint32_t peer) {
  Peer& one = peers_[peer];
  Open* const operation = open_.find(one.receiving.operation);
  if (operation == nullptr || one.facts.operation != one.receiving.operation) return;
  DecodedHeader frame;
  frame.header.type = static_cast<std::uint8_t>(one.facts.type);
  frame.header.sequence = one.facts.operation;
  frame.header.step = one.facts.step;
  frame.tail_bytes = static_cast<std::uint32_t>(one.facts.tail.size());
  if (!fits(operation->what, frame)) {
    broken(now, peer, frame, text_of(operation->what));
    return;
  }
  count_received(peer, *operation);
}

void GroupCore::count_received(std::uint32_t peer, Open& operation) {
  Progress& way = peers_[peer].receiving;
  if (++way.done < way.count) return;
  --operation.receives_left;
  go_on(way, peer, rank());
}

}  // namespace paddle::collective

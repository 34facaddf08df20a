#include "engine/group/group_core.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "engine/math/rank_sums.h"
#include "proto/collective.pb.h"

namespace paddle::collective {
namespace {

constexpr std::uint32_t kNobody = ~std::uint32_t{0};
constexpr std::size_t kFactsHeadBytesMax = 32U << 10U;
constexpr std::size_t kTextBytesMax = 4096;  // longest message or hint of another rank's abort

// The levels of a reduction, as bits: 1 on hosts, 2 between hosts, 3 both.
unsigned levels_of(Pattern pattern) {
  if (pattern == Pattern::kReduceOnHost) return 1;
  return pattern == Pattern::kReduceBetween ? 2 : 3;
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

bool is_facts(std::uint8_t type) {
  return type == static_cast<std::uint8_t>(FrameType::kMember) ||
         type == static_cast<std::uint8_t>(FrameType::kStep) ||
         type == static_cast<std::uint8_t>(FrameType::kLeaveGroup);
}

const char* text_of(FrameType type, Pattern pattern) {
  if (type == FrameType::kMember) return "a join";
  if (type == FrameType::kStep) return "the start of a step";
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

// The bytes that are sent for a part of a bucket: those of the packed array, if there is one.
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

GroupCore::GroupCore(Options options) : options_(std::move(options)), peers_(options_.size) {
  PADDLE_CHECK(options_.rank < options_.size && options_.names.size() == options_.size);
  PADDLE_CHECK(options_.segment_bytes % sizeof(float) == 0);
}

std::uint64_t GroupCore::post(TimePoint now, Operation&& operation) {
  if (is_idle()) first_since_ = now;
  const std::uint64_t number = open_.end();
  Open& opened = open_.push({.what = std::move(operation)});
  if (opened.what.type == FrameType::kSegment) {
    opened.what.shape.ranks = size();
    opened.segment_bytes = segment_bytes(opened.what.shape, options_.segment_bytes);
    PADDLE_CHECK(opened.what.data.size() == opened.what.shape.bytes);
    PADDLE_CHECK(opened.what.packed.empty() ||
                 opened.what.packed.size() * sizeof(float) == opened.what.shape.bytes);
    if (reduces(opened.what.shape.pattern)) prepare_sum(opened);
  } else {
    PADDLE_CHECK(opened.what.tail.size() <= whole_bytes_max(size()));
  }
  is_leaving_ = is_leaving_ || opened.what.type == FrameType::kLeaveGroup;
  const auto begin = [&](Progress& way, std::uint32_t from, std::uint32_t to) {
    const std::size_t count = frames(opened, from, to);
    if (way.operation != number) return;  // an earlier operation is not over
    way.count = count;
    if (count == 0) ++way.operation;
  };
  for (std::uint32_t peer = 0; peer < size(); ++peer) {
    if (frames(opened, rank(), peer) > 0) ++opened.sends_left;
    if (frames(opened, peer, rank()) > 0) ++opened.receives_left;
    begin(peers_[peer].giving, rank(), peer);
    begin(peers_[peer].sending, rank(), peer);
    begin(peers_[peer].receiving, peer, rank());
  }
  note(now, EventKind::kPosted, rank(), number, opened.what.shape.bytes);
  for (std::uint32_t peer = 0; peer < size(); ++peer) absorb_facts(now, peer);
  work(now);
  return number;
}

void GroupCore::abort(TimePoint now, Error why) {
  fail(now, std::move(why).with(name(rank())), kNobody);
}

// Frames that this rank sends, and frames that it receives.

std::optional<GroupCore::Outgoing> GroupCore::next(std::uint32_t peer) {
  Peer& one = peers_[peer];
  if (one.is_closed || peer == rank()) return std::nullopt;
  Outgoing out;
  if (failure_) {
    if (!std::exchange(one.abort_is_due, false)) return std::nullopt;
    out = {header_of(FrameType::kAbort), abort_head_};
  } else if (std::exchange(one.state_is_due, false)) {
    out = {header_of(FrameType::kRankState), encode(state_)};
  } else {
    const Open* const operation = open_.find(one.giving.operation);
    if (operation == nullptr || !may_send(one.giving.operation)) return std::nullopt;
    out = frame_of(peer, *operation);
    if (++one.giving.done == one.giving.count) go_on(one.giving, rank(), peer);
  }
  one.given.push_back(out.header);
  return out;
}

void GroupCore::sent(TimePoint now, std::uint32_t peer) {
  Peer& one = peers_[peer];
  PADDLE_CHECK(!one.given.empty());
  const FrameHeader given = one.given.front();
  one.given.pop_front();
  const auto type = static_cast<FrameType>(given.type);
  if (failure_ || type == FrameType::kRankState || type == FrameType::kAbort) return;
  Open* const operation = open_.find(one.sending.operation);
  if (operation == nullptr) return;
  note(now, EventKind::kSent, peer, given.sequence, given.step);
  if (++one.sending.done < one.sending.count) return;
  PADDLE_CHECK(operation->sends_left > 0);
  --operation->sends_left;
  go_on(one.sending, rank(), peer);
  work(now);
}

GroupCore::Verdict GroupCore::judge(TimePoint now, std::uint32_t peer, const DecodedHeader& frame) {
  const std::uint8_t type = frame.header.type;
  Peer& one = peers_[peer];
  if (type == static_cast<std::uint8_t>(FrameType::kRankState) ||
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
  one.last.received = now;
  const FrameHeader& header = frame.header;
  if (header.type == static_cast<std::uint8_t>(FrameType::kRankState)) {
    if (auto state = decode_rank_state(frame.head, size())) one.last.state = *std::move(state);
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

std::span<std::byte> GroupCore::likely_place(std::uint32_t peer) {
  Peer& one = peers_[peer];
  const Open* const operation = open_.find(one.receiving.operation);
  if (operation == nullptr || failure_ || one.is_drained || !one.window.has_room()) return {};
  const Operation& what = operation->what;
  if (what.type != FrameType::kSegment || !reduces(what.shape.pattern)) return {};
  const Range part = range_owed(peer, *operation);
  return one.window.place(on_wire(what, part.begin, part.size()).size());
}

// Lost ranks, and ranks that this rank waits for.

void GroupCore::closed(TimePoint now, std::uint32_t peer, const Error& why) {
  Peer& one = peers_[peer];
  if (one.is_closed) return;
  one.is_closed = true;
  note(now, EventKind::kClosed, peer, open_.first());
  if (one.has_left || failure_) return;
  // Other codes mean that the peer's bytes are wrong or forged, which is not a loss.
  const Errc code = why.code == Errc::kFailed ? Errc::kUnreachable : why.code;
  fail(now,
       Error{code,
             fmt::format("lost {}: {}; {}", name(peer), why.message,
                         one.last.text(now, options_.names, " by " + name(rank()))),
             why.hint},
       peer);
}

std::vector<std::string> GroupCore::on_tick(TimePoint now) {
  std::vector<std::string> lines;
  if (now - state_period_began_ >= kRankStatePeriod) {
    state_period_began_ = now;
    for (Peer& peer : peers_) peer.state_is_due = true;
    state_.waits_for = waited(now) >= kRankStatePeriod ? awaited() : std::vector<std::uint32_t>();
  }
  if (is_idle() || failure_) return lines;
  const Duration waited = this->waited(now);
  const Duration limit = std::max(options_.slow_after, warn_after_);
  const bool gives_up = is_gone(now);
  if (waited < limit && !gives_up) return lines;
  warn_after_ = 2 * limit;
  for (const std::uint32_t peer : awaited()) note(now, EventKind::kSlow, peer, open_.first());
  if (gives_up) {
    fail(now,
         Error{Errc::kUnreachable, fmt::format("{} waited {:.0f} s for {}", name(rank()),
                                               seconds(waited), waited_for(now))},
         kNobody);
  } else {
    lines.push_back(fmt::format("waiting {:.0f} s for {}", seconds(waited), waited_for(now)));
  }
  return lines;
}

void GroupCore::set_activity(std::string_view activity) {
  state_.activity = activity.substr(0, kActivityBytesMax);
  for (Peer& peer : peers_) peer.state_is_due = true;
}

std::string GroupCore::waited_for(TimePoint now) const {
  std::string text;
  for (const std::uint32_t peer : awaited()) {
    text += fmt::format("{}{} [{}]", text.empty() ? "" : ", ", name(peer),
                        peers_[peer].last.text(now, options_.names));
  }
  return text;
}

// The ranks with which the oldest operation is not over.
std::vector<std::uint32_t> GroupCore::awaited() const {
  std::vector<std::uint32_t> ranks;
  if (is_idle()) return ranks;
  for (std::uint32_t peer = 0; peer < size(); ++peer) {
    const Peer& one = peers_[peer];
    const bool is_over =
        one.sending.operation > open_.first() && one.receiving.operation > open_.first();
    if (!is_over) ranks.push_back(peer);
  }
  return ranks;
}

std::vector<std::uint32_t> GroupCore::holding_up(TimePoint now) const {
  const std::vector<std::uint32_t> peers = awaited();
  std::vector<std::uint32_t> ranks;
  for (const std::uint32_t peer : peers) {
    const LastRankState& last = peers_[peer].last;
    if (!last.waits(now)) ranks.push_back(peer);
    if (!last.waits(now)) continue;
    std::ranges::copy_if(last.state.waits_for, std::back_inserter(ranks),
                         [&](std::uint32_t other) { return other != rank(); });
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks.empty() ? peers : ranks;
}

std::string GroupCore::position(TimePoint now) const {
  if (is_idle()) return fmt::format("no operation has started after {}", open_.first() - 1);
  const Open& oldest = *open_.find(open_.first());
  std::string text = fmt::format("operation {}, {}", open_.first(), text_of(oldest.what));
  std::size_t count = 0;
  const std::vector<std::uint32_t> ranks = awaited();
  for (const std::uint32_t peer : ranks) {
    if (count++ == kRanksNamed)
      return text + fmt::format("; {} more ranks", ranks.size() - kRanksNamed);
    const Peer& one = peers_[peer];
    const std::size_t sends = frames(oldest, rank(), peer);
    const std::size_t receives = frames(oldest, peer, rank());
    text += fmt::format("; {}: sent {} of {}, received {} of {}, {}", name(peer),
                        one.sending.operation > open_.first() ? sends : one.sending.done, sends,
                        one.receiving.operation > open_.first() ? receives : one.receiving.done,
                        receives, one.last.text(now, options_.names));
  }
  return text;
}

// Data that operations send and receive.

// The range of the segment that the peer's next frame must contain.
Range GroupCore::range_owed(std::uint32_t peer, const Open& operation) const {
  return segment_of(range_sent(operation.what.shape, peer, rank()), peers_[peer].receiving.done,
                    operation.segment_bytes);
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

std::size_t GroupCore::frames(const Open& operation, std::uint32_t from, std::uint32_t to) const {
  if (operation.what.type != FrameType::kSegment) return from == to ? 0 : 1;
  return segment_count(range_sent(operation.what.shape, from, to), operation.segment_bytes);
}

void GroupCore::prepare_sum(Open& operation) const {
  const Operation& what = operation.what;
  PADDLE_CHECK(what.weights.size() == size());
  PADDLE_CHECK(what.shape.bytes % sizeof(float) == 0);
  PADDLE_CHECK(what.packed.empty() || what.shape.bytes > whole_bytes_max(size()));
  PADDLE_CHECK(what.packed.empty() || what.shape.pattern == Pattern::kReduce);
  operation.to_add = segment_count(part_of(what.shape, rank()), operation.segment_bytes);
  operation.addends = addends(what.shape, rank());
}

// Whether this rank has all data that the operation sends and sums: one that follows another
// operation needs that operation's result.
bool GroupCore::may_send(std::uint64_t number) const {
  const Open* const before = open_.find(number)->what.follows ? open_.find(number - 1) : nullptr;
  return before == nullptr || (before->receives_left == 0 && before->added == before->to_add);
}

// Moves on to the next operation with frames between these two ranks.
void GroupCore::go_on(Progress& way, std::uint32_t from, std::uint32_t to) {
  way = {.operation = way.operation + 1};
  while (const Open* const operation = open_.find(way.operation)) {
    way.count = frames(*operation, from, to);
    if (way.count > 0) return;
    ++way.operation;
  }
}

// Checks of received frames, and their effects.

// A peer's next facts are accepted even before this rank has posted its own, so that a rank that
// computes for long continues to read, and receives an abort.
GroupCore::Verdict GroupCore::judge_facts(TimePoint now, std::uint32_t peer,
                                          const DecodedHeader& frame) {
  const Peer& one = peers_[peer];
  const Open* const operation = open_.find(one.receiving.operation);
  if (frame.head_bytes > kFactsHeadBytesMax || frame.tail_bytes > whole_bytes_max(size())) {
    return broken(now, peer, frame, "step info within the size limit");
  }
  // The frame may belong to an operation that is not posted yet, behind others without a frame from
  // this peer.
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

GroupCore::Verdict GroupCore::judge_segment(TimePoint now, std::uint32_t peer,
                                            const DecodedHeader& frame) {
  const Peer& one = peers_[peer];
  const Open* const operation = open_.find(one.receiving.operation);
  // The frame may belong to an operation that is not posted yet, behind others without a frame from
  // this peer.
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
        fmt::format("{} of {} bytes: {} bytes starting at byte {}",
                    text_of(what.type, what.shape.pattern), what.shape.bytes, bytes, part.begin));
  }
  const bool has_room = !reduces(what.shape.pattern) || one.window.has_room();
  return has_room ? Verdict::kTake : Verdict::kLater;
}

bool GroupCore::fits(const Operation& what, const DecodedHeader& frame) const {
  return static_cast<std::uint8_t>(what.type) == frame.header.type &&
         what.tail.size() == frame.tail_bytes && what.step == frame.header.step;
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

void GroupCore::take_abort(TimePoint now, std::uint32_t peer, const Frame& frame) {
  wire::Abort message;
  Error why{Errc::kFailed, name(peer) + " ended the group"};
  if (message.ParseFromString(frame.head)) {
    why.code = errc_of(message.code());
    why.message = escape_control(message.message().substr(0, kTextBytesMax));
    why.hint = escape_control(message.hint().substr(0, kTextBytesMax));
  }
  peers_[peer].has_left = true;
  fail(now, std::move(why), peer);
}

// Counts a peer's stored facts as received if their operation is posted; they may have arrived
// before that.
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
  PADDLE_CHECK(operation.receives_left > 0);
  --operation.receives_left;
  go_on(way, peer, rank());
}

// Sums, and the ends of operations and of the group.

// Does all that is possible without a further frame.
void GroupCore::work(TimePoint now) {
  if (failure_) return;  // callers may have freed the memory
  // Within a level, segments are added in the order of operations. The two levels have different
  // peers, so neither waits for the other.
  unsigned waiting = 0;
  for (std::uint64_t number = open_.first(); number < open_.end(); ++number) {
    Open& operation = *open_.find(number);
    const unsigned levels = levels_of(operation.what.shape.pattern);
    bool goes_on = (waiting & levels) == 0 && may_send(number);
    while (goes_on && operation.added < operation.to_add) {
      goes_on = add_segment(now, number, operation);
    }
    if (operation.added < operation.to_add) waiting |= levels;
  }
  while (Open* const oldest = open_.find(open_.first())) {
    if (oldest->sends_left > 0 || oldest->receives_left > 0 || oldest->added < oldest->to_add)
      return;
    note(now, EventKind::kDone, rank(), open_.first());
    open_.pop();
    first_since_ = now;
    warn_after_ = {};
  }
}

// Returns false if the segment has not arrived from every rank.
bool GroupCore::add_segment(TimePoint now, std::uint64_t number, Open& operation) {
  const Operation& what = operation.what;
  // A small bucket is sent whole to every rank, so the sum may overwrite it only after that.
  if (what.shape.bytes <= whole_bytes_max(size()) && operation.sends_left > 0) return false;
  for (const std::uint32_t peer : operation.addends) {
    if (peer != rank() && peers_[peer].window.empty()) return false;
  }
  const Range own = part_of(what.shape, rank());
  const Range part = segment_of(own, operation.added, operation.segment_bytes);
  sum(operation, part);
  for (const std::uint32_t peer : operation.addends) {
    if (peer != rank()) peers_[peer].window.pop();
  }
  ++operation.added;
  note(now, EventKind::kAdded, rank(), number, part.begin);
  return true;
}

// Sums a part of this rank's slice. The terms are the oldest segments in the windows of the
// addends.
void GroupCore::sum(const Open& operation, const Range& part) {
  const Operation& what = operation.what;
  const std::size_t count = part.size() / sizeof(float);
  auto* const sum = reinterpret_cast<float*>(what.data.data() + part.begin);
  terms_.clear();
  weights_.clear();
  packed_terms_.clear();
  for (const std::uint32_t peer : operation.addends) {
    const std::byte* const segment = peers_[peer].window.front();
    terms_.push_back(peer == rank() ? sum : reinterpret_cast<const float*>(segment));
    weights_.push_back(what.weights[peer]);
    packed_terms_.push_back(reinterpret_cast<const kernels::Bf16*>(segment));
  }
  if (what.packed.empty()) {
    kernels::weighted_sum(count, terms_, weights_, sum);
  } else {
    kernels::sum_bf16(count, packed_terms_, rank(), what.weights[rank()], sum);
  }
}

// The cause is sent to every rank but `untold`, which knows it (kNobody: to all).
void GroupCore::fail(TimePoint now, Error why, std::uint32_t untold) {
  if (failure_) return;
  note(now, EventKind::kFailed, rank(), open_.first());
  wire::Abort message;
  message.set_code(static_cast<std::uint32_t>(why.code));
  message.set_message(why.message.substr(0, kFrameHeadBytesMax / 4));
  message.set_hint(why.hint.substr(0, kFrameHeadBytesMax / 4));
  abort_head_ = message.SerializeAsString();
  for (std::uint32_t peer = 0; peer < size(); ++peer) {
    peers_[peer].abort_is_due = peer != rank() && peer != untold && !peers_[peer].is_closed;
  }
  failure_ = std::move(why);
}

// For a rank that tests or saves, the time counts from its last frame. If an awaited rank itself
// waits, the limit is slow_after later, so that a rank that waits directly for the slow one gives
// up first.
bool GroupCore::is_gone(TimePoint now) const {
  TimePoint since = first_since_;
  for (const std::uint32_t peer : awaited()) {
    const LastRankState& last = peers_[peer].last;
    if (last.is_busy()) since = std::max(since, last.received);
    if (last.waits(now)) since = std::max(since, first_since_ + options_.slow_after);
  }
  return now - since >= options_.gone_after;
}

}  // namespace paddle::collective

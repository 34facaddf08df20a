#include "engine/collective/group_core.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/kernels/rank_sums.h"
#include "proto/collective.pb.h"

namespace paddle::collective {
namespace {

constexpr std::uint32_t kNobody = ~std::uint32_t{0};

// Of a reduction: on hosts, between hosts, or both.
unsigned levels_of(Pattern pattern) {
  if (pattern == Pattern::kReduceOnHost) return 1;
  return pattern == Pattern::kReduceBetween ? 2 : 3;
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

GroupCore::GroupCore(Options options) : options_(std::move(options)), peers_(options_.size) {
  PADDLE_CHECK(options_.rank < options_.size && options_.names.size() == options_.size);
  PADDLE_CHECK(options_.segment_bytes % sizeof(float) == 0);
}

std::size_t GroupCore::frames(const Open& operation, std::uint32_t from, std::uint32_t to) const {
  if (operation.what.type != FrameType::kSegment) return from == to ? 0 : 1;
  return segment_count(range_sent(operation.what.shape, from, to), operation.segment_bytes);
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
    if (way.operation != number) return;  // one before it is not over
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

void GroupCore::prepare_sum(Open& operation) const {
  const Operation& what = operation.what;
  PADDLE_CHECK(what.weights.size() == size());
  PADDLE_CHECK(what.shape.bytes % sizeof(float) == 0);
  PADDLE_CHECK(what.packed.empty() || what.shape.bytes > whole_bytes_max(size()));
  PADDLE_CHECK(what.packed.empty() || what.shape.pattern == Pattern::kReduce);
  operation.to_add = segment_count(part_of(what.shape, rank()), operation.segment_bytes);
  operation.addends = addends(what.shape, rank());
}

// Whether there is all that it sends and adds up of this rank's own.
bool GroupCore::may_send(std::uint64_t number) const {
  const Open* const before = open_.find(number)->what.follows ? open_.find(number - 1) : nullptr;
  return before == nullptr || (before->receives_left == 0 && before->added == before->to_add);
}

// To the next operation in which there is something for this peer.
void GroupCore::go_on(Progress& way, std::uint32_t from, std::uint32_t to) {
  way = {.operation = way.operation + 1};
  while (const Open* const operation = open_.find(way.operation)) {
    way.count = frames(*operation, from, to);
    if (way.count > 0) return;
    ++way.operation;
  }
}

// All that can be done without another frame.
void GroupCore::work(TimePoint now) {
  if (failure_) return;  // the memory may be its caller's again
  // Segments are added in the order of operations, but the levels of two do not share their peers.
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

// False: it is not there yet from every rank.
bool GroupCore::add_segment(TimePoint now, std::uint64_t number, Open& operation) {
  const Operation& what = operation.what;
  // All of a whole bucket is sent, so the sum may take its place only then.
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

// Of a part of the own slice, whose terms are the oldest segments of all ranks that have one.
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

void GroupCore::abort(TimePoint now, Error why) {
  fail(now, std::move(why).with(name(rank())), kNobody);
}

// `untold` knows already.
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

void GroupCore::closed(TimePoint now, std::uint32_t peer, const Error& why) {
  Peer& one = peers_[peer];
  if (one.is_closed) return;
  one.is_closed = true;
  note(now, EventKind::kClosed, peer, open_.first());
  if (one.has_left || failure_) return;
  // A peer's bytes may also be wrong, or not its own: that is not its absence.
  const Errc code = why.code == Errc::kFailed ? Errc::kUnreachable : why.code;
  fail(now,
       Error{code,
             fmt::format("lost {}: {}; {}", name(peer), why.message,
                         one.word.text(now, options_.names, " by " + name(rank()))),
             why.hint},
       peer);
}

void GroupCore::set_activity(std::string_view activity) {
  pulse_.activity = activity.substr(0, kActivityBytesMax);
  for (Peer& peer : peers_) peer.pulse_is_due = true;
}

std::vector<std::string> GroupCore::on_tick(TimePoint now) {
  std::vector<std::string> lines;
  if (now - pulsed_ >= kPulsePeriod) {
    pulsed_ = now;
    for (Peer& peer : peers_) peer.pulse_is_due = true;
    pulse_.waits_for = waited(now) >= kPulsePeriod ? awaited() : std::vector<std::uint32_t>();
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

// Whoever tests or saves may take its time, as long as it is heard. One that waits itself is not
// to be blamed: whoever waits for the same rank without others between gives that up before.
bool GroupCore::is_gone(TimePoint now) const {
  TimePoint since = first_since_;
  for (const std::uint32_t peer : awaited()) {
    const LastWord& word = peers_[peer].word;
    if (word.is_busy()) since = std::max(since, word.heard);
    if (word.waits(now)) since = std::max(since, first_since_ + options_.slow_after);
  }
  return now - since >= options_.gone_after;
}

// In the oldest operation.
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
    const LastWord& word = peers_[peer].word;
    if (!word.waits(now)) ranks.push_back(peer);
    if (!word.waits(now)) continue;
    std::ranges::copy_if(word.pulse.waits_for, std::back_inserter(ranks),
                         [&](std::uint32_t other) { return other != rank(); });
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks.empty() ? peers : ranks;
}

std::string GroupCore::waited_for(TimePoint now) const {
  std::string text;
  for (const std::uint32_t peer : awaited()) {
    text += fmt::format("{}{} [{}]", text.empty() ? "" : ", ", name(peer),
                        peers_[peer].word.text(now, options_.names));
  }
  return text;
}

}  // namespace paddle::collective

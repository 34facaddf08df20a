#include "remote/client/fan_out.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::remote {

FanOut::Seat FanOut::join(const std::string& node) {
  const std::lock_guard lock(mutex_);
  seats_.emplace_back().node = node;
  return seats_.size() - 1;
}

void FanOut::announce(Seat seat, const std::vector<PackShape>& lacks,
                      std::optional<ServingNode> serves) {
  const std::lock_guard lock(mutex_);
  SeatState& state = seats_[seat];
  state.announced = true;
  state.shapes = lacks;
  state.serves = std::move(serves);
  state.left = lacks.size();
  state.first = lacks.size() * (seat % nodes_) / nodes_;
  state.have.assign(lacks.size(), Have::kNo);
  for (const PackShape& shape : lacks) {
    PackState& pack = packs_[shape.key];
    pack.lacking.push_back(seat);
    state.packs.push_back(&pack);
  }
  notify();
}

// Whether a pull by `seat` from `other` may succeed.
bool FanOut::can_pull(const SeatState& seat, Seat other) const {
  const SeatState& there = seats_[other];
  return &there != &seat && there.serves && there.active && !there.unreachable() &&
         !seat.reaches_none() && !seat.avoids.contains(other);
}

std::optional<FanOut::Seat> FanOut::holder_for(Seat seat, const PackState& pack, bool& busy) const {
  std::optional<Seat> best;
  for (const Seat holder : pack.holders) {
    if (!can_pull(seats_[seat], holder)) continue;
    if (seats_[holder].pulls >= kServesAtOnce) {
      busy = true;
    } else if (!best || seats_[holder].pulls < seats_[*best].pulls) {
      best = holder;
    }
  }
  return best;
}

// Whether a node that the seat can pull from will have the pack soon.
bool FanOut::will_be_pullable(Seat seat, const PackState& pack) const {
  if (std::ranges::any_of(pack.receivers,
                          [&](Seat other) { return can_pull(seats_[seat], other); })) {
    return true;
  }
  return std::ranges::any_of(pack.lacking, [&](Seat other) {
    if (!can_pull(seats_[seat], other) || seats_[other].reaches_none()) return false;
    return std::ranges::any_of(pack.holders,
                               [&](Seat holder) { return can_pull(seats_[other], holder); });
  });
}

// A pack goes first to nodes that others can pull it from: sent to an unreachable node it would
// have to be sent again.
bool FanOut::may_send(Seat seat, const PackState& pack) const {
  const SeatState& state = seats_[seat];
  if (state.reaches_none() || (state.serves && !state.unreachable())) return true;
  return std::ranges::none_of(pack.lacking, [&](Seat other) {
    return can_pull(state, other) && !seats_[other].reaches_none();
  });
}

void FanOut::take_pull(Seat seat, std::size_t begin, Seat from, Step& step) {
  SeatState& state = seats_[seat];
  step.kind = Step::Kind::kPull;
  step.from = from;
  step.at = seats_[from].serves;
  std::uint64_t bytes = 0;
  std::size_t blobs = 0;
  for (std::size_t i = begin; i < state.packs.size(); ++i) {
    if (state.have[i] != Have::kNo) continue;
    if (std::ranges::find(state.packs[i]->holders, from) == state.packs[i]->holders.end()) continue;
    bytes += state.shapes[i].bytes;
    blobs += state.shapes[i].blobs;
    if (!step.packs.empty() && (bytes > kPullBytesMax || blobs > kPullBlobsMax)) break;
    state.have[i] = Have::kComing;
    step.packs.push_back(i);
  }
  ++seats_[from].pulls;
}

void FanOut::take_send(Seat seat, std::size_t begin, Step& step) {
  SeatState& state = seats_[seat];
  step.kind = Step::Kind::kSend;
  std::uint64_t bytes = 0;
  for (std::size_t i = begin; i < state.packs.size(); ++i) {
    PackState& pack = *state.packs[i];
    bool busy = false;
    if (state.have[i] != Have::kNo) break;
    if (i > begin && (holder_for(seat, pack, busy) || busy || will_be_pullable(seat, pack) ||
                      !may_send(seat, pack))) {
      break;
    }
    bytes += state.shapes[i].bytes;
    if (!step.packs.empty() && bytes > kClaimBytesMax) break;
    state.have[i] = Have::kComing;
    pack.receivers.push_back(seat);
    step.packs.push_back(i);
  }
}

FanOut::Step FanOut::next(Seat seat) {
  const std::lock_guard lock(mutex_);
  SeatState& state = seats_[seat];
  Step step;
  step.seen = changes_;
  if (state.left == 0) {
    step.kind = Step::Kind::kDone;
    return step;
  }
  std::optional<std::size_t> to_send;
  const std::size_t count = state.packs.size();
  for (std::size_t turn = 0; turn < count; ++turn) {
    const std::size_t i = (state.first + turn) % count;
    if (state.have[i] != Have::kNo) continue;
    const PackState& pack = *state.packs[i];
    bool busy = false;
    if (const auto holder = holder_for(seat, pack, busy)) {
      take_pull(seat, i, *holder, step);
      return step;
    }
    if (!to_send && !busy && !will_be_pullable(seat, pack) && may_send(seat, pack)) to_send = i;
  }
  if (to_send) take_send(seat, *to_send, step);
  return step;
}

void FanOut::record(Seat seat, std::size_t pack, bool is_there) {
  SeatState& state = seats_[seat];
  PackState& shared = *state.packs[pack];
  state.have[pack] = is_there ? Have::kYes : Have::kNo;
  std::erase(shared.receivers, seat);
  if (!is_there) return;
  --state.left;
  std::erase(shared.lacking, seat);
  if (state.serves) shared.holders.push_back(seat);
}

void FanOut::arrived(Seat seat, std::size_t pack) {
  const std::lock_guard lock(mutex_);
  record(seat, pack, true);
  notify();
}

void FanOut::pulled(Seat seat, const Step& step, std::size_t count, bool reached) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < step.packs.size(); ++i) record(seat, step.packs[i], i < count);
  SeatState& state = seats_[seat];
  SeatState& from = seats_[step.from];
  --from.pulls;
  if (reached) {
    state.pulled = from.reached = true;
  } else {
    from.not_reached_by.insert(seat);
  }
  // Includes a node that answered but did not deliver everything.
  if (count < step.packs.size()) state.avoids.insert(step.from);
  notify();
}

void FanOut::leave(Seat seat) {
  const std::lock_guard lock(mutex_);
  SeatState& state = seats_[seat];
  state.active = false;
  for (PackState* const pack : state.packs) {
    std::erase(pack->lacking, seat);
    std::erase(pack->receivers, seat);
  }
  notify();
}

void FanOut::notify() {
  ++changes_;
  changed_.notify_all();
}

void FanOut::wait(std::uint64_t seen, Duration patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return changes_ != seen; });
}

std::optional<std::uint64_t> FanOut::busy() const {
  const std::lock_guard lock(mutex_);
  if (std::ranges::any_of(seats_, &SeatState::wants)) return changes_;
  return std::nullopt;
}

std::vector<std::string> FanOut::troubles() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (const SeatState& seat : seats_) {
    if (!seat.announced) continue;
    if (seat.reaches_none())
      found.push_back(fmt::format("{} cannot connect to the other nodes", seat.node));
    if (!seat.serves || seat.unreachable())
      found.push_back(fmt::format("{} cannot be reached from the other nodes", seat.node));
  }
  return found;
}

}  // namespace paddle::remote

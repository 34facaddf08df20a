#include "tests/sim/collective/world.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "engine/math/rank_sums.h"
#include "tests/sim/collective/packed.h"

namespace paddle::sim {

using collective::Operation;
using collective::Pattern;
using collective::StepInfo;

namespace {

constexpr std::size_t kLinkFrames = 3;
constexpr std::size_t kSegment = 4096;
constexpr std::size_t kCarriedFloats = 50;
constexpr std::uint64_t kCarriedSalt = 1;
constexpr Duration kTickPeriod = std::chrono::milliseconds(100);
constexpr Duration kLostAfter = std::chrono::milliseconds(1500);
constexpr Duration kEnd = std::chrono::seconds(60);
constexpr Duration kFaultsWithin = std::chrono::milliseconds(300);

Duration milliseconds(double count) {
  return Duration(static_cast<std::int64_t>(count * 1e6));
}

// Each hash is enough for so many gradients, one after the other.
constexpr std::size_t kGradientsOfHash = 8;

std::uint64_t hash_of(std::uint64_t step, std::uint64_t salt, std::uint32_t rank, std::size_t i) {
  return hash_combine(step * 7 + salt, rank * 1'000'003ULL + i / kGradientsOfHash);
}

float gradient(std::uint64_t hash, std::size_t i) {
  return static_cast<float>(static_cast<std::int32_t>(hash >> (i % kGradientsOfHash * 4))) * 1e-3F;
}

}  // namespace

float gradient(std::uint64_t step, std::uint64_t salt, std::uint32_t rank, std::size_t i) {
  return gradient(hash_of(step, salt, rank, i), i);
}

World::World(const WorldOptions& options)
    : options_(options),
      rng_(options.seed),
      now_(std::chrono::hours(1)),
      links_(std::size_t{options.ranks} * options.ranks) {
  if (!options.hosts.empty()) {
    auto hosts = std::make_shared<const collective::Hosts>(options.hosts);
    if (hosts->have_two_levels()) hosts_ = std::move(hosts);
  }
  std::vector<std::string> names;
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    names.push_back(fmt::format("rank {} (node-{})", rank, rank));
  }
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    ranks_.push_back(
        {.core = std::make_unique<GroupCore>(GroupCore::Options{
             .rank = rank, .size = options.ranks, .names = names, .segment_bytes = kSegment})});
    at(now_ + delay(), What::kTick, rank);
    at(now_ + delay(), What::kCompute, rank);
  }
  outcome_.ranks.resize(options.ranks);
  const auto some_rank = [&] { return static_cast<std::uint32_t>(rng_.below(options.ranks)); };
  const auto some_time = [&] {
    return now_ + Duration(static_cast<std::int64_t>(rng_.uniform() *
                                                     static_cast<double>(kFaultsWithin.count())));
  };
  for (std::uint32_t i = 0; i < options.kills; ++i) at(some_time(), What::kKill, some_rank());
  for (std::uint32_t i = 0; i < options.cuts; ++i) {
    const std::uint32_t a = some_rank();
    at(some_time(), What::kCut, a, (a + 1) % options.ranks);
  }
}

void World::at(TimePoint when, What what, std::uint32_t a, std::uint32_t b) {
  queue_.emplace(when, events_++, what, a, b);
}

// Mostly a fraction of a millisecond, sometimes far more.
Duration World::delay() {
  return milliseconds(rng_.below(50) == 0 ? 40 * rng_.uniform() : 0.5 * rng_.uniform());
}

WorldOutcome World::run() {
  const TimePoint end = now_ + kEnd;
  while (!queue_.empty() && now_ < end) {
    const auto [when, number, what, a, b] = queue_.top();
    queue_.pop();
    now_ = when;
    switch (what) {
      case What::kDeliver:
        deliver(a, b);
        break;
      case What::kTick:
        tick(a);
        break;
      case What::kCompute:
        begin_step(a);
        break;
      case What::kKill:
        if (outcome_.ranks[a].has_left || !ranks_[a].is_alive) break;
        ranks_[a].is_alive = false;
        outcome_.ranks[a].is_killed = true;
        if (outcome_.faulty.empty()) outcome_.first_fault = now_;
        outcome_.faulty.insert(a);
        close(a);
        break;
      case What::kCut:
        if (outcome_.faulty.empty()) outcome_.first_fault = now_;
        outcome_.faulty.insert({a, b});
        link(a, b).is_cut = link(b, a).is_cut = true;
        break;
    }
  }
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    outcome_.ranks[rank].failure = ranks_[rank].core->failure();
    outcome_.buckets.push_back(ranks_[rank].bucket);
  }
  return std::move(outcome_);
}

void World::fly(std::uint32_t from, std::uint32_t to, Frame frame, bool is_end) {
  Link& on = link(from, to);
  if (on.is_cut) return;
  const TimePoint last = on.frames.empty() ? now_ : std::max(now_, on.frames.back().arrives);
  const TimePoint arrives = last + delay();
  on.frames.push_back({arrives, std::move(frame), is_end});
  outcome_.held_max = std::max(outcome_.held_max, on.frames.size());
  at(arrives, What::kDeliver, from, to);
}

void World::pump(std::uint32_t from) {
  for (std::uint32_t to = 0; to < options_.ranks; ++to) {
    if (to != from) pump(from, to);
  }
}

void World::pump(std::uint32_t from, std::uint32_t to) {
  Rank& rank = ranks_[from];
  Link& on = link(from, to);
  // A reason to end the group is small, and a rank waits a moment until its kernel has taken it.
  const std::size_t room = rank.core->failure() ? 2 * kLinkFrames : kLinkFrames;
  while (rank.is_alive && !on.has_ended && on.frames.size() < room) {
    auto out = rank.core->next(to);
    if (!out) break;
    Frame frame{out->header, std::move(out->head), Bytes(out->tail.begin(), out->tail.end())};
    count(from, to, *out);
    const bool repeats = rng_.uniform() < options_.duplicate;
    if (repeats) ++outcome_.duplicates;
    if (repeats) fly(from, to, frame, false);
    fly(from, to, std::move(frame), false);
    rank.core->sent(now_, to);
    if (on.is_cut) break;
  }
}

void World::deliver(std::uint32_t from, std::uint32_t to) {
  if (!ranks_[to].is_alive || ranks_[to].has_closed) return;
  if (take_arrived(from, to)) settle(to);
}

// Takes what has arrived, up to a frame that is not wanted yet. False: nothing.
bool World::take_arrived(std::uint32_t from, std::uint32_t to) {
  Link& on = link(from, to);
  bool has_taken = false;
  on.is_blocked = false;
  while (!on.is_blocked && !on.frames.empty() && on.frames.front().arrives <= now_) {
    on.is_blocked = !take_first(from, to);
    has_taken = has_taken || !on.is_blocked;
  }
  return has_taken;
}

// False: it is not wanted yet.
bool World::take_first(std::uint32_t from, std::uint32_t to) {
  Link& on = link(from, to);
  GroupCore& core = *ranks_[to].core;
  if (on.frames.front().is_end) {
    on.frames.clear();
    core.closed(now_, from, Error{Errc::kUnreachable, "closed by peer"});
    return true;
  }
  Frame& frame = on.frames.front().frame;
  DecodedHeader header;
  header.header = frame.header;
  header.head_bytes = static_cast<std::uint32_t>(frame.head.size());
  header.tail_bytes = static_cast<std::uint32_t>(frame.tail.size());
  const auto verdict = core.judge(now_, from, header);
  if (verdict == GroupCore::Verdict::kLater) return false;
  if (verdict == GroupCore::Verdict::kTake) {
    const auto place = core.place(from, frame.header, frame.tail.size());
    if (!place.empty()) {
      std::ranges::copy(frame.tail, place.begin());
      frame.tail.clear();
    }
    core.received(now_, from, std::move(frame));
  }
  on.frames.pop_front();
  pump(from, to);
  return true;
}

// After anything has changed at a rank: its next operation, its failure, frames that are now
// wanted.
void World::settle(std::uint32_t self) {
  Rank& rank = ranks_[self];
  if (!rank.is_alive) return;
  for (bool goes_on = true; goes_on;) {
    pump(self);  // a level may wait for what has just come
    advance(self);
    goes_on = false;
    for (std::uint32_t from = 0; from < options_.ranks; ++from) {
      if (link(from, self).is_blocked && take_arrived(from, self)) goes_on = true;
    }
  }
  if (rank.core->failure() && !rank.has_closed) {
    pump(self);
    outcome_.ranks[self].failed_at = now_;
    close(self);
  }
}

void World::close(std::uint32_t self) {
  ranks_[self].has_closed = true;
  for (std::uint32_t to = 0; to < options_.ranks; ++to) {
    Link& on = link(self, to);
    if (to == self || std::exchange(on.has_ended, true)) continue;
    // The kernel of a killed rank may not have sent all that it was given.
    if (!ranks_[self].is_alive && rng_.below(2) == 0) on.frames.clear();
    fly(self, to, Frame(), true);
  }
}

void World::post(std::uint32_t self, Operation operation) {
  ranks_[self].operation = ranks_[self].core->post(now_, std::move(operation));
  pump(self);
}

void World::begin_step(std::uint32_t self) {
  Rank& rank = ranks_[self];
  if (!rank.is_alive || rank.core->failure()) return;
  if (++rank.step > options_.steps) {
    rank.stage = Stage::kLeave;
    post(self, {.type = FrameType::kLeaveGroup});
    return settle(self);
  }
  const auto fill = [&](std::vector<float>& values, std::size_t count, std::uint64_t salt) {
    values.resize(count);
    for (std::size_t i = 0; i < count; i += kGradientsOfHash) {
      const std::uint64_t bits = hash_of(rank.step, salt, self, i);
      const std::size_t end = std::min(i + kGradientsOfHash, count);
      for (std::size_t j = i; j < end; ++j) values[j] = gradient(bits, j);
    }
  };
  fill(rank.carried, kCarriedFloats, kCarriedSalt);
  fill(rank.bucket, options_.bucket_floats, 0);
  rank.stage = Stage::kFacts;
  const StepInfo own{.step = rank.step, .plan_hash = 9, .samples = self + rank.step};
  Operation facts;
  facts.type = FrameType::kStep;
  facts.head = encode(own);
  facts.tail = bytes_of(std::span<const float>(rank.carried));
  facts.step = rank.step;
  post(self, std::move(facts));
  settle(self);
}

// The training loop of a rank, as far as it can go now.
void World::advance(std::uint32_t self) {
  Rank& rank = ranks_[self];
  while (rank.stage != Stage::kOver && rank.core->is_done(rank.operation) &&
         !rank.core->failure()) {
    if (rank.stage == Stage::kFacts) {
      std::vector<StepInfo> infos(options_.ranks);
      std::vector<GroupCore::Facts> facts(options_.ranks);
      std::vector<const float*> terms(options_.ranks, rank.carried.data());
      for (std::uint32_t from = 0; from < options_.ranks; ++from) {
        infos[from] = {.step = rank.step, .plan_hash = 9, .samples = self + rank.step};
        if (from == self) continue;
        facts[from] = rank.core->take_facts(from);
        infos[from] = *collective::decode_step(facts[from].step, facts[from].head);
        terms[from] = reinterpret_cast<const float*>(facts[from].tail.data());
      }
      rank.shares = mean_shares(infos);
      kernels::weighted_sum(rank.carried.size(), terms, rank.shares, rank.carried.data());
      check_sum(self, rank.carried, kCarriedSalt);
      rank.stage = Stage::kReduce;
      post_bucket(self, Pattern::kReduce);
    } else if (rank.stage == Stage::kReduce) {
      rank.stage = Stage::kGather;
      post_bucket(self, Pattern::kGather);
    } else if (rank.stage == Stage::kGather) {
      if (options_.is_packed) unpack(rank.packed, rank.bucket);
      check_sum(self, rank.bucket, 0);
      ++outcome_.ranks[self].steps;
      rank.stage = Stage::kOver;
      const bool stalls = rng_.uniform() < options_.stall;
      at(now_ + (stalls ? milliseconds(2000 * rng_.uniform()) : delay()), What::kCompute, self);
      return;
    } else {
      outcome_.ranks[self].has_left = true;
      rank.stage = Stage::kOver;
      close(self);
      return;
    }
  }
}

void World::check_sum(std::uint32_t self, std::span<const float> values, std::uint64_t salt) {
  const Rank& rank = ranks_[self];
  for (std::size_t i = 0; i<values.size(); i += values.size()> 100 ? 61 : 1) {
    const float sum = sum_of(rank, salt, i);
    if (std::bit_cast<std::uint32_t>(sum) != std::bit_cast<std::uint32_t>(values[i])) {
      outcome_.ranks[self].has_wrong_sum = true;
    }
  }
}

void World::tick(std::uint32_t self) {
  Rank& rank = ranks_[self];
  if (!rank.is_alive || rank.has_closed) return;
  rank.core->on_tick(now_);
  for (std::uint32_t from = 0; from < options_.ranks; ++from) {
    const Link& on = link(from, self);
    if (on.is_cut && now_ - outcome_.first_fault >= kLostAfter) {
      rank.core->closed(now_, from, {Errc::kUnreachable, "its machine has not answered"});
    }
    const bool has_ended = !on.frames.empty() && on.frames.back().is_end;
    if (on.is_blocked && has_ended && !rank.core->is_leaving()) rank.core->drain(from);
  }
  pump(self);
  settle(self);
  at(now_ + kTickPeriod, What::kTick, self);
}

}  // namespace paddle::sim

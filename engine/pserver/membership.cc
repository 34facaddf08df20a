#include "engine/pserver/membership.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace paddle::pserver {
namespace {

constexpr std::size_t kNamesMax = 8;

}  // namespace

Membership::Membership(std::uint32_t num_trainers) : trainers_(num_trainers) {
  for (std::uint32_t id = 0; id < num_trainers; ++id) trainers_[id].id = id;
}

Refused Membership::join(net::PeerId from, const FrameHeader& header) {
  const std::uint32_t id = header.sender.index;
  if (header.sender.role != Role::kTrainer || id >= trainers_.size()) {
    return Refusal{wire::REFUSAL_PARAMETERS,
                   fmt::format("trainer_id {} joined, but num_gradient_servers is {} here", id,
                               trainers_.size()),
                   "trainer ids are 0 to num_gradient_servers - 1"};
  }
  Trainer& trainer = trainers_[id];
  // INVARIANT: a lower incarnation never joins again: its successor has taken over its position.
  if (trainer.joined && header.incarnation < trainer.incarnation) {
    return Refusal{
        wire::REFUSAL_STALE_INCARNATION,
        fmt::format(
            "trainer {} sent Join with incarnation {}, but incarnation {} has already joined", id,
            header.incarnation, trainer.incarnation)};
  }
  const bool is_same_incarnation = trainer.joined && header.incarnation == trainer.incarnation;
  const bool is_restarted = trainer.joined && !is_same_incarnation;
  if (is_same_incarnation && trainer.connected) {
    if (trainer.peer == from) return {};
    return Refusal{
        wire::REFUSAL_DUPLICATE_TRAINER,
        fmt::format("trainer_id {} is already connected (connection {}, this is connection {})", id,
                    trainer.peer, from),
        "give every trainer its own --trainer_id"};
  }
  if (is_same_incarnation && trainer.left) {
    return Refusal{wire::REFUSAL_DUPLICATE_TRAINER,
                   fmt::format("trainer_id {} has already left this job", id)};
  }
  trainer.joined = trainer.connected = true;
  trainer.left = trainer.is_busy = trainer.knows_of_stop = false;
  trainer.peer = from;
  trainer.incarnation = header.incarnation;
  trainer.last_request = 0;
  trainer.lost_at.reset();
  trainer.waiter.reset();
  if (is_restarted) {
    // The new process repeats whatever was not applied or ended.
    trainer.finished = trainer.pauses = false;
    trainer.tally = Tally();
  }
  if (is_restarted || !trainer.has_complete_push()) trainer.push.reset();
  return {};
}

Trainer* Membership::find(net::PeerId from, const FrameHeader& header, Refusal& refusal) {
  const std::uint32_t id = header.sender.index;
  if (header.sender.role == Role::kTrainer && id < trainers_.size() && trainers_[id].joined) {
    Trainer& trainer = trainers_[id];
    if (trainer.connected && trainer.peer == from && trainer.incarnation == header.incarnation) {
      return &trainer;
    }
    if (header.incarnation < trainer.incarnation) {
      refusal = {wire::REFUSAL_STALE_INCARNATION,
                 fmt::format("incarnation {} of trainer {} has ended; incarnation {} has joined",
                             header.incarnation, id, trainer.incarnation)};
      return nullptr;
    }
  }
  refusal = {wire::REFUSAL_PROTOCOL, fmt::format("trainer {} has not joined here", id)};
  return nullptr;
}

Trainer* Membership::by_peer(net::PeerId from) {
  for (Trainer& trainer : trainers_) {
    if (trainer.connected && trainer.peer == from) return &trainer;
  }
  return nullptr;
}

bool Membership::all_gone() const {
  return std::ranges::all_of(trainers_, [](const Trainer& trainer) {
    return trainer.left || (trainer.joined && !trainer.connected && !trainer.lost_at);
  });
}

bool Membership::any_other_left(const Trainer& trainer) const {
  return std::ranges::any_of(
      trainers_, [&](const Trainer& other) { return other.id != trainer.id && other.left; });
}

bool Membership::any_connected() const {
  return std::ranges::any_of(trainers_, &Trainer::connected);
}

std::uint64_t Membership::slowest_clock() const {
  std::uint64_t slowest = UINT64_MAX;
  for (const Trainer& trainer : trainers_) {
    if (trainer.active()) slowest = std::min(slowest, trainer.clock);
  }
  return slowest;
}

std::uint64_t Membership::clock_lead() const {
  std::uint64_t fastest = 0;
  for (const Trainer& trainer : trainers_) {
    if (trainer.active()) fastest = std::max(fastest, trainer.clock);
  }
  return fastest == 0 ? 0 : fastest - slowest_clock();
}

std::string Membership::names(const std::function<bool(const Trainer&)>& which,
                              bool& all_connected) const {
  std::vector<std::uint32_t> ids;
  all_connected = true;
  for (const Trainer& trainer : trainers_) {
    if (!which(trainer)) continue;
    ids.push_back(trainer.id);
    all_connected = all_connected && trainer.connected;
  }
  const std::size_t others = ids.size() > kNamesMax ? ids.size() - kNamesMax : 0;
  ids.resize(ids.size() - others);
  std::string names =
      fmt::format("{} {}", ids.size() == 1 ? "trainer" : "trainers", fmt::join(ids, ", "));
  if (others > 0) names += fmt::format(" and {} more", others);
  return names;
}

}  // namespace paddle::pserver

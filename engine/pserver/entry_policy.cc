#include "engine/pserver/entry_policy.h"

#include "engine/base/rng.h"

namespace paddle::pserver {
namespace {

constexpr std::uint64_t kDrawStream = 0x656e747279;  // apart from the draws of initial values
constexpr std::size_t kSmallPageBytes = 64U << 20U;  // whose pages are few

}  // namespace

EntryPolicy::EntryPolicy(const wire::TablePolicy& policy, std::uint64_t stream)
    : stream_(hash_combine(stream, kDrawStream)),
      takes_all_(true),
      waits_(false),
      sightings_(kSmallPageBytes) {
  const auto add = [this](std::uint32_t count, float probability) {
    terms_.push_back({count, probability > 0 ? static_cast<double>(probability) : 1.0});
    takes_all_ = takes_all_ && count <= 1 && terms_.back().probability >= 1.0;
    waits_ = waits_ || count > 1;
  };
  add(policy.entry_count(), policy.entry_probability());
  for (const wire::SlotEntry& slot : policy.entry()) {
    add(slot.entry_count(), slot.entry_probability());
  }
}

Status EntryPolicy::reserve(std::uint64_t count) {
  if (!waits_) return {};
  PADDLE_TRY_STATUS(sightings_.reserve((numbers_ + count) * sizeof(Sightings)));
  return candidates_.reserve(count);
}

std::uint64_t EntryPolicy::bytes() const {
  return candidates_.bytes() + sightings_.resident(numbers_ * sizeof(Sightings)) +
         free_.capacity() * sizeof(std::uint32_t);
}

void EntryPolicy::add(const Candidate& candidate) {
  std::uint32_t number = numbers_;
  if (free_.empty()) {
    ++numbers_;
  } else {
    number = free_.back();
    free_.pop_back();
  }
  candidates_.insert(candidate.id, number);
  sightings_of(number) = {candidate.sightings, candidate.seen};
}

void EntryPolicy::erase(std::uint64_t id, std::uint32_t number) {
  candidates_.erase(id);
  free_.push_back(number);
}

bool EntryPolicy::admits(std::uint64_t id, std::uint16_t pass, std::size_t slot) {
  const Terms& terms = terms_[slot];
  if (terms.probability < 1.0 && Rng(hash_combine(stream_, id)).uniform() >= terms.probability) {
    return false;
  }
  if (!waits_) return true;
  candidates_.make_room(1);
  const std::uint32_t number = candidates_.find(id);
  if (number == RowIndex::kNone) {
    if (terms.count <= 1) return true;
    add({id, 1, pass});
    return false;
  }
  Sightings& sightings = sightings_of(number);
  sightings.seen = pass;
  if (++sightings.count < terms.count) return false;
  erase(id, number);
  return true;
}

std::uint64_t EntryPolicy::expire(std::uint32_t passes, std::uint16_t pass) {
  std::vector<RowIndex::Entry> gone;
  candidates_.for_each([&](std::uint64_t id, std::uint32_t number) {
    if (static_cast<std::uint16_t>(pass - sightings_of(number).seen) >= passes) {
      gone.push_back({0, id, number});
    }
  });
  for (const RowIndex::Entry& entry : gone) erase(entry.id, entry.number);
  return gone.size();
}

void EntryPolicy::put(const Candidate& candidate) {
  // Under today's policy it may be beyond waiting, or need not wait: its next sighting decides.
  if (!waits_) return;
  candidates_.make_room(1);
  const std::uint32_t number = candidates_.find(candidate.id);
  if (number == RowIndex::kNone) return add(candidate);
  sightings_of(number) = {candidate.sightings, candidate.seen};
}

}  // namespace paddle::pserver

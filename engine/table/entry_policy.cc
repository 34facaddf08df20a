#include "engine/table/entry_policy.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/rng.h"

namespace paddle::table {

// Separates these draws from those of initial values.
constexpr std::uint64_t kDrawStream = 0x656e747279;
constexpr std::size_t kSmallPageBytes = 64U << 20U;  // up to this size; these pages are few

bool draws_unseen(const wire::ParameterSpec& spec) {
  const bool is_drawn = spec.is_static() || spec.table().draws_unseen();
  return is_drawn && spec.initial_std() > 0 && EntryPolicy(spec.table(), 0).takes_all();
}

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
  return candidates_.bytes() + sightings_.resident(numbers_ * sizeof(Sightings));
}

void EntryPolicy::add(const Candidate& candidate) {
  std::uint32_t number = numbers_;
  if (free_ == RowIndex::kNone) {
    ++numbers_;
  } else {
    number = std::exchange(free_, std::bit_cast<std::uint32_t>(sightings_of(free_)));
  }
  candidates_.insert(candidate.id, number);
  sightings_of(number) = {candidate.sightings, candidate.seen};
}

void EntryPolicy::erase(std::uint64_t id, std::uint32_t number) {
  candidates_.erase(id);
  sightings_of(number) = std::bit_cast<Sightings>(std::exchange(free_, number));
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
  if (sightings.count + 1U >= terms.count) {
    erase(id, number);
    return true;
  }
  ++sightings.count;
  sightings.seen = pass;
  return false;
}

Status EntryPolicy::expire(std::uint32_t passes, std::uint16_t pass) {
  std::vector<std::uint64_t> gone;
  std::vector<Sightings> left;
  candidates_.for_each([&](std::uint64_t id, std::uint32_t& number) {
    const Sightings sightings = sightings_of(number);
    if (static_cast<std::uint16_t>(pass - sightings.seen) >= passes) return gone.push_back(id);
    number = static_cast<std::uint32_t>(left.size());
    left.push_back(sightings);
  });
  if (gone.empty() && free_ == RowIndex::kNone) return {};
  for (const std::uint64_t id : gone) candidates_.erase(id);
  std::ranges::copy(left, &sightings_of(0));
  sightings_.release_from(left.size() * sizeof(Sightings));
  numbers_ = static_cast<std::uint32_t>(left.size());
  free_ = RowIndex::kNone;
  return candidates_.fit();
}

Status EntryPolicy::restart(std::uint64_t count) {
  candidates_ = RowIndex();
  sightings_.release_from(0);
  numbers_ = 0;
  free_ = RowIndex::kNone;
  if (!waits_) return {};
  PADDLE_TRY_STATUS(reserve(count));
  candidates_.make_room(count);
  return {};
}

void EntryPolicy::put(const Candidate& candidate) {
  // Under this job's policy the id may have enough sightings, or need not wait: its next sighting
  // decides that.
  if (!waits_) return;
  candidates_.make_room(1);
  const std::uint32_t number = candidates_.find(candidate.id);
  if (number == RowIndex::kNone) return add(candidate);
  sightings_of(number) = {candidate.sightings, candidate.seen};
}

}  // namespace paddle::table

#include "engine/pserver/entry_policy.h"

#include "engine/base/rng.h"

namespace paddle::pserver {
namespace {

constexpr std::uint64_t kDrawStream = 0x656e747279;  // apart from the draws of initial values

}  // namespace

EntryPolicy::EntryPolicy(const wire::TablePolicy& policy, std::uint64_t stream)
    : stream_(hash_combine(stream, kDrawStream)), takes_all_(true), waits_(false) {
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
  return waits_ ? candidates_.reserve(count) : Status();
}

bool EntryPolicy::admits(std::uint64_t id, std::uint16_t pass, std::size_t slot) {
  const Terms& terms = terms_[slot];
  if (terms.probability < 1.0 && Rng(hash_combine(stream_, id)).uniform() >= terms.probability) {
    return false;
  }
  if (!waits_) return true;
  candidates_.make_room(1);
  const std::uint32_t found = candidates_.find(id);
  if (found == RowIndex::kNone) {
    if (terms.count <= 1) return true;
    candidates_.insert(id, packed({id, 1, pass}));
    return false;
  }
  const std::uint32_t sightings = (found >> 16U) + 1;
  if (sightings >= terms.count) {
    candidates_.erase(id);
    return true;
  }
  candidates_.assign(id, packed({id, static_cast<std::uint16_t>(sightings), pass}));
  return false;
}

std::uint64_t EntryPolicy::expire(std::uint32_t passes, std::uint16_t pass) {
  std::vector<std::uint64_t> gone;
  candidates_.for_each([&](std::uint64_t id, std::uint32_t number) {
    if (static_cast<std::uint16_t>(pass - static_cast<std::uint16_t>(number)) >= passes) {
      gone.push_back(id);
    }
  });
  for (const std::uint64_t id : gone) candidates_.erase(id);
  return gone.size();
}

void EntryPolicy::put(const Candidate& candidate) {
  // Under today's policy it may be beyond waiting, or need not wait: its next sighting decides.
  if (!waits_) return;
  candidates_.make_room(1);
  if (candidates_.find(candidate.id) != RowIndex::kNone) {
    return candidates_.assign(candidate.id, packed(candidate));
  }
  candidates_.insert(candidate.id, packed(candidate));
}

}  // namespace paddle::pserver

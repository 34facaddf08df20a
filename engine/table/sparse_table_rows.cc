// Rows that a snapshot brings and takes, and rows that go.
#include <algorithm>

#include "engine/table/sparse_table.h"

namespace paddle::table {

void SparseTable::put(const Row& row) {
  PADDLE_CHECK(row.value.size() == width_ && row.state.size() == state_width_ * width_);
  const auto seen_in = static_cast<std::uint16_t>(pass_ - row.marks.passes_unseen);
  if (row.marks.sightings > 0) return entry_.put({row.id, row.marks.sightings, seen_in});
  index_.make_room(1);
  const std::uint64_t hash = RowIndex::hash_of(row.id);
  const std::uint64_t home = index_.home(hash);
  std::uint32_t number = index_.find_at(home, hash);
  if (number == RowIndex::kNone) {
    number = create(home, hash, row.id);
    arena_.populate(rows() * row_floats_ * sizeof(float));
  }
  float* const data = row_data(number);
  std::copy(row.value.begin(), row.value.end(), data);
  std::copy(row.state.begin(), row.state.end(), data + width_);
  if (counts_updates_) update_counts()[number] = row.marks.updates;
  if (expires()) seen()[number] = seen_in;
  if (shrinks()) *score(number) = row.score;
  if (tracks_) changes_.on_update(number);
}

SparseTable::Row SparseTable::row(const RowIndex::Entry& entry) const {
  const float* const data = row_data(entry.number);
  Row row{entry.id, {}, {data, width_}, {data + width_, state_width_ * width_}, {}};
  if (shrinks()) row.score = *score(entry.number);
  if (counts_updates_) row.marks.updates = update_counts()[entry.number];
  if (expires()) {
    row.marks.passes_unseen = static_cast<std::uint16_t>(pass_ - seen()[entry.number]);
  }
  return row;
}

SparseTable::Row SparseTable::candidate(const RowIndex::Entry& entry) const {
  const EntryPolicy::Candidate waiting = entry_.candidate(entry);
  return {waiting.id,
          {0, static_cast<std::uint16_t>(pass_ - waiting.seen), waiting.sightings},
          {zeros_.data(), width_},
          {zeros_.data() + width_, state_width_ * width_},
          {}};
}

Result<std::uint64_t> SparseTable::end_pass() {
  std::uint64_t expired = 0;
  if (expires()) {
    PADDLE_TRY(expired, expire());
  }
  if (shrinks()) PADDLE_TRY_STATUS(shrink());
  return expired;
}

Status SparseTable::shrink() {
  const wire::ShrinkPolicy& policy = spec_.table().shrink();
  std::vector<std::uint64_t> gone;
  index_.for_each([&](std::uint64_t id, std::uint32_t number) {
    score(number)->decay(policy.decay());
    if (score(number)->value(policy) < policy.threshold()) gone.push_back(id);
  });
  shrunk_ += gone.size();
  return remove(gone);
}

Result<std::uint64_t> SparseTable::expire() {
  const std::uint32_t passes = spec_.table().expire_passes();
  ++pass_;
  std::vector<std::uint64_t> gone;
  index_.for_each([&](std::uint64_t id, std::uint32_t number) {
    // A row seen in the pass that just ended is one pass old now.
    if (static_cast<std::uint16_t>(pass_ - seen()[number]) > passes) gone.push_back(id);
  });
  PADDLE_TRY_STATUS(remove(gone));
  PADDLE_TRY_STATUS(entry_.expire(passes + 1, pass_));
  return gone.size();
}

// Takes the place of the row that was not named for longest.
std::uint32_t SparseTable::evict() {
  const std::uint32_t number = recency_.oldest();
  index_.erase(recency_.id_of(number));
  if (tracks_) changes_.on_remove(number, recency_.id_of(number));
  recency_.remove(number);
  ++evicted_;
  return number;
}

// Numbers stay 0 .. rows() - 1: the last rows move into the places that become free.
Status SparseTable::remove(std::span<const std::uint64_t> ids) {
  if (ids.empty()) return {};
  std::vector<std::uint32_t> free;
  for (const std::uint64_t id : ids) {
    const std::uint32_t number = index_.find(id);
    index_.erase(id);
    if (evicts()) recency_.remove(number);
    if (tracks_) changes_.on_remove(number, id);
    free.push_back(number);
  }
  const std::uint64_t left = rows();
  std::erase_if(free, [&](std::uint32_t number) { return number >= left; });
  index_.for_each([&](std::uint64_t, std::uint32_t& number) {
    if (number < left) return;
    move_row(number, free.back());
    number = free.back();
    free.pop_back();
  });
  arena_.release_from(left * row_floats_ * sizeof(float));
  return index_.fit();
}

void SparseTable::move_row(std::uint32_t from, std::uint32_t to) {
  std::copy_n(row_data(from), row_floats_, row_data(to));
  if (counts_updates_) update_counts()[to] = update_counts()[from];
  if (expires()) seen()[to] = seen()[from];
  if (evicts()) recency_.renumber(from, to);
  if (tracks_) changes_.renumber(from, to);
}

}  // namespace paddle::table

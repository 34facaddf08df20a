// Data of a sparse row beside its floats: marks, score, and the notes of a push.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "proto/parameters.pb.h"

namespace paddle::parameter {

// Counters of a row, packed into a 64-bit mark on the wire and in snapshots.
struct RowMarks {
  std::uint32_t updates = 0;        // 0 unless the optimizer counts them
  std::uint16_t passes_unseen = 0;  // whole passes since the last push that contained the row
  // Above 0: the id was seen this often but has no row yet; its values are 0.
  std::uint16_t sightings = 0;

  static RowMarks unpack(std::uint64_t bits) {
    return {static_cast<std::uint32_t>(bits), static_cast<std::uint16_t>(bits >> 32U),
            static_cast<std::uint16_t>(bits >> 48U)};
  }
  std::uint64_t pack() const {
    return updates | static_cast<std::uint64_t>(passes_unseen) << 32U |
           static_cast<std::uint64_t>(sightings) << 48U;
  }
};

// Shows and clicks of an id, which a table that shrinks keeps for each row.
struct RowScore {
  float shows = 0;
  float clicks = 0;

  bool is_zero() const { return shows == 0 && clicks == 0; }
  // Called at the end of a pass.
  void decay(float by) {
    shows *= by;
    clicks *= by;
  }
  // The formula is at ShrinkPolicy in proto/parameters.proto.
  float value(const wire::ShrinkPolicy& policy) const {
    return policy.nonclick_coefficient() * (shows - clicks) + policy.click_coefficient() * clicks;
  }
};
static_assert(sizeof(RowScore) == 2 * sizeof(float));

// Layout of the floats behind a row's gradient in a push: shows and clicks if the table shrinks,
// then, if slots have entry policies of their own, the number of the slot in which the row's id
// occurred (0: any other slot). Merging pushes adds up the scores and keeps the lowest slot.
class RowNotes {
 public:
  explicit RowNotes(const wire::TablePolicy& policy)
      : has_score_(policy.has_shrink()), slots_(policy.entry_size()) {}

  // Number of floats for each row.
  std::size_t size() const { return (has_score_ ? 2 : 0) + (slots_ > 0 ? 1 : 0); }

  RowScore score(const float* notes) const {
    return has_score_ ? RowScore{notes[0], notes[1]} : RowScore{};
  }
  std::size_t slot(const float* notes) const {
    return slots_ > 0 ? static_cast<std::size_t>(notes[size() - 1]) : 0;
  }
  void add_score(float* notes, float shows, float clicks) const {
    if (!has_score_) return;
    notes[0] += shows;
    notes[1] += clicks;
  }
  void add_slot(float* notes, std::size_t slot) const {
    if (slots_ > 0) notes[size() - 1] = std::min(notes[size() - 1], static_cast<float>(slot));
  }
  // Fills the notes of a row whose id has not occurred in any slot yet.
  void start(float* notes) const {
    std::fill_n(notes, size(), 0.0F);
    if (slots_ > 0) notes[size() - 1] = static_cast<float>(slots_);
  }
  void add(float* to, const float* from) const {
    add_score(to, score(from).shows, score(from).clicks);
    add_slot(to, slot(from));
  }
  // Whether the counts are not negative and the slot exists; a peer may send anything.
  bool valid(const float* notes) const {
    for (std::size_t i = 0; i < size(); ++i) {
      if (!(notes[i] >= 0)) return false;
    }
    return slots_ == 0 || notes[size() - 1] <= static_cast<float>(slots_);
  }

 private:
  bool has_score_;
  int slots_;
};

}  // namespace paddle::parameter

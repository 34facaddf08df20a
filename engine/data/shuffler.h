// Seeded shuffle over a window: each later record replaces a random one, which leaves.
#pragma once

#include "base/rng.h"
#include "engine/data/record_block.h"

namespace paddle::data {

// Holds at most `window` records; with 0 or 1 the order stays.
class Shuffler {
 public:
  Shuffler(std::uint64_t window, std::uint64_t stream) : window_(window), rng_(stream) {}

  // Adds a record and calls take(RecordView) for the one that leaves, if one does.
  template <class Take>
  Status put(const RecordView& record, Take take) {
    if (window_ <= 1) return take(record);
    if (held_.size() < window_) {
      held_.emplace_back().assign(record);
      return {};
    }
    Record& leaving = held_[rng_.below(held_.size())];
    PADDLE_TRY_STATUS(take(leaving.view()));
    leaving.assign(record);
    return {};
  }

  // Calls take(RecordView) for each record that is left.
  template <class Take>
  Status drain(Take take) {
    while (!held_.empty()) {
      std::swap(held_[rng_.below(held_.size())], held_.back());
      PADDLE_TRY_STATUS(take(held_.back().view()));
      held_.pop_back();
    }
    return {};
  }

 private:
  std::uint64_t window_;
  Rng rng_;
  std::vector<Record> held_;
};

}  // namespace paddle::data

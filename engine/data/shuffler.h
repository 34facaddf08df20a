// Seeded shuffle over a window: when the window is full, each new record replaces a random one,
// which leaves.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "engine/data/record_block.h"

namespace paddle::data {

// Holds at most `window` records; with 0 or 1 the order stays.
class Shuffler {
 public:
  Shuffler(std::uint64_t window, std::uint64_t stream)
      : window_(window), stream_(stream), rng_(stream) {}

  // Adds a record and calls take(RecordView) for the one that leaves, if one does.
  template <class Take>
  Status put(const RecordView& record, Take take) {
    if (window_ <= 1) return take(record);
    if (held_.size() < window_) {
      held_.emplace_back().assign(record);
      return {};
    }
    Record& leaving = held_[next_place()];
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

  // Moves a new shuffler to its state after `count` records. Returns the numbers of the records
  // that it then holds, ascending; each must be passed to restore(), in this order, before the next
  // put().
  std::vector<std::uint64_t> go_to(std::uint64_t count) {
    PADDLE_CHECK(held_.empty());
    if (window_ <= 1) return {};
    const std::uint64_t held = std::min(count, window_);
    held_.resize(held);
    rng_ = Rng(stream_, count - held);
    is_ahead_ = false;
    // A place holds the last record that was put there, so the search goes backwards. It ends after
    // about window * log(window) records, whatever `count` is.
    std::vector<bool> is_found(held);
    std::vector<std::uint64_t> numbers;
    to_restore_.clear();
    const auto add = [&](std::uint64_t number, std::uint64_t place) {
      if (is_found[place]) return;
      is_found[place] = true;
      numbers.push_back(number);
      to_restore_.push_back(place);
    };
    for (std::uint64_t number = count; number > window_ && numbers.size() < held; --number) {
      add(number - 1, Rng(stream_, number - 1 - window_).below(window_));
    }
    for (std::uint64_t place = held; place > 0; --place) add(place - 1, place - 1);
    std::ranges::reverse(numbers);
    return numbers;
  }
  void restore(const RecordView& record) {
    held_[to_restore_.back()].assign(record);
    to_restore_.pop_back();
  }

 private:
  // The place whose record leaves. Fetches those that leave next into the cache, because a large
  // window is in no cache: first the record, kAhead calls before it leaves, and half of them later
  // its ids, whose place is then known.
  std::uint64_t next_place() {
    const auto draw = [&](std::size_t at) {
      places_[at % kAhead] = ahead_.below(held_.size());
      __builtin_prefetch(&held_[places_[at % kAhead]]);
    };
    if (!std::exchange(is_ahead_, true)) {
      ahead_ = rng_;
      for (std::size_t at = 0; at < kAhead; ++at) draw(at);
      puts_ = 0;
    }
    const std::uint64_t place = places_[puts_ % kAhead];
    (void)rng_.next();  // ahead_ has drawn the place
    draw(puts_);
    const Record& near = held_[places_[(puts_ + kAhead / 2) % kAhead]];
    __builtin_prefetch(near.ids.data());
    __builtin_prefetch(near.values.data());
    ++puts_;
    return place;
  }

  static constexpr std::size_t kAhead = 8;
  std::uint64_t window_;
  std::uint64_t stream_;
  Rng rng_;
  Rng ahead_{0};  // rng_, kAhead calls of put() later
  bool is_ahead_ = false;
  std::array<std::uint64_t, kAhead> places_{};  // the records there leave next
  std::size_t puts_ = 0;                        // since ahead_ was set
  std::vector<Record> held_;
  std::vector<std::uint64_t> to_restore_;  // places in held_, the next one last
};

}  // namespace paddle::data

// A queue whose entries have the numbers from 1 on. Going on allocates nothing: an entry that has
// left keeps its memory until its place is taken again.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace paddle::collective {

template <class T>
class NumberedQueue {
 public:
  bool empty() const { return first_ == end_; }
  // Numbers of the oldest entry, and of the one that comes next.
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return end_; }

  // Null unless it is in the queue. Valid until the next push().
  T* find(std::uint64_t number) {
    return number - first_ < end_ - first_ ? &places_[place_of(number)] : nullptr;
  }
  const T* find(std::uint64_t number) const {
    return const_cast<NumberedQueue*>(this)->find(number);
  }

  T& push(T&& entry) {
    if (end_ - first_ == places_.size()) grow();
    return places_[place_of(end_++)] = std::move(entry);
  }
  void pop() { ++first_; }

 private:
  std::size_t place_of(std::uint64_t number) const { return number & (places_.size() - 1); }

  void grow() {
    std::vector<T> old(2 * places_.size());
    old.swap(places_);
    for (std::uint64_t number = first_; number < end_; ++number) {
      places_[place_of(number)] = std::move(old[number & (old.size() - 1)]);
    }
  }

  std::vector<T> places_ = std::vector<T>(16);  // a power of two of them
  std::uint64_t first_ = 1;
  std::uint64_t end_ = 1;
};

}  // namespace paddle::collective

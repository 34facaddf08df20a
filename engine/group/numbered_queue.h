// A queue whose entries are numbered from 1. Once it has grown it allocates nothing: a removed
// entry keeps its memory until a new entry takes its place.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace paddle::collective {

template <class T>
class NumberedQueue {
 public:
  bool empty() const { return first_ == end_; }
  // The number of the oldest entry, and the number of the next entry to be pushed.
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return end_; }

  // The entry with this number, or null if it is not in the queue. Valid until the next push().
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

  std::vector<T> places_ = std::vector<T>(16);  // the size is a power of two
  std::uint64_t first_ = 1;
  std::uint64_t end_ = 1;
};

}  // namespace paddle::collective

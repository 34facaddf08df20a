// Segments that a peer has sent and that are not added up yet, at most kWindowSegments.
#pragma once

#include <array>
#include <span>

#include "base/bytes.h"
#include "engine/collective/schedule.h"

namespace paddle::collective {

class Window {
 public:
  bool has_room() const { return received_ - added_ < kWindowSegments; }
  bool empty() const { return received_ == added_; }

  // For the next segment, which is there once it is pushed.
  std::span<std::byte> place(std::size_t bytes) {
    Bytes& segment = segments_[received_ % kWindowSegments];
    if (segment.size() < bytes) segment.resize(bytes);
    return std::span(segment).first(bytes);
  }
  void push() { ++received_; }

  const std::byte* front() const { return segments_[added_ % kWindowSegments].data(); }
  void pop() { ++added_; }

 private:
  std::array<Bytes, kWindowSegments> segments_;
  std::uint64_t received_ = 0;  // ever
  std::uint64_t added_ = 0;     // of those
};

}  // namespace paddle::collective

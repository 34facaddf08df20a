// The last events of a group, kept to explain a failure: how far each rank came.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/clock.h"

namespace paddle::collective {

constexpr std::size_t kEventsMax = 4096;

enum class EventKind : std::uint8_t {
  kPosted,    // this rank posted an operation
  kSent,      // a frame was sent to a rank; if its tail was lent, the rank has read it
  kReceived,  // a frame arrived from a rank
  kAdded,     // a segment was summed over all ranks
  kDone,      // an operation is done
  kSlow,      // a warning about a rank was logged
  kClosed,    // a connection has ended
  kFailed,
};

struct Event {
  TimePoint at{};
  EventKind kind{};
  std::uint32_t rank = 0;
  std::uint64_t operation = 0;
  std::uint64_t offset = 0;  // bytes
};

class EventRing {
 public:
  void add(const Event& event) { events_[count_++ % kEventsMax] = event; }
  // The oldest first.
  std::vector<Event> events() const;
  // The last `count` events as lines of several events each: "+0.001204 sent 17@262144 to 2".
  std::vector<std::string> lines(std::size_t count = kEventsMax) const;

 private:
  std::vector<Event> events_ = std::vector<Event>(kEventsMax);
  std::uint64_t count_ = 0;
};

}  // namespace paddle::collective

// The last events of a group, kept to be read when it fails: which rank was where.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/clock.h"

namespace paddle::collective {

constexpr std::size_t kEventsMax = 4096;

enum class EventKind : std::uint8_t {
  kPosted,    // an operation, by this rank
  kSent,      // a frame of it, to a rank, which has read it if its tail was lent
  kReceived,  // a frame of it, from a rank
  kAdded,     // a segment, from all ranks
  kDone,      // an operation
  kSlow,      // a rank was warned of
  kClosed,    // a connection
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
  // Lines of several events each: "+0.001204 sent 17@262144 to 2". The last `count` events.
  std::vector<std::string> lines(std::size_t count = kEventsMax) const;

 private:
  std::vector<Event> events_ = std::vector<Event>(kEventsMax);
  std::uint64_t count_ = 0;
};

}  // namespace paddle::collective

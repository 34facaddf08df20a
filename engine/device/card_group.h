// Sums of this process's card with those of the other ranks, with a deadline for everything. The
// first failure ends it for good, and is what every later call returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "engine/device/device.h"

namespace paddle::device {

class CardGroup {
 public:
  struct Member {
    std::uint32_t rank = 0;
    std::uint32_t ranks = 1;
    std::string name;  // of the job, for messages of the library
  };
  // All ranks call it with the id that rank 0's device has made. The device outlives the group.
  // kUnreachable: the deadline passed.
  static Result<std::unique_ptr<CardGroup>> join(Device& device, const CommunicatorId& id,
                                                 const Member& member, TimePoint deadline);
  // Takes 10 seconds at most, whatever the library does.
  ~CardGroup();
  CardGroup(const CardGroup&) = delete;
  CardGroup& operator=(const CardGroup&) = delete;

  // Begins values[i] = the sum over all ranks, in the order of the stream. All ranks make the same
  // calls.
  Status sum(StreamHandle stream, float* values, std::size_t count, TimePoint deadline);
  // Waits for an event of a stream that sums. `watch` is called again and again meanwhile, and may
  // take some milliseconds: an error of it ends the group too.
  Status wait(EventHandle event, TimePoint deadline, const std::function<Status()>& watch);
  // Ends it. May be called by any thread; another one that waits then returns.
  void abort(const Error& why);

 private:
  struct Shared;

  CardGroup(Device& device, std::shared_ptr<Shared> shared)
      : device_(device), shared_(std::move(shared)) {}
  // Until is_done() says true; between two looks rest() passes some time.
  template <class IsDone, class Rest>
  Status wait_until(IsDone is_done, Rest rest, const char* what, TimePoint deadline);
  // Makes a call of the communicator.
  template <class Call>
  auto call(const Call& make) -> decltype(make());
  Status taken_up(TimePoint deadline);
  Error fail(const Error& why);

  Device& device_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace paddle::device

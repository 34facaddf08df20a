// Sums between this process's card and the cards of the other ranks. All waits have a deadline. The
// first failure ends the group for good, and every later call returns it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "engine/gpu/device.h"

namespace paddle::device {

class CardGroup {
 public:
  struct Member {
    std::uint32_t rank = 0;
    std::uint32_t ranks = 1;
    std::string name;  // name of the job, for messages of the library
  };
  // Joins the group. All ranks call this with the id that rank 0's device has made. The device must
  // outlive the group. kUnreachable: the deadline passed, or is_stuck().
  static Result<std::unique_ptr<CardGroup>> join(Device& device, const CommunicatorId& id,
                                                 const Member& member, TimePoint deadline);
  // Takes at most 10 seconds, whatever the library does.
  ~CardGroup();
  // Whether the library still ends a group that was destroyed. Its threads share state with those
  // of a later group, and may wait for each other, so this process joins none: it can only end.
  static bool is_stuck();
  CardGroup(const CardGroup&) = delete;
  CardGroup& operator=(const CardGroup&) = delete;

  // Begins values[i] = the sum over all ranks, in the order of the stream. REQUIRES: all ranks make
  // the same calls.
  Status sum(StreamHandle stream, float* values, std::size_t count, TimePoint deadline);
  // Waits for an event of a stream that computes sums. Calls `watch` repeatedly while it waits;
  // `watch` may take some milliseconds, and its error ends the group, too.
  Status wait(EventHandle event, TimePoint deadline, const std::function<Status()>& watch);
  // Ends the group. Any thread may call this; a thread that waits in wait() or sum() then returns.
  void abort(const Error& why);

 private:
  struct Shared;

  CardGroup(Device& device, std::shared_ptr<Shared> shared)
      : device_(device), shared_(std::move(shared)) {}
  // Waits until is_done() returns true. Calls rest() between two checks to let some time pass.
  template <class IsDone, class Rest>
  Status wait_until(IsDone is_done, Rest rest, const char* what, TimePoint deadline);
  // Calls make(), which calls the communicator. Returns the failure instead if the group has ended.
  template <class Call>
  auto call(const Call& make) -> decltype(make());
  Status taken_up(TimePoint deadline);
  Error fail(const Error& why);

  Device& device_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace paddle::device

// Communicator: this process's rank among the cards that add up. Its calls only begin something;
// poll() tells what has become of it, and the stream's events when a sum is done.
#pragma once

#include <array>
#include <cstddef>

#include "base/result.h"

namespace paddle::device {

struct StreamHandle;

// Made by rank 0. The others get it over connections that are proven, as it lets anybody join.
using CommunicatorId = std::array<std::byte, 128>;

class Communicator {
 public:
  enum class State {
    kReady,     // all that was begun has been taken up; a stream may still compute it
    kUnderWay,  // nothing else may be begun but abort()
  };

  Communicator() = default;
  // Of one that has neither failed nor been aborted: waits for what its streams still compute.
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // An error of any call before, or of another rank, which may come late: only abort() is left
  // then.
  virtual Result<State> poll() = 0;
  // values[i] = the sum over all ranks, in place, with the same bits on each.
  virtual Status begin_sum(StreamHandle stream, float* values, std::size_t count) = 0;
  // Ends this rank's part, and its work on streams, for good. It may take long, or never return: so
  // it is for a thread of its own.
  virtual void abort() = 0;
};

}  // namespace paddle::device

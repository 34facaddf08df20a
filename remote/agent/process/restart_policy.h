// Whether a process that ended is started again, and when: pure.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "proto/agent.pb.h"

namespace paddle::agent {

class RestartPolicy {
 public:
  explicit RestartPolicy(const wire::agent::ProcessSpec& spec)
      : restarts_max_(spec.restarts()), any_exit_(spec.any_exit()) {}

  // After a life of this length that ended with a status of wait(2): the pause before the next one,
  // or nothing. A pause is twice the last one until a life was long.
  std::optional<Duration> next(int wait_status, Duration lived);

 private:
  std::uint32_t restarts_max_;
  bool any_exit_;
  std::uint32_t restarts_ = 0;    // after failures of its own
  std::uint32_t lost_peers_ = 0;  // after those of others, since it last lived for long
  Duration pause_{};
};

}  // namespace paddle::agent

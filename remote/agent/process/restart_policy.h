// The decision whether and when an ended process is started again; free of side effects.
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

  // The pause before the next start, or nothing; `status` is of wait(2), after a run of this
  // length. Pauses double until a run was long.
  std::optional<Duration> next(int wait_status, Duration lived);
  std::uint32_t failures() const { return restarts_; }  // of the process's own, so far

 private:
  std::uint32_t restarts_max_;
  bool any_exit_;
  std::uint32_t restarts_ = 0;    // after the process's own failures
  std::uint32_t lost_peers_ = 0;  // after lost peers, since the last long run
  Duration pause_{};
};

}  // namespace paddle::agent

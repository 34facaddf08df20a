// The guard of a supervisor: waits for it, and starts another when it was killed.
#pragma once

#include <functional>

#include "base/fd.h"
#include "proto/agent.pb.h"

namespace paddle::agent {

// Runs `supervise` in a child process, with 1 and then the number of each further start, and
// returns its exit code, in the child as well. One that a signal ended is followed by another, as
// often as `spec` allows restarts in an hour, unless goes_on() denies it or this process was told
// to end: SIGTERM, SIGINT and SIGHUP are passed on as SIGTERM. `status` is closed here as soon as
// the child has it.
int guard(const wire::agent::ProcessSpec& spec, const std::function<int(int start)>& supervise,
          const std::function<bool()>& goes_on, UniqueFd& status);

}  // namespace paddle::agent

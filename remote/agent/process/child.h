// A program started beside its supervisor.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace paddle::agent {

struct Program {
  std::string name;                    // in errors
  std::vector<std::string> arguments;  // [0]: its path
  std::vector<std::string> variables;  // NAME=value
};
struct Child {
  pid_t pid = -1;
  UniqueFd output;  // of its stdout and stderr, which does not block
};

// In `directory`, as the leader of a process group of its own, with the caller's stdin. It is
// killed when the calling thread ends. kFailed when it cannot be executed.
Result<Child> start_child(const Program& program, int directory);

}  // namespace paddle::agent

// The child process that a supervisor watches.
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
  UniqueFd output;  // stdout and stderr, non-blocking
};

// Starts in `directory`, as the leader of its own process group, with the caller's stdin. The child
// is killed when the calling thread ends. kFailed when the program cannot be executed.
Result<Child> start_child(const Program& program, int directory);

}  // namespace paddle::agent

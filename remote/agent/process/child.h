// The child process that a supervisor watches.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace paddle::agent {

constexpr int kNoticeFd = 3;  // in the child; named by PADDLECTL_NOTICE_FD

struct Program {
  std::string name;                    // in errors
  std::vector<std::string> arguments;  // [0]: its path
  std::vector<std::string> variables;  // NAME=value
  bool sends_notices = false;          // gets a pipe for them as kNoticeFd
};
struct Child {
  pid_t pid = -1;
  UniqueFd output;   // stdout and stderr, non-blocking
  UniqueFd notices;  // non-blocking; empty unless the program sends any
};

// Starts in `directory`, as the leader of its own process group, with the caller's stdin. The child
// is killed when the calling thread ends. kFailed when the program cannot be executed.
Result<Child> start_child(const Program& program, int directory);

}  // namespace paddle::agent

// The small program that stays beside a process when the agent and paddlectl have gone.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::agent {

// Of the node, passed to every process: PATH, HOME, ..., as NAME=value.
using Environment = std::vector<std::string>;

constexpr char kStarted = 'S';
constexpr char kStartFailed = 'E';

// Reads a ProcessSpec from spec_fd, starts the process and stays until it has ended and its exit
// record is written. Writes kStarted to status_fd, or kStartFailed and an ErrorReply, and closes
// it. Must run in the program's only thread: the process dies with it.
int supervise(const std::string& root_path, int spec_fd, int status_fd,
              const Environment& environment);

}  // namespace paddle::agent

// The program `paddlectl-agent supervise`: one supervisor, from its specification to its end.
#pragma once

#include <string>

#include "remote/agent/process/child.h"

namespace paddle::agent {

constexpr char kStarted = 'S';
constexpr char kStartFailed = 'E';

// Reads a ProcessSpec from spec_fd, starts the process and returns once it has ended and its exit
// record is written. Writes kStarted, or kStartFailed and an ErrorReply, to status_fd and closes
// it. Must run in the program's only thread: the process is killed when that thread ends.
int supervise(const std::string& root_path, int spec_fd, int status_fd,
              const Environment& environment);

}  // namespace paddle::agent

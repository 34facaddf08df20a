#include "cli/job/port_owner.h"

#include <charconv>

namespace paddle::cli {
namespace {

// The pid in "pid 123 (nginx)", or 0.
int pid_of(const std::string& owner) {
  int pid = 0;
  if (owner.starts_with("pid "))
    std::from_chars(owner.data() + 4, owner.data() + owner.size(), pid);
  return pid;
}

}  // namespace

std::string job_on_port(const remote::PortStatus& port,
                        std::span<const remote::ProcessStatus> processes) {
  const int pid = pid_of(port.owner);
  for (const remote::ProcessStatus& process : processes) {
    if (process.state == remote::ProcessState::kRunning && process.pid == pid) return process.job;
  }
  return "";
}

}  // namespace paddle::cli

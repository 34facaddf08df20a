#include "cli/watch/process_state.h"

#include <string.h>

#include <csignal>
#include <tuple>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/console/console.h"

namespace paddle::cli {
namespace {

constexpr int kShellSignalBase = 128;

std::string killed_by(int signal) {
  const char* const name = ::sigdescr_np(signal);
  return fmt::format("killed by signal {} ({})", signal, name != nullptr ? name : "?");
}

}  // namespace

bool is_pserver(const remote::ProcessStatus& status) {
  return status.name.starts_with("pserver-");
}

bool is_running(const remote::ProcessStatus& status) {
  return status.state == remote::ProcessState::kRunning;
}

bool is_running_trainer(const ProcessOnNode& process) {
  return is_running(process.status) && !is_pserver(process.status);
}

bool is_own_program(const remote::ProcessStatus& status) {
  return !is_pserver(status) && !status.reports && !status.arguments.empty() &&
         status.arguments.front() != "train";
}

bool ended_well(const remote::ProcessStatus& status) {
  return status.state == remote::ProcessState::kExited && status.exit_code == 0;
}

bool is_resumable(const remote::ProcessStatus& status) {
  return status.state == remote::ProcessState::kExited &&
         status.exit_code == static_cast<int>(Errc::kResumable);
}

std::string describe_state(const remote::ProcessStatus& status) {
  if (status.stopped) return "stopped";
  switch (status.state) {
    case remote::ProcessState::kRunning:
      return status.incarnation < 2 ? "running"
                                    : fmt::format("running (start {})", status.incarnation);
    case remote::ProcessState::kExited:
      return status.exit_code == 0 ? "done" : fmt::format("exited with code {}", status.exit_code);
    case remote::ProcessState::kKilled:
      if (!status.hang.empty()) return fmt::format("hung ({}) and was killed", status.hang);
      if (status.out_of_memory_bytes > 0) {
        return fmt::format("killed by the kernel: out of memory (it had {})",
                           human_bytes(status.out_of_memory_bytes));
      }
      return killed_by(status.signal);
    case remote::ProcessState::kLost:
      return "lost (its supervisor is gone; the node may have restarted)";
  }
  return "?";
}

std::string describe(const remote::Restart& restart, std::uint32_t allowed) {
  if (restart.ordered) return "was started again by paddlectl restart";
  remote::ProcessStatus end;
  end.state = restart.signal != 0 ? remote::ProcessState::kKilled : remote::ProcessState::kExited;
  end.signal = restart.signal;
  end.exit_code = restart.exit_code;
  end.hang = restart.hang;
  end.out_of_memory_bytes = restart.out_of_memory_bytes;
  const bool was_killed = restart.signal != 0 && restart.hang.empty();
  return fmt::format("{}{}; restarted ({} of {})", was_killed ? "was " : "", describe_state(end),
                     restart.failures, allowed);
}

int signal_of(const remote::CommandEnd& end) {
  const int reported = end.exit_code - kShellSignalBase;
  return end.signal == 0 && ::sigdescr_np(reported) != nullptr ? reported : end.signal;
}

std::string describe(const remote::CommandEnd& end) {
  if (end.timed_out) return "took longer than --timeout";
  if (const int signal = signal_of(end); signal != 0) return "was " + killed_by(signal);
  return fmt::format("exited with code {}", end.exit_code);
}

std::string last_lines(std::string_view printed) {
  while (printed.ends_with('\n')) printed.remove_suffix(1);
  return printed.empty() ? "" : fmt::format("; its last lines:\n{}", printed);
}

std::string describe_save_failure(const remote::ProcessStatus& status, const std::string& node) {
  if (!is_running(status) || !status.progress || status.progress->save_failure.empty()) return "";
  return fmt::format(
      "{} on {} could not save its latest snapshot ({}); training continues, and the next pass "
      "will be saved: free or repair its disk before that",
      status.name, node, status.progress->save_failure);
}

std::string describe_rollback(const remote::ProcessStatus& status, const std::string& node) {
  if (!status.progress || status.progress->restored_from.empty()) return "";
  return fmt::format("{} on {} continued from {}", status.name, node,
                     status.progress->restored_from);
}

bool comes_before(const remote::ProcessStatus& a, const remote::ProcessStatus& b) {
  // Among names of the same role, a shorter one has the lower number.
  const auto order = [](const remote::ProcessStatus& s) {
    return std::tuple(!is_pserver(s), s.name.size(), std::string_view(s.name));
  };
  return order(a) < order(b);
}

}  // namespace paddle::cli

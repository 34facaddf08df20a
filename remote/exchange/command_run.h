// A user's command on a node, for `paddlectl exec`; it ends with the channel.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace paddle::remote {

class Exchange;

struct CommandSpec {
  std::vector<std::string> arguments;  // argv: no shell sees it
  Duration timeout{};                  // zero: none; then SIGTERM, SIGKILL after a grace
};
struct CommandEnd {
  int exit_code = 0;
  int signal = 0;  // 0: exited
  bool timed_out = false;
};
// Receives output as it arrives: untrusted bytes.
using CommandOutput = std::function<void(std::string_view text, bool is_stderr)>;

constexpr Duration kInterruptedEvery = std::chrono::milliseconds(100);

// AgentClient::run.
Result<CommandEnd> run_command(Exchange& exchange, const CommandSpec& command,
                               const CommandOutput& output,
                               const std::function<bool()>& interrupted);

}  // namespace paddle::remote

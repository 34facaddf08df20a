#include "remote/exchange/command_run.h"

#include <algorithm>

#include "proto/agent.pb.h"
#include "proto/frame_stream.h"
#include "remote/exchange/exchange.h"

namespace paddle::remote {
namespace {

using namespace wire::agent;  // NOLINT: this file is about the messages

constexpr Duration kRequestDeadline = std::chrono::seconds(30);
// Beyond the command's own timeout: for SIGTERM, its grace, and the reply.
constexpr Duration kEndDeadline = std::chrono::seconds(30);

}  // namespace

Result<CommandEnd> run_command(Exchange& exchange, const CommandSpec& command,
                               const CommandOutput& output,
                               const std::function<bool()>& interrupted) {
  RunRequest request;
  for (const std::string& argument : command.arguments) request.add_arguments(argument);
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(command.timeout).count();
  request.set_timeout_ms(static_cast<std::uint64_t>(std::max<long long>(ms, 0)));
  PADDLE_TRY_STATUS(exchange.send(AGENT_RUN, request, {}, kRequestDeadline));
  TimePoint end = TimePoint::max();
  if (ms > 0) end = SteadyClock().now() + command.timeout + kEndDeadline;
  for (bool asked = false;;) {
    if (!asked && interrupted && interrupted()) {
      PADDLE_TRY_STATUS(exchange.send(AGENT_RUN_END, CopyReply(), {}, kRequestDeadline));
      asked = true;
      end = SteadyClock().now() + kEndDeadline;
    }
    if (!exchange.wait(kInterruptedEvery)) {
      if (SteadyClock().now() < end) continue;
      return exchange.lose(Error{Errc::kUnreachable, "no answer before the deadline", ""});
    }
    PADDLE_TRY(const Frame frame, exchange.receive(AGENT_RUN, kRequestDeadline));
    PADDLE_TRY(const auto reply, exchange.parse<RunReply>(frame));
    if ((frame.header.flags & kAgentFlagMore) == 0) {
      return CommandEnd{reply.exit_code(), reply.signal(), reply.timed_out()};
    }
    if (!asked) output(as_text(frame.tail), reply.is_stderr());
  }
}

}  // namespace paddle::remote

// A user's command on this node. It ends with the channel: unlike a job's process it has no
// supervisor.
#pragma once

#include <functional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "proto/agent.pb.h"
#include "proto/agent_channel.h"

namespace paddle::agent {

// Between SIGTERM and SIGKILL.
constexpr Duration kCommandGrace = std::chrono::seconds(2);

// Sends the command's output as it arrives, then its exit (more = false). The command and the rest
// of its session are ended on timeout, when the next of `requests` arrives (it is not consumed) or
// the requests end, and when send fails. If the command ends before that, its background processes
// continue, and their output is not waited for.
Status run_command(const wire::agent::RunRequest& request, RequestStream& requests,
                   const std::function<Status(const wire::agent::RunReply& reply, ByteSpan output,
                                              bool more)>& send);

}  // namespace paddle::agent

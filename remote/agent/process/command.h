// A command of the user's on this node, which ends with the channel: unlike a job's process it has
// no supervisor.
#pragma once

#include <functional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "proto/agent.pb.h"

namespace paddle::agent {

// After SIGTERM, before SIGKILL.
constexpr Duration kCommandGrace = std::chrono::seconds(2);

// Sends what the command writes as it comes, and how it ended at last (more = false). It is ended,
// with all of its session that is left, when its time is up, when `input` becomes readable (what is
// there stays unread) or closed, or when send fails. What it left in the background when it ended
// by itself goes on; output of that is not waited for.
Status run_command(const wire::agent::RunRequest& request, int input,
                   const std::function<Status(const wire::agent::RunReply& reply, ByteSpan output,
                                              bool more)>& send);

}  // namespace paddle::agent

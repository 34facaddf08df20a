// The heartbeats of a process in a job, and what they add to reports to the supervisor. A process
// without a key file, such as one started by hand on one machine, sends no heartbeats.
#pragma once

#include <functional>

#include "engine/client/parameter_client.h"
#include "engine/net/heartbeat_thread.h"
#include "engine/trainer/connection.h"
#include "proto/supervision.pb.h"

namespace paddle::commands {

using HeartbeatThreadPtr = std::unique_ptr<heartbeat::HeartbeatThread>;

// The heartbeat thread of a trainer. If the trainer `comes_back`, a dead pserver interrupts
// `client`: the trainer then joins the job again, and waits until the pserver can be reached. Null,
// with a line in the log, if it cannot start. The client must outlive it.
HeartbeatThreadPtr start_heartbeats(const trainer::TrainOptions& options,
                                    client::ParameterClient& client, bool comes_back);

// The heartbeat thread of a pserver.
HeartbeatThreadPtr start_heartbeats(const std::string& key_file,
                                    heartbeat::HeartbeatThread::Options options);

// Adds the silent peers to `progress`; `thread` may be null.
void note_silences(const heartbeat::HeartbeatThread* thread, wire::Progress& progress);

// "no heartbeat of trainer 2 for 3.1 s"
std::string silence_text(const heartbeat::Silence& silence);

}  // namespace paddle::commands

// The heartbeat of a process in a job, and what it adds to reports to the supervisor. A process
// without a key file, such as one started by hand on one machine, has no heartbeat.
#pragma once

#include <functional>

#include "engine/client/parameter_client.h"
#include "engine/net/heartbeat.h"
#include "engine/trainer/connection.h"
#include "proto/supervision.pb.h"

namespace paddle::commands {

using HeartbeatPtr = std::unique_ptr<heartbeat::Heartbeat>;

// The heartbeat of a trainer. If the trainer `comes_back`, a dead pserver interrupts `client`: the
// trainer then joins the job again, and waits until the pserver can be reached. Null, with a line
// in the log, if it cannot start. The client must outlive it.
HeartbeatPtr start_heartbeat(const trainer::TrainOptions& options, client::ParameterClient& client,
                             bool comes_back);

// The heartbeat of a pserver.
HeartbeatPtr start_heartbeat(const std::string& key_file, heartbeat::Heartbeat::Options options);

// Adds the peers whose heartbeats have stopped to `progress`; `heartbeat` may be null.
void note_silences(const heartbeat::Heartbeat* heartbeat, wire::Progress& progress);

// "no heartbeat of trainer 2 for 3.1 s"
std::string silence_text(const heartbeat::Silence& silence);

}  // namespace paddle::commands

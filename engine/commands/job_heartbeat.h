// The heartbeat of a process of a job, and what it tells the supervisor. Without a key file, as by
// hand on one machine, there is none.
#pragma once

#include <functional>

#include "engine/client/parameter_client.h"
#include "engine/heartbeat/heartbeat.h"
#include "engine/trainer/connection.h"
#include "proto/supervision.pb.h"

namespace paddle::commands {

using HeartbeatPtr = std::unique_ptr<heartbeat::Heartbeat>;

// A trainer that `comes_back` gives up a pserver that is dead: its next life waits for it to be
// reached. Null with a line in the log where it cannot start. The client outlives it.
HeartbeatPtr start_heartbeat(const trainer::TrainOptions& options, client::ParameterClient& client,
                             bool comes_back);

// Of a pserver.
HeartbeatPtr start_heartbeat(const std::string& key_file, heartbeat::Heartbeat::Options options);

// Sets the peers that have fallen silent; the heartbeat may be null.
void note_silences(const heartbeat::Heartbeat* heartbeat, wire::Progress& progress);

// "no heartbeat of trainer 2 for 3.1 s"
std::string silence_text(const heartbeat::Silence& silence);

}  // namespace paddle::commands

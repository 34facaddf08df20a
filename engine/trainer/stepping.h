// Whether a trainer computes or waits, as it reports to its supervisor (proto/supervision.proto,
// Pulse).
#pragma once

#include <atomic>
#include <memory>

#include "engine/client/parameter_client.h"
#include "proto/supervision.pb.h"

namespace paddle::trainer {

// Written by the trainer's thread, read by any thread.
class Stepping {
 public:
  // During tests and snapshots pulse() reports no step, so they may take any time.
  void set_activity(wire::Activity activity) { is_training_ = activity == wire::ACTIVITY_TRAINING; }
  wire::Pulse pulse() const;

  // Between begin_step() and end_step() the trainer depends on no other process.
  void begin_step() { is_own_ = true; }
  void end_step() {
    is_own_ = false;
    ++steps_;
  }

 private:
  std::atomic<std::uint64_t> steps_ = 0;
  std::atomic<bool> is_own_ = false;
  std::atomic<bool> is_training_ = true;
};

// Wraps `client`: each call ends a step, and its return begins the next one. In between the trainer
// depends on no other process. Both arguments must outlive the result.
std::unique_ptr<client::ParameterClient> note_steps(client::ParameterClient& client,
                                                    Stepping& stepping);

}  // namespace paddle::trainer

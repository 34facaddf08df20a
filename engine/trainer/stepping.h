// Whether a trainer computes or waits, as its supervisor is told (proto/supervision.proto, Pulse).
#pragma once

#include <atomic>
#include <memory>

#include "engine/client/parameter_client.h"
#include "proto/supervision.pb.h"

namespace paddle::trainer {

// Written by the trainer's thread, read by any.
class Stepping {
 public:
  // Tests and snapshots may take as long as they do.
  void set_activity(wire::Activity activity) { is_training_ = activity == wire::ACTIVITY_TRAINING; }
  wire::Pulse pulse() const;

  // The trainer's time between begin_step() and end_step() is its own.
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

// `client` with every call noted as the end of a step and its return as the begin of the next: in
// between the trainer depends on no other process. Both must outlive it.
std::unique_ptr<client::ParameterClient> note_steps(client::ParameterClient& client,
                                                    Stepping& stepping);

}  // namespace paddle::trainer

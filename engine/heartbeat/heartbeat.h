// A thread that exchanges pulses with the processes of a job over UDP, beside their connections,
// which bulk data may hold up. A trainer calls every pserver; a pserver answers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/heartbeat/pulses.h"
#include "engine/net/tcp.h"

namespace paddle::heartbeat {

class Heartbeat {
 public:
  struct Options {
    JobKeys keys = {};
    NodeId self;
    std::uint64_t life = 0;  // incarnation of a trainer, generation of a pserver
    std::uint64_t job_tag = 0;
    std::uint32_t trainers = 0;               // of the job; a pserver takes no others for peers
    net::Endpoint bind = {};                  // of a pserver
    std::vector<net::Endpoint> servers = {};  // of a trainer, by pserver id
    // Called by the thread; may be empty.
    std::function<void(Silence)> on_dead = {};
    std::function<void(NodeId)> on_again = {};     // the peer was dead, and lives
    std::function<void(NodeId)> on_new_life = {};  // the peer was started again
  };
  // kResource: the port is taken.
  static Result<std::unique_ptr<Heartbeat>> start(Options options);
  // Tells the peers that this process leaves.
  virtual ~Heartbeat() = default;
  // Peers that are suspect or dead. Any thread may ask.
  virtual std::vector<Silence> silences() const = 0;
};

}  // namespace paddle::heartbeat

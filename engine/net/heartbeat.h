// A thread that exchanges pulses with the processes of a job over UDP, beside their connections,
// which bulk data may delay. A trainer sends pulses to every pserver; a pserver answers them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/net/pulses.h"
#include "engine/net/tcp.h"

namespace paddle::heartbeat {

class Heartbeat {
 public:
  struct Options {
    JobKeys keys = {};
    NodeId self;
    std::uint64_t incarnation = 0;  // of a pserver: its generation
    std::uint64_t job_tag = 0;
    std::uint32_t trainers = 0;               // of the job; a pserver accepts no other peers
    net::Endpoint bind = {};                  // of a pserver
    std::vector<net::Endpoint> servers = {};  // of a trainer, by pserver id
    // The thread calls these functions; they may be empty.
    std::function<void(Silence)> on_dead = {};
    std::function<void(NodeId)> on_again = {};    // a dead peer sends pulses again
    std::function<void(NodeId)> on_restart = {};  // the peer was restarted
  };
  // kResource: the port is taken.
  static Result<std::unique_ptr<Heartbeat>> start(Options options);
  // Sends last pulses: the peers learn that this process leaves.
  virtual ~Heartbeat() = default;
  // Peers that are suspect or dead. Any thread may call it.
  virtual std::vector<Silence> silences() const = 0;
};

}  // namespace paddle::heartbeat

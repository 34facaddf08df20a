// A thread that exchanges heartbeats with the processes of a job over UDP, beside their
// connections, which bulk data may delay. A trainer sends heartbeats to every pserver; a pserver
// answers them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/net/heartbeat_watch.h"
#include "engine/net/tcp.h"

namespace paddle::heartbeat {

class HeartbeatThread {
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
    std::function<void(NodeId)> on_again = {};    // a dead peer sends heartbeats again
    std::function<void(NodeId)> on_restart = {};  // the peer was restarted
  };
  // kResource: the port is taken.
  static Result<std::unique_ptr<HeartbeatThread>> start(Options options);
  // Sends last heartbeats: the peers learn that this process leaves.
  virtual ~HeartbeatThread() = default;
  // See HeartbeatWatch. Any thread may call it.
  virtual std::vector<Silence> silences() const = 0;
};

}  // namespace paddle::heartbeat

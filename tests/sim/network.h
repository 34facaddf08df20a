// The time and the network of a simulated cluster: connections with numbers of their own, links
// that delay, reorder, duplicate and drop, cuts, and every event to come, all from one seed.
#pragma once

#include "base/rng.h"
#include "engine/net/link.h"
#include "tests/sim/options.h"

namespace paddle::sim {

struct Connection {
  std::uint32_t trainer = 0;
  std::uint32_t incarnation = 0;  // of the trainer
  std::uint32_t shard = 0;
  std::uint64_t generation = 0;  // of the shard
  std::uint64_t pushed = 0;      // the newest push that was delivered
  bool is_open_at_trainer = true;
  bool is_open_at_shard = true;
};

enum class EventKind : std::uint8_t {
  kFrame,
  kClosed,  // one end hears that the connection is gone
  kStartTrainer,
  kStartPserver,
  kFault,  // it begins
  kFaultEnds,
  kSilence,  // a cut has lasted so long that connections across it are given up
};

struct Event {
  TimePoint at = {};
  std::uint64_t order = 0;
  EventKind kind = EventKind::kFrame;
  bool to_shard = false;
  net::PeerId peer = 0;   // of a frame or an end of a connection
  std::uint32_t who = 0;  // a trainer, a pserver, or a fault's number
  Frame frame = {};
};

class Network {
 public:
  Network(const ClusterOptions& options, std::uint32_t trainers);

  TimePoint now() const { return now_; }
  void set_now(TimePoint now) { now_ = now; }
  bool has_event_before(TimePoint limit) const { return !heap_.empty() && heap_[0].at < limit; }
  std::size_t events() const { return heap_.size(); }
  Event pop();
  void schedule(Event event, Duration after);

  net::PeerId connect(Connection connection);
  Connection& at(net::PeerId peer) { return connections_[peer]; }
  std::size_t connections() const { return connections_.size(); }
  // Sends a frame; the network may lose, repeat or delay it.
  void transmit(net::PeerId peer, bool to_shard, Frame&& frame);
  // The last frame of a connection that the shard closes; it is not lost, but for a cut.
  void transmit_last(net::PeerId peer, Frame&& frame);
  // One end is gone; the other hears of it, across a cut not before the silence is too long.
  void close(net::PeerId peer, bool at_shard);
  void close(net::PeerId peer, bool at_shard, Duration after);

  void cut(std::uint32_t trainer, std::uint32_t pserver, bool to_shard, bool to_trainer);
  void heal(std::uint32_t trainer, std::uint32_t pserver);
  bool is_cut(std::uint32_t trainer, std::uint32_t pserver, bool to_shard) const;
  // From now on frames are delayed only.
  void calm() { is_calm_ = true; }
  Duration random_delay();

 private:
  struct Link {
    bool to_shard = false;  // is cut
    bool to_trainer = false;
    TimePoint since = {};
  };
  Link& link(std::uint32_t trainer, std::uint32_t pserver);
  const Link& link(std::uint32_t trainer, std::uint32_t pserver) const;

  const ClusterOptions& options_;
  Rng rng_;
  TimePoint now_;
  std::uint64_t order_ = 0;
  std::vector<Event> heap_;
  std::vector<Connection> connections_;  // by PeerId
  std::vector<Link> links_;              // by trainer, then pserver
  bool is_calm_ = false;
};

// A peer that a cut has kept silent for so long is given up.
constexpr Duration kSilenceMax = std::chrono::seconds(3);

}  // namespace paddle::sim

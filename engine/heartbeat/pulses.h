// The pulses that a process has heard from its peers, and the peers that have fallen silent.
// Passive.
#pragma once

#include <map>
#include <vector>

#include "base/clock.h"
#include "proto/frame.h"

namespace paddle::heartbeat {

constexpr Duration kPeriod = std::chrono::milliseconds(250);
constexpr Duration kSuspectAfter = std::chrono::seconds(1);
constexpr Duration kDeadAfter = std::chrono::seconds(3);
// Longer gaps between our own looks say that this process was stopped: nobody is judged by them.
constexpr Duration kOwnGap = std::chrono::seconds(1);

struct Pulse {
  NodeId from;
  std::uint64_t life = 0;      // of the peer: incarnation of a trainer, generation of a pserver
  std::uint64_t sequence = 0;  // rises with every pulse of a life
  bool is_last = false;        // it leaves
  std::uint64_t answers = 0;   // of a pserver: the life of the trainer that it answers
};

struct Silence {
  NodeId peer;
  std::uint64_t life = 0;
  Duration lasted{};
};

enum class Heard { kNothing, kPulse, kAgain, kNewLife };

class Pulses {
 public:
  // kNothing: a copy, or of an earlier life. kAgain: the peer was dead, and lives. kNewLife: the
  // peer was started again since it was last heard. A peer that was never heard is not judged:
  // pulses may not get through at all.
  Heard on_pulse(TimePoint now, const Pulse& pulse);
  // Called about every kPeriod. The peers that have just died, each once a silence.
  std::vector<Silence> on_tick(TimePoint now);
  // Of those who are suspect or dead.
  std::vector<Silence> silences(TimePoint now) const;

 private:
  struct Peer {
    std::uint64_t life = 0;
    std::uint64_t sequence = 0;
    TimePoint heard;
    bool has_left = false;
    bool is_dead = false;
  };
  std::map<std::uint32_t, Peer> peers_;  // by packed id
  TimePoint looked_;
};

}  // namespace paddle::heartbeat

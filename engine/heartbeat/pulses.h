// The pulses that a process has heard from its peers, and the peers that have fallen silent.
// Passive.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "proto/frame.h"
#include "proto/keys.h"

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

// A pulse as the bytes of a datagram: a frame's header and a proof of the pair's key (PROTOCOL.md,
// "Heartbeats").

constexpr std::size_t kProofBytes = 32;
constexpr std::size_t kJobTagAt = 16;  // in a frame's header
using Datagram = std::array<std::byte, kFrameHeaderBytes + kProofBytes>;

// The key of one direction between a client and a server.
Secret direction_key(const Secret& pair, NodeId from);

Datagram encode(const Pulse& pulse, std::uint64_t job_tag, const Secret& key);
// The claim of a datagram of this job; nothing: it is none.
std::optional<Pulse> read_claim(ByteSpan bytes, std::uint64_t job_tag);
bool is_proven(ByteSpan bytes, const Secret& key);

// Lets the kernel drop what has another length or job than a datagram of this job, before it takes
// a place in the socket's buffer: a flood from somebody who does not know the job's number then
// hides no pulse. Where the kernel cannot, read_claim() does the same later.
void drop_foreign_datagrams(int socket, std::uint64_t job_tag);

}  // namespace paddle::heartbeat

// The pulses that a process has received from its peers, and the peers that have fallen silent.
// Passive: it has no socket and no clock.
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
// A longer gap between calls of on_tick() means that this process itself was stopped: a silence of
// peers during the gap does not count.
constexpr Duration kOwnGap = std::chrono::seconds(1);
// Else a peer could die in a gap that does not count as one: no pulse of it could be read
// meanwhile, and the last one before the gap may be a period old.
static_assert(kOwnGap + kPeriod < kDeadAfter);

struct Pulse {
  NodeId from;
  std::uint64_t incarnation = 0;  // of the peer; of a pserver: its generation
  std::uint64_t sequence = 0;     // rises with every pulse of a process
  bool is_last = false;           // the peer leaves
  std::uint64_t answers = 0;      // of a pserver: the incarnation of the trainer that it answers
};

struct Silence {
  NodeId peer;
  std::uint64_t incarnation = 0;
  Duration lasted{};
};

enum class PulseNews { kNothing, kPulse, kAgain, kRestarted };

class Pulses {
 public:
  // kNothing: a duplicate, or from an earlier process of the peer. kAgain: the peer counted as
  // dead. kRestarted: the peer was restarted after its last pulse. A peer without any pulse never
  // counts as silent: pulses may not get through at all.
  PulseNews on_pulse(TimePoint now, const Pulse& pulse);
  // Called about every kPeriod. Returns the peers that have just died, each once per silence.
  std::vector<Silence> on_tick(TimePoint now);
  // Silences of the peers that are suspect or dead.
  std::vector<Silence> silences(TimePoint now) const;

 private:
  struct Peer {
    std::uint64_t incarnation = 0;
    std::uint64_t sequence = 0;
    TimePoint received;
    bool has_left = false;
    bool is_dead = false;
  };
  std::map<std::uint32_t, Peer> peers_;  // by packed id
  TimePoint looked_;
};

// A pulse as the bytes of a datagram: a frame's header, and a proof with the pair's key
// (PROTOCOL.md, "Heartbeats").

constexpr std::size_t kJobTagAt = 16;  // in a frame's header
using Datagram = std::array<std::byte, kFrameHeaderBytes + kProofBytes>;

// The key of one direction between a client and a server.
Secret direction_key(const Secret& pair, NodeId from);

Datagram encode(const Pulse& pulse, std::uint64_t job_tag, const Secret& key);
// The pulse that a datagram of this job claims to be; is_proven() checks it. Empty: it is no such
// datagram.
std::optional<Pulse> read_claim(ByteSpan bytes, std::uint64_t job_tag);
bool is_proven(ByteSpan bytes, const Secret& key);

// Makes the kernel drop datagrams with another length or job tag before they take room in the
// socket's buffer: a flood from a sender without the job tag then hides no pulse. If the kernel
// cannot, read_claim() drops them later.
void drop_foreign_datagrams(int socket, std::uint64_t job_tag);

}  // namespace paddle::heartbeat

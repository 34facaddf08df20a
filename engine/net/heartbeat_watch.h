// Heartbeats as messages, and HeartbeatWatch, which decides by them which peers are silent or dead.
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

constexpr Duration kPeriod = std::chrono::milliseconds(250);  // between two heartbeats
// A peer is silent if its latest heartbeat arrived this long ago or earlier: reports to supervisors
// name it, and no process acts on it.
constexpr Duration kSilentAfter = std::chrono::seconds(1);
// A silent peer is dead if its latest heartbeat arrived this long ago or earlier: the process's log
// says so, and a process of a job with restarts acts on it.
constexpr Duration kDeadAfter = std::chrono::seconds(3);
// A longer gap between calls of on_tick() means that this process itself was stopped: a silence of
// peers during the gap does not count.
constexpr Duration kOwnGap = std::chrono::seconds(1);
// Else a peer could die in a gap that does not count as one: no heartbeat of it could be read
// meanwhile, and the last one before the gap may be a period old.
static_assert(kOwnGap + kPeriod < kDeadAfter);

struct Heartbeat {
  NodeId from;
  std::uint64_t incarnation = 0;  // of the peer; of a pserver: its generation
  std::uint64_t sequence = 0;     // rises with every heartbeat of a process
  bool is_last = false;           // the peer leaves
  std::uint64_t answers = 0;      // of a pserver: the incarnation of the trainer that it answers
};

struct Silence {
  NodeId peer;
  std::uint64_t incarnation = 0;
  Duration lasted{};  // since its latest heartbeat
};

// The news that a heartbeat brings of its peer.
enum class HeartbeatNews {
  kDropped,    // none: the heartbeat is a duplicate, or from an earlier process of the peer
  kAlive,      // the peer is alive
  kAgain,      // the peer counted as dead, and is alive
  kRestarted,  // the peer was restarted after its latest heartbeat
};

// Decides which peers are silent and which are dead. A peer without any heartbeat is neither:
// heartbeats may not get through at all. Neither is one that has left.
class HeartbeatWatch {
 public:
  HeartbeatNews on_heartbeat(TimePoint now, const Heartbeat& heartbeat);
  // Called about every kPeriod. Returns the peers that have just died, each once per silence.
  std::vector<Silence> on_tick(TimePoint now);
  // The peers that are silent, with their silences.
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

// A heartbeat as the bytes of a datagram: a frame's header, and a proof with the pair's key
// (PROTOCOL.md, "Heartbeats").

constexpr std::size_t kJobTagAt = 16;  // in a frame's header
using Datagram = std::array<std::byte, kFrameHeaderBytes + kProofBytes>;

// The key of one direction between a client and a server.
Secret direction_key(const Secret& pair, NodeId from);

Datagram encode(const Heartbeat& heartbeat, std::uint64_t job_tag, const Secret& key);
// The heartbeat that a datagram of this job claims to be; is_proven() checks it. Empty: it is no
// such datagram.
std::optional<Heartbeat> read_claim(ByteSpan bytes, std::uint64_t job_tag);
bool is_proven(ByteSpan bytes, const Secret& key);

// Makes the kernel drop datagrams with another length or job tag before they take room in the
// socket's buffer: a flood from a sender without the job tag then hides no heartbeat. If the kernel
// cannot, read_claim() drops them later.
void drop_foreign_datagrams(int socket, std::uint64_t job_tag);

}  // namespace paddle::heartbeat

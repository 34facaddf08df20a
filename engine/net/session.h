// Mutual proof of the pair's key. Passive: frames in, frames out; PROTOCOL.md specifies the bytes.
// HELLO -> CHALLENGE -> PROOF -> ACCEPTED or REFUSED.
//
// INVARIANT: no frame is parsed before its sender's proof, except the frames of the session itself.
#pragma once

#include <optional>

#include "base/clock.h"
#include "proto/keys.h"

namespace paddle::net {

// Frame types below kFirstApplicationType belong to the session.
enum SessionFrame : std::uint8_t {
  kHello = 1,      // client: tail = nonce
  kChallenge = 2,  // server: tail = nonce, proof
  kProof = 3,      // client: tail = proof
  kAccepted = 4,   // server: empty
  kRefused = 5,    // server: tail = one Refusal byte; the connection closes
  kShare = 6,      // client, proven: tail = SharedSegment::offer()
  kShared = 7,     // server: tail = one byte, 1: continue in shared memory, 0: on TCP
  // Between ranks. Type 8 is used by heartbeats.
  kLanes = 9,       // client, proven: tail = one byte, its number of lanes
  kLanesHere = 10,  // server: tail = one byte, its number of lanes
  kLane = 11,       // client, proven: tail = one byte, number of this lane, and a proof
  kLaneTaken = 12,  // server: empty
};
constexpr std::uint8_t kFirstApplicationType = 16;

enum class Refusal : std::uint8_t {
  kBadProof = 1,
  kOtherJob = 2,
  kMalformed = 3,
  kManyReaders = 4,
};
constexpr std::size_t kReadersMax = 64;  // proven connections of readers to one port

constexpr Duration kHandshakeDeadline = std::chrono::seconds(2);
// An unproven peer costs at most kUnprovenBufferBytes + kUnprovenPayloadBytesMax <= 4 KiB of
// memory.
constexpr std::size_t kUnprovenBufferBytes = 2048;
constexpr std::size_t kUnprovenPayloadBytesMax = 256;
constexpr std::size_t kUnprovenConnectionsMax = 256;

// The values that both sides prove to agree on.
struct Transcript {
  std::uint64_t job_tag = 0;
  NodeId client;
  std::uint32_t incarnation = 0;
  NodeId server;
  std::uint64_t server_generation = 0;
  Nonce client_nonce{};
  Nonce server_nonce{};
};

enum class Side { kClient, kServer };
// Proves the transcript. The label names the side, so one side's proof never serves the other.
Proof make_proof(const Secret& key, Side side, const Transcript& transcript);

class ServerSession {
 public:
  struct Options {
    const JobKeys& keys;  // outlives the session
    NodeId self;
    std::uint64_t job_tag = 0;
    std::uint64_t server_generation = 0;
  };
  // `nonce` must be fresh from the kernel's random source for every connection.
  ServerSession(const Options& options, const Nonce& nonce, TimePoint now);

  // Answers one handshake frame. After a kRefused reply or an error (kAuth: expired or out of
  // order) close the connection.
  Result<Frame> on_frame(TimePoint now, const Frame& frame);

  bool proven() const { return state_ == State::kProven; }
  bool expired(TimePoint now) const { return !proven() && now >= deadline_; }
  // The identity that the peer claims; it is proven only once proven() is true.
  const Transcript& transcript() const { return transcript_; }
  // kAuth when a frame's job tag, sender or incarnation is not the proven one.
  Status check_sender(const FrameHeader& header) const;
  // check_sender(), and kAuth unless the frame is an application frame or a kShare.
  Status check(const FrameHeader& header) const;
  // A frame from this side, with no payload yet.
  Frame frame_of(SessionFrame type) const;
  // The answer to a peer that is not served; close the connection after it.
  Frame refuse(Refusal why);

 private:
  enum class State { kExpectHello, kExpectProof, kProven, kClosed };
  Frame on_hello(const Frame& frame);
  Frame on_proof(const Frame& frame);

  const JobKeys& keys_;
  std::optional<Secret> key_;  // the pair's key, known once the client has sent its identity
  Transcript transcript_;
  TimePoint deadline_;
  State state_ = State::kExpectHello;
};

class ClientSession {
 public:
  struct Options {
    Secret key;  // the pair's key
    NodeId self;
    std::uint32_t incarnation = 0;
    NodeId server;
    std::uint64_t job_tag = 0;
  };
  ClientSession(const Options& options, const Nonce& nonce);

  Frame hello() const;
  // Returns the PROOF to send for a CHALLENGE, nullopt for ACCEPTED. kAuth: the server refused, is
  // not the called one or did not prove the key.
  Result<std::optional<Frame>> on_frame(const Frame& frame);
  bool established() const { return state_ == State::kEstablished; }
  // A frame from this side, with no payload yet.
  Frame frame_of(SessionFrame type) const;
  // server_generation is valid once established().
  const Transcript& transcript() const { return transcript_; }

 private:
  enum class State { kExpectChallenge, kExpectAccepted, kEstablished, kClosed };
  Result<Frame> on_challenge(const Frame& frame);

  Secret key_;
  Transcript transcript_;
  State state_ = State::kExpectChallenge;
};

}  // namespace paddle::net

// One end of a handshake between two ranks (session.h), without blocking. The higher rank is the
// client. Ranks of one host without sealing then agree on shared memory. Other ranks send each
// other their configured numbers of lanes; each further lane has its own handshake, bound to the
// first one by a proof.
#pragma once

#include <variant>

#include "engine/net/peer_connection.h"
#include "engine/net/transport.h"

namespace paddle::net::peer {

// A rank, its keys and its settings; it must outlive the rank's handshakes.
struct Self {
  JobKeys keys;
  NodeId id;
  std::uint32_t incarnation = 0;
  std::uint64_t job_tag = 0;
  Transport transport = Transport::kSealed;
  bool shares_memory = true;
  std::uint32_t lanes = 1;  // lanes of a connection without shared memory
};

// Proves the nonces of the first lane's handshake and of this one's, and the lane's number.
Proof make_lane_proof(const Secret& key, const Transcript& first, const Transcript& own,
                      std::uint8_t number);

class Handshake {
 public:
  // REQUIRES: the socket is connected and non-blocking.
  static Result<std::unique_ptr<Handshake>> accept(const Self& self, UniqueFd socket,
                                                   TimePoint now);
  static Result<std::unique_ptr<Handshake>> call(const Self& self, NodeId server, UniqueFd socket,
                                                 TimePoint now);

  // Calls for a further lane, number 1 to kLanesMax - 1, of the connection whose first handshake
  // has the transcript `first`.
  static Result<std::unique_ptr<Handshake>> call_lane(const Self& self, const Transcript& first,
                                                      std::uint8_t number, UniqueFd socket,
                                                      TimePoint now);

  // Reads and writes as much as the socket allows. Returns true once the peer is proven; then
  // take() or take_lane() may be called. Every error is final: kAuth if the peer failed its proof,
  // kUnreachable if the deadline passed.
  Result<bool> advance(TimePoint now);
  // REQUIRES: the peer is proven.
  const Transcript& transcript() const;
  // The peer's number of lanes; this end's number if they share memory or this is a further lane.
  std::uint32_t lanes() const { return lanes_; }
  std::unique_ptr<Connection> take();

  // The number of a further lane, 0 for a first one.
  std::uint8_t lane() const { return lane_; }
  // On the server: whether this further lane belongs to the connection whose first handshake has
  // the transcript `first`.
  bool belongs_to(const Transcript& first) const;
  // Returns the further lane; the server first sends kLaneTaken to the caller. kUnreachable if the
  // caller has gone.
  Result<Lane> take_lane();

  int descriptor() const { return fd_.get(); }
  // If true, also poll for room to write.
  bool is_writing() const { return !writer_.empty(); }

 private:
  enum class Stage { kProving, kSharing, kLanes, kLane, kDone };
  Handshake(const Self& self, UniqueFd socket, TimePoint deadline);
  Status on_frame(TimePoint now, Frame&& frame);
  Status on_proof(TimePoint now, const Frame& frame);
  Status on_proven();
  void offer_memory();
  void tell(SessionFrame type, Bytes tail);
  Status on_offer(const Frame& frame);
  Status on_shared_memory(const Frame& frame);
  Status on_answer(const Frame& frame);
  bool is_client() const { return std::holds_alternative<ClientSession>(*session_); }
  std::span<std::byte> space();

  const Self& self_;
  UniqueFd fd_;
  std::unique_ptr<Stream> stream_;
  FrameReader reader_;
  FrameWriter writer_;
  TimePoint deadline_;
  std::optional<std::variant<ClientSession, ServerSession>> session_;
  Stage stage_ = Stage::kProving;
  bool may_share_;
  std::uint32_t lanes_;
  std::uint8_t lane_ = 0;
  Proof lane_proof_{};               // from the client's kLane frame
  std::optional<Transcript> first_;  // only for a client's further lane
  std::optional<SharedSegment> segment_;
  std::unique_ptr<RingStream> ring_;  // set once both sides continue in shared memory
};

}  // namespace paddle::net::peer

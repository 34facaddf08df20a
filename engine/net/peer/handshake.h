// One end of a handshake between two ranks, as in session.h, without blocking: the higher rank is
// the client. Ranks of one host that seal nothing then agree on shared memory. Others tell each
// other how many lanes they have set; each further lane is a handshake of its own, bound to the
// first one by a proof.
#pragma once

#include <variant>

#include "engine/net/peer/connection.h"
#include "engine/net/transport.h"

namespace paddle::net::peer {

// A rank and its keys, which outlive its handshakes.
struct Self {
  JobKeys keys;
  NodeId id;
  std::uint32_t incarnation = 0;
  std::uint64_t job_tag = 0;
  Transport transport = Transport::kSealed;
  bool shares_memory = true;
  std::uint32_t lanes = 1;  // of a connection that shares no memory
};

// HMAC-SHA256 of a label, the nonces of the first lane's handshake and of this one's, and the
// lane's number.
Proof make_lane_proof(const Secret& key, const Transcript& first, const Transcript& own,
                      std::uint8_t number);

class Handshake {
 public:
  // The socket is connected, and does not block.
  static Result<std::unique_ptr<Handshake>> accept(const Self& self, UniqueFd socket,
                                                   TimePoint now);
  static Result<std::unique_ptr<Handshake>> call(const Self& self, NodeId server, UniqueFd socket,
                                                 TimePoint now);

  // For a further lane, 1 to kLanesMax - 1, of the connection with that first handshake.
  static Result<std::unique_ptr<Handshake>> call_lane(const Self& self, const Transcript& first,
                                                      std::uint8_t number, UniqueFd socket,
                                                      TimePoint now);

  // Reads and writes what the socket allows; true once the peer is proven and take() may be called.
  // Any error is final: kAuth is the peer's, and expired ones are kUnreachable.
  Result<bool> advance(TimePoint now);
  // Once it is proven.
  const Transcript& transcript() const;
  // The peer's number of lanes; this end's where it does not matter.
  std::uint32_t lanes() const { return lanes_; }
  std::unique_ptr<Connection> take();

  // The number of a further lane, 0 for a first one.
  std::uint8_t lane() const { return lane_; }
  // The server's end: the caller belongs to the connection with that first handshake.
  bool belongs_to(const Transcript& first) const;
  // The server tells the caller. kUnreachable when it has gone.
  Result<Lane> take_lane();

  int descriptor() const { return fd_.get(); }
  // Poll for room to write as well.
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
  Proof lane_proof_{};               // as the client gave it
  std::optional<Transcript> first_;  // of a client's further lane
  std::optional<SharedSegment> segment_;
  std::unique_ptr<RingStream> ring_;  // once both sides go on in shared memory
};

}  // namespace paddle::net::peer

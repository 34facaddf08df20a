// One end of a handshake between two ranks, as in session.h, without blocking: the higher rank is
// the client. Ranks of one host that seal nothing then agree on shared memory.
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
};

class Handshake {
 public:
  // The socket is connected, and does not block.
  static Result<std::unique_ptr<Handshake>> accept(const Self& self, UniqueFd socket,
                                                   TimePoint now);
  static Result<std::unique_ptr<Handshake>> call(const Self& self, NodeId server, UniqueFd socket,
                                                 TimePoint now);

  // Reads and writes what the socket allows; true once the peer is proven and take() may be called.
  // Any error is final: kAuth is the peer's, and expired ones are kUnreachable.
  Result<bool> advance(TimePoint now);
  std::unique_ptr<Connection> take();

  int descriptor() const { return fd_.get(); }
  // Poll for room to write as well.
  bool is_writing() const { return !writer_.empty(); }

 private:
  enum class Stage { kProving, kSharing, kDone };
  Handshake(const Self& self, UniqueFd socket, TimePoint deadline);
  Status on_frame(TimePoint now, Frame&& frame);
  Status on_proof(TimePoint now, const Frame& frame);
  Status begin_sharing();
  Status on_offer(const Frame& frame);
  Status on_answer(const Frame& frame);
  bool is_client() const { return std::holds_alternative<ClientSession>(*session_); }
  const Transcript& transcript() const;

  const Self& self_;
  UniqueFd fd_;
  std::unique_ptr<Stream> stream_;
  FrameReader reader_;
  FrameWriter writer_;
  TimePoint deadline_;
  std::optional<std::variant<ClientSession, ServerSession>> session_;
  Stage stage_ = Stage::kProving;
  bool may_share_;
  std::optional<SharedSegment> segment_;
  std::unique_ptr<RingStream> ring_;  // once both sides go on in shared memory
};

}  // namespace paddle::net::peer

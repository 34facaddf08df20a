#include "engine/net/peer_handshake.h"

#include <algorithm>

#include "engine/net/tls_stream.h"

namespace paddle::net::peer {
namespace {

// Longer than the server's own deadline: a client must not abandon a connection that the server
// takes for proven.
constexpr Duration kClientDeadline = 5 * kHandshakeDeadline;

Error malformed() {
  return Error{Errc::kAuth, "unexpected frame in a handshake between ranks"};
}

}  // namespace

Proof make_lane_proof(const Secret& key, const Transcript& first, const Transcript& own,
                      std::uint8_t number) {
  Bytes facts;
  for (const Transcript* const transcript : {&first, &own}) {
    append_bytes<std::byte>(facts, transcript->client_nonce);
    append_bytes<std::byte>(facts, transcript->server_nonce);
  }
  append_le(facts, number);
  return prove(key, "paddlectl lane 1", facts);
}

Handshake::Handshake(const Self& self, UniqueFd socket, TimePoint deadline)
    : self_(self),
      fd_(std::move(socket)),
      stream_(make_socket_stream(fd_.get())),
      reader_(kUnprovenBufferBytes, kUnprovenPayloadBytesMax),
      deadline_(deadline),
      may_share_(is_same_host(fd_.get()) && !is_sealed(self.transport, fd_.get())),
      lanes_(self.lanes) {}

Result<std::unique_ptr<Handshake>> Handshake::accept(const Self& self, UniqueFd socket,
                                                     TimePoint now) {
  PADDLE_TRY(const Nonce nonce, random_nonce());
  const auto made = new Handshake(self, std::move(socket), now + kHandshakeDeadline);
  std::unique_ptr<Handshake> one(made);
  if (is_sealed(self.transport, one->descriptor())) {
    one->stream_ = make_tls_server(std::move(one->stream_), self.id, self.job_tag, self.keys);
  }
  one->session_.emplace(
      ServerSession({self.keys, self.id, self.job_tag, self.incarnation}, nonce, now));
  return one;
}

Result<std::unique_ptr<Handshake>> Handshake::call(const Self& self, NodeId server, UniqueFd socket,
                                                   TimePoint now) {
  PADDLE_TRY(const Nonce nonce, random_nonce());
  PADDLE_TRY(const Secret key, self.keys.pair(self.id, server));
  const auto made = new Handshake(self, std::move(socket), now + kClientDeadline);
  std::unique_ptr<Handshake> one(made);
  if (is_sealed(self.transport, one->descriptor())) {
    one->stream_ = make_tls_client(std::move(one->stream_), self.id, server, self.job_tag, key);
  }
  ClientSession session({key, self.id, self.incarnation, server, self.job_tag}, nonce);
  one->writer_.push(session.hello());
  one->session_.emplace(std::move(session));
  return one;
}

Result<std::unique_ptr<Handshake>> Handshake::call_lane(const Self& self, const Transcript& first,
                                                        std::uint8_t number, UniqueFd socket,
                                                        TimePoint now) {
  PADDLE_TRY(auto one, call(self, first.server, std::move(socket), now));
  one->first_ = first;
  one->lane_ = number;
  return one;
}

const Transcript& Handshake::transcript() const {
  return std::visit([](const auto& session) -> const Transcript& { return session.transcript(); },
                    *session_);
}

Result<bool> Handshake::advance(TimePoint now) {
  for (;;) {
    PADDLE_TRY(const bool is_written, writer_.flush(*stream_));
    if (stage_ == Stage::kDone && is_written) return true;
    if (now >= deadline_) return Error{Errc::kUnreachable, "handshake deadline passed"};
    if (stage_ == Stage::kDone) return false;
    PADDLE_TRY(std::optional<Frame> frame, reader_.next());
    if (frame) {
      PADDLE_TRY_STATUS(on_frame(now, std::move(*frame)));
      continue;
    }
    PADDLE_TRY(const std::size_t count, stream_->read_some(space()));
    if (count == 0) return false;
    reader_.commit(count);
  }
}

// The answer to a further lane may be followed by bytes of the whole connection, which this reader
// must not take.
std::span<std::byte> Handshake::space() {
  const std::span<std::byte> all = reader_.space();
  if (stage_ != Stage::kLane) return all;
  return all.first(std::min(all.size(), kFrameHeaderBytes - reader_.buffered()));
}

Status Handshake::on_frame(TimePoint now, Frame&& frame) {
  if (stage_ == Stage::kProving) return on_proof(now, frame);
  return is_client() ? on_answer(frame) : on_offer(frame);
}

Status Handshake::on_proof(TimePoint now, const Frame& frame) {
  if (is_client()) {
    auto& session = std::get<ClientSession>(*session_);
    PADDLE_TRY(std::optional<Frame> answer, session.on_frame(frame));
    if (answer) writer_.push(std::move(*answer));
    return session.established() ? on_proven() : Status();
  }
  auto& session = std::get<ServerSession>(*session_);
  PADDLE_TRY(Frame answer, session.on_frame(now, frame));
  const bool is_refused = answer.header.type == kRefused;
  writer_.push(std::move(answer));
  if (is_refused) {
    // Best effort: the peer receives the refusal if the socket accepts it now.
    [[maybe_unused]] const auto ignored = writer_.flush(*stream_);
    return Error{Errc::kAuth, "handshake refused"};
  }
  return session.proven() ? on_proven() : Status();
}

// Both ends know from the addresses whether memory can be shared; if so, the client sends an offer,
// which is empty if it does not share.
Status Handshake::on_proven() {
  stage_ = may_share_ ? Stage::kSharing : Stage::kLanes;
  if (!is_client()) return {};
  if (first_) {
    stage_ = Stage::kLane;
    PADDLE_TRY(const Secret key, self_.keys.pair(self_.id, first_->server));
    Bytes tail{std::byte{lane_}};
    append_bytes<std::byte>(tail, make_lane_proof(key, *first_, transcript(), lane_));
    tell(kLane, std::move(tail));
  } else if (may_share_) {
    offer_memory();
  } else {
    tell(kLanes, {static_cast<std::byte>(self_.lanes)});
  }
  return {};
}

void Handshake::offer_memory() {
  Bytes offer;
  if (self_.shares_memory) {
    auto segment = SharedSegment::create();
    if (segment) segment_.emplace(*std::move(segment));
    if (segment_) offer = segment_->offer();
  }
  tell(kShare, std::move(offer));
}

void Handshake::tell(SessionFrame type, Bytes tail) {
  Frame frame = std::visit([type](const auto& one) { return one.frame_of(type); }, *session_);
  frame.tail = std::move(tail);
  writer_.push(std::move(frame));
}

// On the server: handles the client's frame after the proof.
Status Handshake::on_offer(const Frame& frame) {
  PADDLE_TRY_STATUS(std::get<ServerSession>(*session_).check_sender(frame.header));
  if (!frame.head.empty() || !reader_.is_idle()) return malformed();
  const bool is_first = may_share_ == (stage_ == Stage::kSharing);
  if (frame.header.type == kLane && is_first && frame.tail.size() == 1 + kProofBytes) {
    lane_ = static_cast<std::uint8_t>(frame.tail[0]);
    std::copy_n(frame.tail.begin() + 1, kProofBytes, lane_proof_.begin());
    stage_ = Stage::kDone;
    return lane_ == 0 ? malformed() : Status();
  }
  if (frame.header.type == kShare && stage_ == Stage::kSharing) return on_shared_memory(frame);
  const bool is_number = frame.header.type == kLanes && stage_ == Stage::kLanes &&
                         frame.tail.size() == 1 && frame.tail[0] != std::byte{0};
  if (!is_number) return malformed();
  lanes_ = static_cast<std::uint32_t>(frame.tail[0]);
  tell(kLanesHere, {static_cast<std::byte>(self_.lanes)});
  stage_ = Stage::kDone;
  return {};
}

Status Handshake::on_shared_memory(const Frame& frame) {
  if (self_.shares_memory && !frame.tail.empty()) {
    auto segment = SharedSegment::open(frame.tail);
    if (segment)
      ring_ = std::make_unique<RingStream>(*std::move(segment), Side::kServer, fd_.get());
  }
  tell(kShared, {std::byte{ring_ != nullptr ? std::uint8_t{1} : std::uint8_t{0}}});
  stage_ = ring_ != nullptr ? Stage::kDone : Stage::kLanes;
  return {};
}

// On the client: handles the server's answer to it.
Status Handshake::on_answer(const Frame& frame) {
  if (!frame.head.empty() || frame.header.sender != transcript().server) return malformed();
  const bool has_number = frame.tail.size() == 1;
  if (stage_ == Stage::kSharing && frame.header.type == kShared && has_number) {
    if (!reader_.is_idle()) return malformed();
    if (frame.tail[0] == std::byte{0}) {
      tell(kLanes, {static_cast<std::byte>(self_.lanes)});
      stage_ = Stage::kLanes;
      return {};
    }
    if (!segment_) return malformed();
    segment_->close_file();
    ring_ = std::make_unique<RingStream>(*std::move(segment_), Side::kClient, fd_.get());
  } else if (stage_ == Stage::kLanes && frame.header.type == kLanesHere && has_number) {
    lanes_ = static_cast<std::uint32_t>(frame.tail[0]);
    if (lanes_ > 1 && !reader_.is_idle()) return malformed();
  } else if (stage_ != Stage::kLane || frame.header.type != kLaneTaken || !frame.tail.empty()) {
    return malformed();
  }
  stage_ = Stage::kDone;
  return {};
}

bool Handshake::belongs_to(const Transcript& first) const {
  PADDLE_CHECK(!is_client() && stage_ == Stage::kDone && lane_ > 0);
  const Transcript& own = transcript();
  if (own.client != first.client || own.incarnation != first.incarnation) return false;
  const auto key = self_.keys.pair(own.client, own.server);
  return key && equal_constant_time(make_lane_proof(*key, first, own, lane_), lane_proof_);
}

Result<Lane> Handshake::take_lane() {
  PADDLE_CHECK(stage_ == Stage::kDone && writer_.empty() && lane_ > 0);
  if (!is_client()) {
    tell(kLaneTaken, {});
    PADDLE_TRY(const bool is_told, writer_.flush(*stream_));
    if (!is_told) return Error{Errc::kUnreachable, "the answer does not fit into its socket"};
  }
  return Lane{std::move(fd_), std::move(stream_)};
}

std::unique_ptr<Connection> Handshake::take() {
  PADDLE_CHECK(stage_ == Stage::kDone && writer_.empty() && lane_ == 0);
  const Transcript& proven = transcript();
  Ends ends{.job_tag = self_.job_tag, .self = self_.id, .incarnation = self_.incarnation};
  ends.peer = is_client() ? proven.server : proven.client;
  ends.peer_incarnation =
      is_client() ? static_cast<std::uint32_t>(proven.server_generation) : proven.incarnation;
  const bool trusts = is_sealed(self_.transport, fd_.get()) || stays_on_host(fd_.get());
  RingStream* const ring = ring_.get();
  if (ring != nullptr) stream_ = std::move(ring_);
  return std::make_unique<Connection>(Lane{std::move(fd_), std::move(stream_)}, ring,
                                      std::move(reader_), ends, trusts);
}

}  // namespace paddle::net::peer

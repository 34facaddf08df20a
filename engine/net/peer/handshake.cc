#include "engine/net/peer/handshake.h"

#include "engine/net/tls_stream.h"

namespace paddle::net::peer {
namespace {

// Longer than the server's own deadline: a client must not give up what the server takes for
// proven.
constexpr Duration kClientDeadline = 5 * kHandshakeDeadline;

Error malformed() {
  return Error{Errc::kAuth, "unexpected frame in a handshake between ranks"};
}

}  // namespace

Handshake::Handshake(const Self& self, UniqueFd socket, TimePoint deadline)
    : self_(self),
      fd_(std::move(socket)),
      stream_(make_socket_stream(fd_.get())),
      reader_(kUnprovenBufferBytes, kUnprovenPayloadBytesMax),
      deadline_(deadline),
      may_share_(is_same_host(fd_.get()) && !is_sealed(self.transport, fd_.get())) {}

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
    PADDLE_TRY(const std::size_t count, stream_->read_some(reader_.space()));
    if (count == 0) return false;
    reader_.commit(count);
  }
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
    return session.established() ? begin_sharing() : Status();
  }
  auto& session = std::get<ServerSession>(*session_);
  PADDLE_TRY(Frame answer, session.on_frame(now, frame));
  const bool is_refused = answer.header.type == kRefused;
  writer_.push(std::move(answer));
  if (is_refused) {
    // Best effort: the peer learns why, if its socket takes it now.
    [[maybe_unused]] const auto ignored = writer_.flush(*stream_);
    return Error{Errc::kAuth, "handshake refused"};
  }
  return session.proven() ? begin_sharing() : Status();
}

// Both ends see by the addresses whether memory can be shared, and then the client says whether it
// is.
Status Handshake::begin_sharing() {
  stage_ = may_share_ ? Stage::kSharing : Stage::kDone;
  if (!may_share_ || !is_client()) return {};
  Frame offer;
  offer.header.type = kShare;
  offer.header.job_tag = self_.job_tag;
  offer.header.sender = self_.id;
  offer.header.incarnation = self_.incarnation;
  if (self_.shares_memory) {
    auto segment = SharedSegment::create();
    if (segment) segment_.emplace(*std::move(segment));
    if (segment_) offer.tail = segment_->offer();
  }
  writer_.push(std::move(offer));
  return {};
}

Status Handshake::on_offer(const Frame& frame) {
  const auto& session = std::get<ServerSession>(*session_);
  PADDLE_TRY_STATUS(session.check(frame.header));
  if (frame.header.type != kShare || !frame.head.empty() || !reader_.is_idle()) return malformed();
  if (self_.shares_memory && !frame.tail.empty()) {
    auto segment = SharedSegment::open(frame.tail);
    if (segment)
      ring_ = std::make_unique<RingStream>(*std::move(segment), Side::kServer, fd_.get());
  }
  Frame answer = session.reply(kShared);
  answer.tail.push_back(std::byte{ring_ != nullptr ? std::uint8_t{1} : std::uint8_t{0}});
  writer_.push(std::move(answer));
  stage_ = Stage::kDone;
  return {};
}

Status Handshake::on_answer(const Frame& frame) {
  const bool is_answer = frame.header.type == kShared && frame.head.empty() &&
                         frame.tail.size() == 1 && frame.header.sender == transcript().server;
  if (!is_answer) return malformed();
  stage_ = Stage::kDone;
  if (frame.tail[0] == std::byte{0}) return {};
  if (!segment_ || !reader_.is_idle()) return malformed();
  segment_->close_file();
  ring_ = std::make_unique<RingStream>(*std::move(segment_), Side::kClient, fd_.get());
  return {};
}

std::unique_ptr<Connection> Handshake::take() {
  PADDLE_CHECK(stage_ == Stage::kDone && writer_.empty());
  const Transcript& proven = transcript();
  Ends ends{.job_tag = self_.job_tag, .self = self_.id, .incarnation = self_.incarnation};
  ends.peer = is_client() ? proven.server : proven.client;
  ends.peer_incarnation =
      is_client() ? static_cast<std::uint32_t>(proven.server_generation) : proven.incarnation;
  const bool trusts = is_sealed(self_.transport, fd_.get()) || stays_on_host(fd_.get());
  RingStream* const ring = ring_.get();
  if (ring != nullptr) stream_ = std::move(ring_);
  return std::make_unique<Connection>(std::move(fd_), std::move(stream_), ring, std::move(reader_),
                                      ends, trusts);
}

}  // namespace paddle::net::peer

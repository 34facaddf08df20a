#include "engine/net/session.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace paddle::net {
namespace {

constexpr std::string_view kClientLabel = "paddlectl session 1 client";
constexpr std::string_view kServerLabel = "paddlectl session 1 server";

bool is_plain(const Frame& frame, std::size_t tail_bytes) {
  return frame.head.empty() && frame.tail.size() == tail_bytes;
}

Error malformed(std::uint8_t type) {
  return Error{Errc::kAuth, fmt::format("unexpected handshake frame (type {})", type)};
}

}  // namespace

Proof make_proof(const Secret& key, Side side, const Transcript& transcript) {
  Bytes facts;
  append_le(facts, transcript.job_tag);
  append_le(facts, pack(transcript.client));
  append_le(facts, transcript.incarnation);
  append_le(facts, pack(transcript.server));
  append_le(facts, transcript.server_generation);
  append_bytes<std::byte>(facts, transcript.client_nonce);
  append_bytes<std::byte>(facts, transcript.server_nonce);
  return prove(key, side == Side::kClient ? kClientLabel : kServerLabel, facts);
}

ServerSession::ServerSession(const Options& options, const Nonce& nonce, TimePoint now)
    : keys_(options.keys), deadline_(now + kHandshakeDeadline) {
  transcript_.job_tag = options.job_tag;
  transcript_.server = options.self;
  transcript_.server_generation = options.server_generation;
  transcript_.server_nonce = nonce;
}

Result<Frame> ServerSession::on_frame(TimePoint now, const Frame& frame) {
  if (expired(now)) {
    state_ = State::kClosed;
    return Error{Errc::kAuth, "handshake deadline passed"};
  }
  if (state_ == State::kExpectHello && frame.header.type == kHello) return on_hello(frame);
  if (state_ == State::kExpectProof && frame.header.type == kProof) return on_proof(frame);
  state_ = State::kClosed;
  return malformed(frame.header.type);
}

Status ServerSession::check_sender(const FrameHeader& header) const {
  if (header.job_tag == transcript_.job_tag && header.sender == transcript_.client &&
      header.incarnation == transcript_.incarnation) {
    return {};
  }
  return Error{Errc::kAuth, "frame with another identity than the proven one"};
}

Status ServerSession::check(const FrameHeader& header) const {
  if (header.type < kFirstApplicationType && header.type != kShare) return malformed(header.type);
  return check_sender(header);
}

Frame ServerSession::frame_of(SessionFrame type) const {
  Frame frame;
  frame.header.type = type;
  frame.header.job_tag = transcript_.job_tag;
  frame.header.sender = transcript_.server;
  frame.header.server_generation = transcript_.server_generation;
  return frame;
}

Frame ServerSession::refuse(Refusal why) {
  state_ = State::kClosed;
  Frame frame;  // all other fields are 0, so an unproven peer learns nothing about the job
  frame.header.type = kRefused;
  frame.tail.push_back(static_cast<std::byte>(why));
  return frame;
}

Frame ServerSession::on_hello(const Frame& frame) {
  const NodeId peer = frame.header.sender;
  // A HELLO with our own identity is our own frame, reflected.
  if (!is_plain(frame, kNonceBytes) || peer.role == Role::kNone || peer == transcript_.server) {
    return refuse(Refusal::kMalformed);
  }
  if (frame.header.job_tag != transcript_.job_tag) return refuse(Refusal::kOtherJob);
  transcript_.client = peer;
  transcript_.incarnation = frame.header.incarnation;
  std::copy(frame.tail.begin(), frame.tail.end(), transcript_.client_nonce.begin());
  auto key = keys_.pair(peer, transcript_.server);
  if (!key) return refuse(Refusal::kBadProof);
  key_ = *std::move(key);
  state_ = State::kExpectProof;
  Frame challenge = frame_of(kChallenge);
  append_bytes<std::byte>(challenge.tail, transcript_.server_nonce);
  append_bytes<std::byte>(challenge.tail, make_proof(*key_, Side::kServer, transcript_));
  return challenge;
}

Frame ServerSession::on_proof(const Frame& frame) {
  if (!is_plain(frame, kProofBytes)) return refuse(Refusal::kMalformed);
  const Proof expected = make_proof(*key_, Side::kClient, transcript_);
  if (!equal_constant_time(expected, frame.tail)) return refuse(Refusal::kBadProof);
  state_ = State::kProven;
  return frame_of(kAccepted);
}

ClientSession::ClientSession(const Options& options, const Nonce& nonce) : key_(options.key) {
  transcript_.job_tag = options.job_tag;
  transcript_.client = options.self;
  transcript_.incarnation = options.incarnation;
  transcript_.server = options.server;
  transcript_.client_nonce = nonce;
}

Frame ClientSession::hello() const {
  Frame frame = frame_of(kHello);
  append_bytes<std::byte>(frame.tail, transcript_.client_nonce);
  return frame;
}

Result<std::optional<Frame>> ClientSession::on_frame(const Frame& frame) {
  const State before = std::exchange(state_, State::kClosed);
  if (frame.header.type == kRefused && is_plain(frame, 1) &&
      (before == State::kExpectChallenge || before == State::kExpectAccepted)) {
    switch (static_cast<Refusal>(frame.tail[0])) {
      case Refusal::kBadProof:
        return Error{Errc::kAuth, "refused: the keys differ"};
      case Refusal::kOtherJob:
        return Error{Errc::kAuth, "refused: it serves another job",
                     "another job may hold the port: paddlectl status"};
      case Refusal::kManyReaders:
        return Error{Errc::kResource,
                     fmt::format("{} readers are connected to this port", kReadersMax),
                     "end some of them, or read for several users with one reader"};
      case Refusal::kMalformed:
        break;
    }
    return Error{Errc::kAuth, "refused the handshake"};
  }
  if (before == State::kExpectChallenge && frame.header.type == kChallenge) {
    PADDLE_TRY(Frame proof, on_challenge(frame));
    state_ = State::kExpectAccepted;
    return std::optional<Frame>(std::move(proof));
  }
  if (before == State::kExpectAccepted && frame.header.type == kAccepted && is_plain(frame, 0)) {
    state_ = State::kEstablished;
    return std::optional<Frame>();
  }
  return malformed(frame.header.type);
}

Frame ClientSession::frame_of(SessionFrame type) const {
  Frame frame;
  frame.header.type = type;
  frame.header.job_tag = transcript_.job_tag;
  frame.header.sender = transcript_.client;
  frame.header.incarnation = transcript_.incarnation;
  return frame;
}

Result<Frame> ClientSession::on_challenge(const Frame& frame) {
  const NodeId peer = frame.header.sender;
  if (!is_plain(frame, kNonceBytes + kProofBytes) || peer == transcript_.client ||
      frame.header.job_tag != transcript_.job_tag) {
    return malformed(frame.header.type);
  }
  if (peer != transcript_.server) {
    return Error{Errc::kAuth,
                 fmt::format("it has number {}, but number {} was expected", peer.index,
                             transcript_.server.index),
                 "list --pservers in the order of their --pserver_id"};
  }
  transcript_.server_generation = frame.header.server_generation;
  const ByteSpan tail = frame.tail;
  std::copy_n(tail.begin(), kNonceBytes, transcript_.server_nonce.begin());
  const Proof expected = make_proof(key_, Side::kServer, transcript_);
  if (!equal_constant_time(expected, tail.subspan(kNonceBytes))) {
    return Error{Errc::kAuth, "it did not prove the job's key"};
  }
  Frame proof = frame_of(kProof);
  append_bytes<std::byte>(proof.tail, make_proof(key_, Side::kClient, transcript_));
  return proof;
}

}  // namespace paddle::net

#include "engine/heartbeat/datagram.h"

#include <utility>

#include "base/hmac.h"

namespace paddle::heartbeat {
namespace {

constexpr std::uint8_t kHeartbeat = 8;  // the frame's type
constexpr std::uint16_t kLast = 1;      // its flag

FrameHeader header_of(const Pulse& pulse, std::uint64_t job_tag) {
  FrameHeader header;
  header.type = kHeartbeat;
  header.flags = pulse.is_last ? kLast : 0;
  header.job_tag = job_tag;
  header.sender = pulse.from;
  if (pulse.from.role == Role::kPserver) {
    header.server_generation = pulse.life;
    header.incarnation = static_cast<std::uint32_t>(pulse.answers);
  } else {
    header.incarnation = static_cast<std::uint32_t>(pulse.life);
  }
  header.sequence = pulse.sequence;
  return header;
}

Sha256Digest proof_of(const FrameHeader& header, const Secret& key) {
  const FrameHeaderBytes bytes = encode_header(header, {}, ByteSpan());
  const ByteSpan part = bytes;
  return hmac_sha256(key.reveal(), {&part, 1});
}

std::optional<FrameHeader> decode(ByteSpan bytes) {
  if (bytes.size() != sizeof(Datagram)) return {};
  const auto decoded = decode_header(bytes.first<kFrameHeaderBytes>(), kProofBytes);
  if (!decoded || decoded->head_bytes != 0 || decoded->tail_bytes != kProofBytes) return {};
  return decoded->header;
}

}  // namespace

Secret direction_key(const Secret& pair, NodeId from) {
  const std::uint32_t sender = pack(from);
  return derive_secret(pair, "paddlectl heartbeat 1", bytes_of(std::span(&sender, 1)));
}

Datagram encode(const Pulse& pulse, std::uint64_t job_tag, const Secret& key) {
  const FrameHeader header = header_of(pulse, job_tag);
  const Sha256Digest proof = proof_of(header, key);
  const FrameHeaderBytes bytes = encode_header(header, {}, ByteSpan(proof));
  Datagram datagram;
  std::ranges::copy(bytes, datagram.begin());
  std::ranges::copy(proof, datagram.begin() + kFrameHeaderBytes);
  return datagram;
}

std::optional<Pulse> read_claim(ByteSpan bytes, std::uint64_t job_tag) {
  const auto header = decode(bytes);
  if (!header || header->type != kHeartbeat || header->job_tag != job_tag) return {};
  const bool is_pserver = header->sender.role == Role::kPserver;
  if (!is_pserver && header->sender.role != Role::kTrainer) return {};
  Pulse pulse{header->sender, header->incarnation, header->sequence, (header->flags & kLast) != 0};
  if (is_pserver) pulse.answers = std::exchange(pulse.life, header->server_generation);
  return pulse;
}

bool is_proven(ByteSpan bytes, const Secret& key) {
  const auto header = decode(bytes);
  if (!header) return false;
  return equal_constant_time(proof_of(*header, key), bytes.subspan(kFrameHeaderBytes));
}

}  // namespace paddle::heartbeat

#include "engine/net/heartbeat_watch.h"

#include <linux/filter.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"

namespace paddle::heartbeat {
namespace {

constexpr std::uint8_t kHeartbeat = 8;  // the frame's type
constexpr std::uint16_t kLast = 1;      // its flag

FrameHeader header_of(const Heartbeat& heartbeat, std::uint64_t job_tag) {
  FrameHeader header;
  header.type = kHeartbeat;
  header.flags = heartbeat.is_last ? kLast : 0;
  header.job_tag = job_tag;
  header.sender = heartbeat.from;
  if (heartbeat.from.role == Role::kPserver) {
    header.server_generation = heartbeat.incarnation;
    header.incarnation = static_cast<std::uint32_t>(heartbeat.answers);
  } else {
    header.incarnation = static_cast<std::uint32_t>(heartbeat.incarnation);
  }
  header.sequence = heartbeat.sequence;
  return header;
}

Proof proof_of(const FrameHeader& header, const Secret& key) {
  return hmac_sha256(key.reveal(), {encode_header(header, {}, ByteSpan())});
}

std::optional<FrameHeader> decode(ByteSpan bytes) {
  if (bytes.size() != sizeof(Datagram)) return {};
  const auto decoded = decode_header(bytes.first<kFrameHeaderBytes>(), kProofBytes);
  if (!decoded || decoded->head_bytes != 0 || decoded->tail_bytes != kProofBytes) return {};
  return decoded->header;
}

}  // namespace

HeartbeatNews HeartbeatWatch::on_heartbeat(TimePoint now, const Heartbeat& heartbeat) {
  const auto [found, is_first] = peers_.try_emplace(pack(heartbeat.from));
  Peer& peer = found->second;
  if (heartbeat.incarnation < peer.incarnation) return HeartbeatNews::kDropped;
  if (heartbeat.incarnation == peer.incarnation && heartbeat.sequence <= peer.sequence)
    return HeartbeatNews::kDropped;
  const bool is_restarted = !is_first && heartbeat.incarnation > peer.incarnation;
  const bool was_dead = peer.is_dead;
  peer = {heartbeat.incarnation, heartbeat.sequence, now, heartbeat.is_last, false};
  if (is_restarted) return HeartbeatNews::kRestarted;
  return was_dead ? HeartbeatNews::kAgain : HeartbeatNews::kAlive;
}

std::vector<Silence> HeartbeatWatch::on_tick(TimePoint now) {
  const bool was_stopped = now - looked_ > kOwnGap;
  looked_ = now;
  std::vector<Silence> dead;
  for (auto& [id, peer] : peers_) {
    if (was_stopped) peer.received = std::max(peer.received, now - kPeriod);
    if (peer.has_left || peer.is_dead || now - peer.received < kDeadAfter) continue;
    peer.is_dead = true;
    dead.push_back({unpack(id), peer.incarnation, now - peer.received});
  }
  return dead;
}

std::vector<Silence> HeartbeatWatch::silences(TimePoint now) const {
  std::vector<Silence> silent;
  for (const auto& [id, peer] : peers_) {
    if (peer.has_left || now - peer.received < kSilentAfter) continue;
    silent.push_back({unpack(id), peer.incarnation, now - peer.received});
  }
  return silent;
}

Secret direction_key(const Secret& pair, NodeId from) {
  const std::uint32_t sender = pack(from);
  return derive_secret(pair, "paddlectl heartbeat 1", bytes_of(std::span(&sender, 1)));
}

Datagram encode(const Heartbeat& heartbeat, std::uint64_t job_tag, const Secret& key) {
  const FrameHeader header = header_of(heartbeat, job_tag);
  const Proof proof = proof_of(header, key);
  const FrameHeaderBytes bytes = encode_header(header, {}, ByteSpan(proof));
  Datagram datagram;
  std::ranges::copy(bytes, datagram.begin());
  std::ranges::copy(proof, datagram.begin() + kFrameHeaderBytes);
  return datagram;
}

std::optional<Heartbeat> read_claim(ByteSpan bytes, std::uint64_t job_tag) {
  const auto header = decode(bytes);
  if (!header || header->type != kHeartbeat || header->job_tag != job_tag) return {};
  const bool is_pserver = header->sender.role == Role::kPserver;
  if (!is_pserver && header->sender.role != Role::kTrainer) return {};
  Heartbeat heartbeat{header->sender, header->incarnation, header->sequence,
                      (header->flags & kLast) != 0};
  if (is_pserver)
    heartbeat.answers = std::exchange(heartbeat.incarnation, header->server_generation);
  return heartbeat;
}

void drop_foreign_datagrams(int socket, std::uint64_t job_tag) {
  constexpr std::uint32_t kUdpHeaderBytes = 8;  // the filter sees this header too
  constexpr std::uint32_t kTagAt = kUdpHeaderBytes + kJobTagAt;
  std::array<std::uint8_t, sizeof job_tag> tag{};
  store_le(reinterpret_cast<std::byte*>(tag.data()), job_tag);
  const auto word = [&tag](std::size_t at) {  // big-endian, as a filter loads it
    return std::uint32_t{tag[at]} << 24U | std::uint32_t{tag[at + 1]} << 16U |
           std::uint32_t{tag[at + 2]} << 8U | tag[at + 3];
  };
  std::array<sock_filter, 8> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kUdpHeaderBytes + sizeof(Datagram), 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kTagAt),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word(0), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kTagAt + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word(4), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, ~0U),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

bool is_proven(ByteSpan bytes, const Secret& key) {
  const auto header = decode(bytes);
  if (!header) return false;
  return equal_constant_time(proof_of(*header, key), bytes.subspan(kFrameHeaderBytes));
}

}  // namespace paddle::heartbeat

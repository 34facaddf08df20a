// A pulse as the bytes of a datagram: a frame's header and a proof of the pair's key (PROTOCOL.md,
// "Heartbeats").
#pragma once

#include <array>
#include <optional>

#include "engine/heartbeat/pulses.h"
#include "proto/job_keys.h"

namespace paddle::heartbeat {

constexpr std::size_t kProofBytes = 32;
constexpr std::size_t kJobTagAt = 16;  // in a frame's header
using Datagram = std::array<std::byte, kFrameHeaderBytes + kProofBytes>;

// The key of one direction between a client and a server.
Secret direction_key(const Secret& pair, NodeId from);

Datagram encode(const Pulse& pulse, std::uint64_t job_tag, const Secret& key);
// The claim of a datagram of this job; nothing: it is none.
std::optional<Pulse> read_claim(ByteSpan bytes, std::uint64_t job_tag);
bool is_proven(ByteSpan bytes, const Secret& key);

// Lets the kernel drop what has another length or job than a datagram of this job, before it takes
// a place in the socket's buffer: a flood from somebody who does not know the job's number then
// hides no pulse. Where the kernel cannot, read_claim() does the same later.
void drop_foreign_datagrams(int socket, std::uint64_t job_tag);

}  // namespace paddle::heartbeat

// The frame codec of engine ports and of the agent's channel. PROTOCOL.md specifies the bytes.
#pragma once

#include <array>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle {

constexpr std::uint32_t kFrameMagic = 0x314c4450;  // "PDL1"
constexpr std::uint8_t kFrameVersion = 1;
constexpr std::size_t kFrameHeaderBytes = 64;
constexpr std::size_t kFrameHeadBytesMax = 65535;          // the protobuf part
constexpr std::size_t kFramePayloadBytesMax = 64U << 20U;  // protobuf + tensor tail

enum class Role : std::uint8_t {
  kNone = 0,
  kTrainer = 1,
  kPserver = 2,
  kController = 3,
  kAgent = 4,
  kReader = 5  // reads rows, and takes no part in the job
};

// Types of frames on the engine's ports. Below 16: sessions (engine/net). From 16: a trainer's lane
// to a shard (wire.proto). From 48: between trainers. 19 and 41 had rows column by column.
enum class FrameType : std::uint8_t {
  // Requests, trainer to shard.
  kJoin = 16,
  kLoadBegin = 17,
  kPutDense = 18,
  kReady = 20,
  kPullDense = 21,
  kPullRows = 22,
  kPushDense = 23,
  kPushRows = 24,
  kFinishPass = 25,
  kExportRows = 26,
  kLeave = 27,
  kBusy = 28,
  kAbandon = 29,
  kGoBack = 30,
  kPutRows = 31,
  // Replies, shard to trainer.
  kRefused = 32,
  kWaiting = 33,
  kDone = 34,
  kPosition = 35,
  kDenseValues = 36,
  kRowValues = 37,
  kStored = 38,
  kPushed = 39,
  kPassFinished = 40,
  kExportedRows = 42,
  // Between a reader and a shard; a reader also sends kPullRows.
  kDescribe = 43,
  kShardDescription = 44,
  // Between the ranks of a group (collective.proto).
  kMember = 48,
  kStep = 49,
  kSegment = 50,
  kRankState = 51,
  kAbort = 52,
  kLeaveGroup = 53,
};

// Sender of a frame: role and 24-bit index within the role.
struct NodeId {
  Role role = Role::kNone;
  std::uint32_t index = 0;
  friend bool operator==(const NodeId&, const NodeId&) = default;
};
// Role in the top 8 bits, index in the low 24.
std::uint32_t pack(NodeId node);
NodeId unpack(std::uint32_t packed);

struct FrameHeader {
  std::uint8_t type = 0;  // engine ports: FrameType; agents: AgentKind of agent.proto
  std::uint16_t flags = 0;
  std::uint64_t job_tag = 0;  // first 8 bytes of the job id
  NodeId sender;
  std::uint32_t incarnation = 0;
  std::uint64_t server_generation = 0;  // higher after each start and each rollback
  std::uint64_t sequence = 0;
  std::uint64_t step = 0;
  std::uint16_t lane = 0;
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

// head is a serialised protobuf; tail is raw tensor data.
struct Frame {
  FrameHeader header;
  std::string head;
  Bytes tail;
};

// A header whose magic, version, CRC and lengths are checked: its payload may be allocated.
struct DecodedHeader {
  FrameHeader header;
  std::uint32_t head_bytes = 0;
  std::uint32_t tail_bytes = 0;
  std::uint32_t payload_crc = 0;
};

using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

// The header for a frame whose payload is head followed by the pieces of its tail.
FrameHeaderBytes encode_header(const FrameHeader& header, ByteSpan head,
                               std::span<const ByteSpan> tail);
inline FrameHeaderBytes encode_header(const FrameHeader& header, ByteSpan head, ByteSpan tail) {
  return encode_header(header, head, std::span(&tail, 1));
}
inline FrameHeaderBytes encode_header(const Frame& frame) {
  return encode_header(frame.header, as_bytes(frame.head), frame.tail);
}
// The header for a payload whose checksum is known, or is 0 because the receiver does not check it.
FrameHeaderBytes encode_header(const FrameHeader& header, std::size_t head_bytes,
                               std::size_t tail_bytes, std::uint32_t payload_crc);
// kData: bad magic, version, CRC or length over payload_bytes_max. kVersion: another protocol
// version.
Result<DecodedHeader> decode_header(std::span<const std::byte, kFrameHeaderBytes> from,
                                    std::size_t payload_bytes_max = kFramePayloadBytesMax);
// kData if the payload's CRC32C differs from the header's.
Status check_payload(const DecodedHeader& header, ByteSpan head, ByteSpan tail);

}  // namespace paddle

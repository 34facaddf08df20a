#include "proto/frame.h"

#include <fmt/format.h>

#include "base/crc32c.h"

namespace paddle {
namespace {

// Byte offsets of the header's fields (PROTOCOL.md).
enum Offset : std::size_t {
  kMagicAt = 0,
  kVersionAt = 4,
  kTypeAt = 5,
  kFlagsAt = 6,
  kPayloadBytesAt = 8,
  kHeaderCrcAt = 12,
  kJobTagAt = 16,
  kSenderAt = 24,
  kIncarnationAt = 28,
  kServerGenerationAt = 32,
  kSequenceAt = 40,
  kStepAt = 48,
  kLaneAt = 56,
  kHeadBytesAt = 58,
  kPayloadCrcAt = 60,
};

constexpr std::uint32_t kNodeIndexMask = 0x00ffffff;

std::uint32_t header_crc(FrameHeaderBytes bytes) {
  store_le<std::uint32_t>(bytes.data() + kHeaderCrcAt, 0);
  return crc32c(bytes);
}

}  // namespace

std::uint32_t pack(NodeId node) {
  return (static_cast<std::uint32_t>(node.role) << 24U) | (node.index & kNodeIndexMask);
}

NodeId unpack(std::uint32_t packed) {
  return {static_cast<Role>(packed >> 24U), packed & kNodeIndexMask};
}

FrameHeaderBytes encode_header(const FrameHeader& header, ByteSpan head,
                               std::span<const ByteSpan> tail) {
  std::size_t tail_bytes = 0;
  std::uint32_t payload_crc = crc32c(head);
  for (const ByteSpan piece : tail) {
    tail_bytes += piece.size();
    payload_crc = crc32c(piece, payload_crc);
  }
  return encode_header(header, head.size(), tail_bytes, payload_crc);
}

FrameHeaderBytes encode_header(const FrameHeader& header, std::size_t head_bytes,
                               std::size_t tail_bytes, std::uint32_t payload_crc) {
  PADDLE_CHECK(head_bytes <= kFrameHeadBytesMax);
  const std::size_t payload_bytes = head_bytes + tail_bytes;
  PADDLE_CHECK(payload_bytes <= kFramePayloadBytesMax);
  FrameHeaderBytes bytes{};
  std::byte* const at = bytes.data();
  store_le<std::uint32_t>(at + kMagicAt, kFrameMagic);
  store_le<std::uint8_t>(at + kVersionAt, kFrameVersion);
  store_le<std::uint8_t>(at + kTypeAt, header.type);
  store_le<std::uint16_t>(at + kFlagsAt, header.flags);
  store_le<std::uint32_t>(at + kPayloadBytesAt, static_cast<std::uint32_t>(payload_bytes));
  store_le<std::uint64_t>(at + kJobTagAt, header.job_tag);
  store_le<std::uint32_t>(at + kSenderAt, pack(header.sender));
  store_le<std::uint32_t>(at + kIncarnationAt, header.incarnation);
  store_le<std::uint64_t>(at + kServerGenerationAt, header.server_generation);
  store_le<std::uint64_t>(at + kSequenceAt, header.sequence);
  store_le<std::uint64_t>(at + kStepAt, header.step);
  store_le<std::uint16_t>(at + kLaneAt, header.lane);
  store_le<std::uint16_t>(at + kHeadBytesAt, static_cast<std::uint16_t>(head_bytes));
  store_le<std::uint32_t>(at + kPayloadCrcAt, payload_crc);
  store_le<std::uint32_t>(at + kHeaderCrcAt, header_crc(bytes));
  return bytes;
}

Result<DecodedHeader> decode_header(std::span<const std::byte, kFrameHeaderBytes> from,
                                    std::size_t payload_bytes_max) {
  const std::byte* const at = from.data();
  if (const auto magic = load_le<std::uint32_t>(at + kMagicAt); magic != kFrameMagic) {
    return Error{Errc::kData, fmt::format("not a paddle frame (magic {:08x})", magic)};
  }
  FrameHeaderBytes bytes;
  std::copy(from.begin(), from.end(), bytes.begin());
  if (header_crc(bytes) != load_le<std::uint32_t>(at + kHeaderCrcAt)) {
    return Error{Errc::kData, "frame header is corrupt (CRC32C differs)"};
  }
  if (const auto version = load_le<std::uint8_t>(at + kVersionAt); version != kFrameVersion) {
    return Error{Errc::kVersion,
                 fmt::format("peer speaks protocol {}, this program {}", version, kFrameVersion),
                 "use the same paddlectl release on both sides"};
  }
  const auto payload_bytes = load_le<std::uint32_t>(at + kPayloadBytesAt);
  const auto head_bytes = load_le<std::uint16_t>(at + kHeadBytesAt);
  // INVARIANT: a length is checked before memory is allocated.
  if (payload_bytes > payload_bytes_max || head_bytes > payload_bytes) {
    return Error{Errc::kData, fmt::format("frame of {} bytes (head {}), the limit is {}",
                                          payload_bytes, head_bytes, payload_bytes_max)};
  }
  DecodedHeader decoded;
  decoded.head_bytes = head_bytes;
  decoded.tail_bytes = payload_bytes - head_bytes;
  decoded.payload_crc = load_le<std::uint32_t>(at + kPayloadCrcAt);
  decoded.header = FrameHeader{
      .type = load_le<std::uint8_t>(at + kTypeAt),
      .flags = load_le<std::uint16_t>(at + kFlagsAt),
      .job_tag = load_le<std::uint64_t>(at + kJobTagAt),
      .sender = unpack(load_le<std::uint32_t>(at + kSenderAt)),
      .incarnation = load_le<std::uint32_t>(at + kIncarnationAt),
      .server_generation = load_le<std::uint64_t>(at + kServerGenerationAt),
      .sequence = load_le<std::uint64_t>(at + kSequenceAt),
      .step = load_le<std::uint64_t>(at + kStepAt),
      .lane = load_le<std::uint16_t>(at + kLaneAt),
  };
  return decoded;
}

Status check_payload(const DecodedHeader& header, ByteSpan head, ByteSpan tail) {
  if (crc32c(tail, crc32c(head)) == header.payload_crc) return {};
  return Error{Errc::kData, "frame payload is corrupt (CRC32C differs)"};
}

}  // namespace paddle

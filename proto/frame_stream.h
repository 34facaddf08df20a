// Whole frames over a non-blocking stream descriptor, for programs that wait for one peer at a
// time.
#pragma once

#include "base/fd.h"
#include "proto/frame.h"

namespace paddle {

// Time from a frame's first byte to its last, however slow the link.
constexpr Duration kFrameDeadline = std::chrono::seconds(120);

// Agent channel: more replies to the same request follow.
constexpr std::uint16_t kAgentFlagMore = 1;
constexpr std::size_t kAgentPayloadBytesMax = 2U << 20U;
constexpr std::size_t kAgentChunkBytes = 256U << 10U;
constexpr std::size_t kAgentBatchBytes =
    32U << 10U;  // repeated entries are cut into heads of about this size

Status set_nonblocking(int fd);
Status write_frame(int fd, const FrameHeader& header, ByteSpan head, ByteSpan tail,
                   TimePoint deadline);
// Waits for the first byte until `deadline`. kUnreachable "closed by peer" at the end of the
// stream; kData for a corrupt frame or one over payload_bytes_max, after which the stream is
// unusable.
Result<Frame> read_frame(int fd, std::size_t payload_bytes_max, TimePoint deadline);

}  // namespace paddle

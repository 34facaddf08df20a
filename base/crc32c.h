// CRC32C (Castagnoli, RFC 3720 appendix B.4): guards frames and snapshot blocks.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace paddle {

// crc32c(b, crc32c(a)) == crc32c(a followed by b).
std::uint32_t crc32c(ByteSpan data, std::uint32_t previous = 0);

}  // namespace paddle

// Content-defined chunking, so that an insertion does not move later cuts: a gear hash over the
// last 64 bytes, with the two masks and the skipped minimum of FastCDC (Xia et al., USENIX ATC
// 2016, 3.4-3.5). Chunks have 32 KiB to 512 KiB, 128 KiB on average.
#pragma once

#include "proto/content.h"

namespace paddle::remote {

// Length of the first chunk of `data`. REQUIRES: `data` has kChunkBytesMax bytes, or is the rest of
// the file.
std::size_t chunk_length(ByteSpan data);

// Reads file_bytes from the start of the file. kData when it is shorter.
Result<std::vector<Chunk>> chunk_file(int fd, std::uint64_t file_bytes);

}  // namespace paddle::remote

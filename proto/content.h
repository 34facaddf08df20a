// Identity of a pushed file. A file of up to kWholeFileBytesMax is one blob, and its identity is
// the SHA-256 of its bytes. A longer file is split into chunks. Its chunk list contains for each
// chunk the SHA-256 (32 bytes) and the size (u32, little-endian); its identity is the SHA-256 of
// "paddlectl chunks 1\n", the file's size (u64) and that list.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/sha256.h"

namespace paddle {

constexpr std::size_t kWholeFileBytesMax = 256U << 10U;
constexpr std::size_t kChunkBytesMin = 32U << 10U;  // except a file's last chunk
constexpr std::size_t kChunkBytesMax = 512U << 10U;
constexpr std::size_t kChunkEntryBytes = 36;
constexpr std::uint64_t kPushFileBytesMax = 256ULL << 30U;  // its list of chunks is kept in memory

struct Chunk {
  Sha256Digest hash{};
  std::uint32_t size = 0;
};

inline bool is_chunked(std::uint64_t file_bytes) {
  return file_bytes > kWholeFileBytesMax;
}

Bytes encode_chunks(std::span<const Chunk> chunks);
// kData unless every chunk size is within its bounds and their sum is file_bytes.
Result<std::vector<Chunk>> decode_chunks(ByteSpan list, std::uint64_t file_bytes);
Sha256Digest chunked_id(ByteSpan list, std::uint64_t file_bytes);

// Compresses with zstd; nullopt if that saves less than a tenth.
std::optional<Bytes> compress(ByteSpan raw);
// kData unless `packed` is one zstd frame of exactly raw_bytes.
Result<Bytes> decompress(ByteSpan packed, std::size_t raw_bytes);

}  // namespace paddle

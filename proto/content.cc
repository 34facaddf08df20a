#include "proto/content.h"

#include <zstd.h>

#include <algorithm>

namespace paddle {
namespace {

constexpr int kLevel = 1;
// The first 64 KiB decide whether the rest is compressed.
constexpr std::size_t kSampleBytes = 64U << 10U;

bool saves_enough(std::size_t packed, std::size_t raw) {
  return packed < raw - raw / 10;
}

}  // namespace

Bytes encode_chunks(std::span<const Chunk> chunks) {
  Bytes list(chunks.size() * kChunkEntryBytes);
  std::byte* to = list.data();
  for (const Chunk& chunk : chunks) {
    to = std::copy(chunk.hash.begin(), chunk.hash.end(), to);
    store_le(to, chunk.size);
    to += sizeof chunk.size;
  }
  return list;
}

Result<std::vector<Chunk>> decode_chunks(ByteSpan list, std::uint64_t file_bytes) {
  const Error malformed{Errc::kData, "the list of a file's chunks is malformed"};
  if (list.size() % kChunkEntryBytes != 0 ||
      list.size() / kChunkEntryBytes > file_bytes / kChunkBytesMin + 1) {
    return malformed;
  }
  std::vector<Chunk> chunks(list.size() / kChunkEntryBytes);
  std::uint64_t sum = 0;
  const std::byte* from = list.data();
  for (Chunk& chunk : chunks) {
    std::copy(from, from + chunk.hash.size(), chunk.hash.begin());
    chunk.size = load_le<std::uint32_t>(from + chunk.hash.size());
    from += kChunkEntryBytes;
    if (chunk.size == 0 || chunk.size > kChunkBytesMax) return malformed;
    sum += chunk.size;
  }
  if (sum != file_bytes) return malformed;
  return chunks;
}

Sha256Digest chunked_id(ByteSpan list, std::uint64_t file_bytes) {
  Sha256 sha;
  sha.update(as_bytes("paddlectl chunks 1\n"));
  std::byte size[sizeof file_bytes];
  store_le(size, file_bytes);
  sha.update(size);
  sha.update(list);
  return sha.finish();
}

std::optional<Bytes> compress(ByteSpan raw) {
  Bytes packed(::ZSTD_compressBound(std::min(raw.size(), kSampleBytes)));
  const auto pack = [&](ByteSpan from) {
    const std::size_t size =
        ::ZSTD_compress(packed.data(), packed.size(), from.data(), from.size(), kLevel);
    return ::ZSTD_isError(size) == 0 && saves_enough(size, from.size()) ? size : 0;
  };
  std::size_t size = pack(raw.first(std::min(raw.size(), kSampleBytes)));
  if (size != 0 && raw.size() > kSampleBytes) {
    packed.resize(::ZSTD_compressBound(raw.size()));
    size = pack(raw);
  }
  if (size == 0) return std::nullopt;
  packed.resize(size);
  return packed;
}

Result<Bytes> decompress(ByteSpan packed, std::size_t raw_bytes) {
  Bytes raw(raw_bytes);
  const std::size_t size = ::ZSTD_decompress(raw.data(), raw.size(), packed.data(), packed.size());
  if (::ZSTD_isError(size) == 0 && size == raw_bytes) return raw;
  return Error{Errc::kData, "compressed data is damaged"};
}

}  // namespace paddle

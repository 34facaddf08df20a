#include "remote/client/chunker.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <memory>

#include "base/fd.h"
#include "base/holes.h"
#include "base/rng.h"

namespace paddle::remote {
namespace {

constexpr std::size_t kChunkBytesNormal = 96U << 10U;  // from here on kEasyMask applies
constexpr std::uint64_t kStrictMask = ~0ULL << 46U;    // 18 bits: one cut in 256 KiB
constexpr std::uint64_t kEasyMask = ~0ULL << 49U;      // 15 bits: one in 32 KiB
constexpr std::size_t kReadBytes = 8U << 20U;

constexpr std::array<std::uint64_t, 256> make_gear() {
  std::array<std::uint64_t, 256> gear{};
  std::uint64_t state = 0x7061646c65ULL;  // any seed works: only one end cuts a file
  for (std::uint64_t& value : gear) {     // splitmix64
    value = mix64(state);
    state += 0x9e3779b97f4a7c15ULL;
  }
  return gear;
}

constexpr std::array<std::uint64_t, 256> kGear = make_gear();

// The first position after which the hash of the bytes from `at` on has none of the mask's bits, or
// `end`.
std::size_t find_cut(ByteSpan data, std::size_t at, std::size_t end, std::uint64_t mask,
                     std::uint64_t& hash) {
  for (; at < end; ++at) {
    hash = (hash << 1U) + kGear[std::to_integer<std::size_t>(data[at])];
    if ((hash & mask) == 0) return at + 1;
  }
  return end;
}

struct Part {
  Bytes bytes;
  std::vector<Chunk> chunks;
};

std::vector<Chunk> hash_chunks(const std::shared_ptr<Part>& part) {
  std::size_t begin = 0;
  for (Chunk& chunk : part->chunks) {
    chunk.hash = sha256_of(ByteSpan(part->bytes).subspan(begin, chunk.size));
    begin += chunk.size;
  }
  return std::move(part->chunks);
}

// The first chunk of an endless sequence of zeros.
const Chunk& zero_chunk() {
  static const Chunk kChunk = [] {
    const Bytes zeros(kChunkBytesMax, std::byte{0});
    const std::size_t size = chunk_length(zeros);
    return Chunk{sha256_of(ByteSpan(zeros).first(size)), static_cast<std::uint32_t>(size)};
  }();
  return kChunk;
}

}  // namespace

std::size_t chunk_length(ByteSpan data) {
  const std::size_t end = std::min(data.size(), kChunkBytesMax);
  if (end <= kChunkBytesMin) return end;
  const std::size_t normal = std::min(end, kChunkBytesNormal);
  std::uint64_t hash = 0;
  const std::size_t cut = find_cut(data, kChunkBytesMin, normal, kStrictMask, hash);
  if (cut < normal) return cut;
  return find_cut(data, normal, end, kEasyMask, hash);
}

Result<std::vector<Chunk>> chunk_file(int fd, std::uint64_t file_bytes) {
  std::vector<Chunk> chunks;
  std::future<std::vector<Chunk>> hashing;  // the previous part's, on another core
  const auto collect = [&] {
    if (!hashing.valid()) return;
    const std::vector<Chunk> done = hashing.get();
    chunks.insert(chunks.end(), done.begin(), done.end());
  };
  Bytes rest;
  for (std::uint64_t left = file_bytes; left > 0 || !rest.empty();) {
    // The chunks of a hole are all alike, and need not be read.
    const std::uint64_t at = file_bytes - left - rest.size();
    const std::uint64_t zeros = next_data(fd, at, file_bytes).begin - at;
    if (zeros >= zero_chunk().size) {
      collect();
      chunks.insert(chunks.end(), zeros / zero_chunk().size, zero_chunk());
      rest.clear();
      left = file_bytes - at - zeros / zero_chunk().size * zero_chunk().size;
    }
    if (::lseek(fd, static_cast<off_t>(file_bytes - left), SEEK_SET) < 0)
      return system_error(Errc::kData, "read");
    if (left == 0 && rest.empty()) break;
    auto part = std::make_shared<Part>();
    part->bytes = std::move(rest);
    const std::size_t kept = part->bytes.size();
    const std::size_t more = std::min<std::uint64_t>(left, kReadBytes);
    part->bytes.resize(kept + more);
    PADDLE_TRY_STATUS(read_exact(fd, std::span(part->bytes).subspan(kept), TimePoint::max()));
    left -= more;
    std::size_t begin = 0;
    const ByteSpan all(part->bytes);
    while (begin < all.size() && (left == 0 || all.size() - begin >= kChunkBytesMax)) {
      const std::size_t size = chunk_length(all.subspan(begin));
      part->chunks.push_back({{}, static_cast<std::uint32_t>(size)});
      begin += size;
    }
    rest.assign(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end());
    collect();
    hashing = std::async(std::launch::async, [part] { return hash_chunks(part); });
  }
  collect();
  return chunks;
}

}  // namespace paddle::remote

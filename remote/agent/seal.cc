#include "remote/agent/seal.h"

#include <algorithm>
#include <cstring>

#include "engine/base/multiversion.h"
#include "engine/base/secret.h"

namespace paddle::agent {
namespace {

constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kLanes = 16;  // blocks at once
constexpr std::size_t kStreamBytes = kBlockBytes * kLanes;
constexpr std::size_t kStateWords = 16;
constexpr std::size_t kMacBytes = 16;  // of a step of Poly1305

typedef std::uint32_t Lanes __attribute__((vector_size(4 * kLanes)));
using State = std::array<std::uint32_t, kStateWords>;
using Wide = unsigned __int128;

State initial_state(const SealKey& key, const SealNonce& nonce) {
  State state = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};  // "expand 32-byte k"
  std::memcpy(&state[4], key.data(), key.size());
  std::memcpy(&state[13], nonce.data(), nonce.size());
  return state;
}

// The blocks of counter, counter + 1 ... one after the other: a lane is a block.
PADDLE_MULTIVERSION
void make_stream(const State& state, std::uint32_t counter, std::byte* to) {
  Lanes begin[kStateWords];
  for (std::size_t i = 0; i < kStateWords; ++i) begin[i] = Lanes{} + state[i];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) begin[12][lane] = counter + lane;
  Lanes x[kStateWords];
  std::memcpy(x, begin, sizeof x);
  constexpr std::uint8_t kQuarters[8][4] = {{0, 4, 8, 12},  {1, 5, 9, 13},  {2, 6, 10, 14},
                                            {3, 7, 11, 15}, {0, 5, 10, 15}, {1, 6, 11, 12},
                                            {2, 7, 8, 13},  {3, 4, 9, 14}};
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 8
    for (std::size_t q = 0; q < 8; ++q) {
      Lanes& a = x[kQuarters[q][0]];
      Lanes& b = x[kQuarters[q][1]];
      Lanes& c = x[kQuarters[q][2]];
      Lanes& d = x[kQuarters[q][3]];
      a += b;
      d ^= a;
      d = (d << 16) | (d >> 16);
      c += d;
      b ^= c;
      b = (b << 12) | (b >> 20);
      a += b;
      d ^= a;
      d = (d << 8) | (d >> 24);
      c += d;
      b ^= c;
      b = (b << 7) | (b >> 25);
    }
  }
  std::uint32_t words[kStateWords][kLanes];
  for (std::size_t i = 0; i < kStateWords; ++i) {
    x[i] += begin[i];
    std::memcpy(words[i], &x[i], sizeof x[i]);
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::uint32_t block[kStateWords];
    for (std::size_t i = 0; i < kStateWords; ++i) block[i] = words[i][lane];
    std::memcpy(to + lane * kBlockBytes, block, kBlockBytes);
  }
}

// One block is kept for the tag's key, so the text begins in the stream's second.
void apply_stream(const State& state, std::span<std::byte> bytes) {
  std::byte stream[kStreamBytes];
  std::uint32_t counter = 1;
  while (!bytes.empty()) {
    make_stream(state, counter, stream);
    const std::size_t size = std::min(bytes.size(), kStreamBytes);
    for (std::size_t i = 0; i < size; ++i) bytes[i] ^= stream[i];
    bytes = bytes.subspan(size);
    counter += kLanes;
  }
}

// Sums of 16-byte numbers, times r each, modulo 2^130 - 5: RFC 8439, 2.5. Three limbs of 64 bits;
// the clamping makes r1 a multiple of 4, so that r1 * 2^128 is r1 / 4 * 5.
class Poly1305 {
 public:
  explicit Poly1305(ByteSpan key)
      : r0_(load_le<std::uint64_t>(key.data()) & 0x0ffffffc0fffffffULL),
        r1_(load_le<std::uint64_t>(key.data() + 8) & 0x0ffffffc0ffffffcULL),
        s0_(load_le<std::uint64_t>(key.data() + 16)),
        s1_(load_le<std::uint64_t>(key.data() + 24)) {}

  // Zeros fill what is short of a multiple of 16.
  void add(ByteSpan bytes) {
    for (; bytes.size() >= kMacBytes; bytes = bytes.subspan(kMacBytes)) step(bytes.data());
    if (bytes.empty()) return;
    std::byte last[kMacBytes] = {};
    std::memcpy(last, bytes.data(), bytes.size());
    step(last);
  }

  SealTag finish() const {
    // h or h + 5 - 2^130, whichever is the remainder.
    Wide sum = Wide{h0_} + 5;
    const auto g0 = static_cast<std::uint64_t>(sum);
    sum = Wide{h1_} + static_cast<std::uint64_t>(sum >> 64U);
    const auto g1 = static_cast<std::uint64_t>(sum);
    const std::uint64_t g2 = h2_ + static_cast<std::uint64_t>(sum >> 64U);
    const std::uint64_t over = 0 - (g2 >> 2U & 1U);
    sum = Wide{(h0_ & ~over) | (g0 & over)} + s0_;
    SealTag tag;
    store_le(tag.data(), static_cast<std::uint64_t>(sum));
    sum = Wide{(h1_ & ~over) | (g1 & over)} + s1_ + static_cast<std::uint64_t>(sum >> 64U);
    store_le(tag.data() + 8, static_cast<std::uint64_t>(sum));
    return tag;
  }

 private:
  void step(const std::byte* from) {
    Wide sum = Wide{h0_} + load_le<std::uint64_t>(from);
    const auto h0 = static_cast<std::uint64_t>(sum);
    sum = Wide{h1_} + load_le<std::uint64_t>(from + 8) + static_cast<std::uint64_t>(sum >> 64U);
    const auto h1 = static_cast<std::uint64_t>(sum);
    const std::uint64_t h2 = h2_ + static_cast<std::uint64_t>(sum >> 64U) + 1;
    const std::uint64_t r5 = r1_ + (r1_ >> 2U);
    const Wide d0 = Wide{h0} * r0_ + Wide{h1} * r5;
    const Wide d1 = Wide{h0} * r1_ + Wide{h1} * r0_ + Wide{h2 * r5} + (d0 >> 64U);
    const std::uint64_t d2 = h2 * r0_ + static_cast<std::uint64_t>(d1 >> 64U);
    sum = Wide{static_cast<std::uint64_t>(d0)} + (d2 >> 2U) + (d2 & ~3ULL);
    h0_ = static_cast<std::uint64_t>(sum);
    sum = Wide{static_cast<std::uint64_t>(d1)} + static_cast<std::uint64_t>(sum >> 64U);
    h1_ = static_cast<std::uint64_t>(sum);
    h2_ = (d2 & 3U) + static_cast<std::uint64_t>(sum >> 64U);
  }

  std::uint64_t r0_, r1_, s0_, s1_;
  std::uint64_t h0_ = 0, h1_ = 0, h2_ = 0;
};

SealTag tag_of(const State& state, ByteSpan associated, ByteSpan bytes) {
  std::byte stream[kStreamBytes];
  make_stream(state, 0, stream);
  Poly1305 mac(ByteSpan(stream).first(kSealKeyBytes));
  mac.add(associated);
  mac.add(bytes);
  const std::uint64_t sizes[] = {associated.size(), bytes.size()};
  mac.add(std::as_bytes(std::span(sizes)));
  return mac.finish();
}

}  // namespace

SealTag seal(const SealKey& key, const SealNonce& nonce, ByteSpan associated,
             std::span<std::byte> bytes) {
  const State state = initial_state(key, nonce);
  apply_stream(state, bytes);
  return tag_of(state, associated, bytes);
}

bool unseal(const SealKey& key, const SealNonce& nonce, ByteSpan associated,
            std::span<std::byte> bytes, ByteSpan tag) {
  const State state = initial_state(key, nonce);
  if (!equal_constant_time(tag_of(state, associated, bytes), tag)) return false;
  apply_stream(state, bytes);
  return true;
}

}  // namespace paddle::agent

// Mutated frames through everything that parses bytes of a peer: the reader, the codec, both
// session machines.
#include <algorithm>
#include <array>
#include <cstdlib>

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/rng.h"
#include "engine/net/frame_io.h"
#include "engine/net/session.h"

namespace paddle::net {
namespace {

constexpr std::uint64_t kJob = 0x1122334455667788;
constexpr NodeId kServer{Role::kPserver, 3};
constexpr NodeId kClient{Role::kTrainer, 7};

JobKeys make_keys() {
  return JobKeys::of_job(*Secret::from_bytes(Bytes(kSecretBytes, std::byte{1})));
}

struct Seen {
  std::uint64_t frames = 0;
  std::uint64_t refused = 0;
  std::uint64_t answered = 0;
};

// An attacker without the secret sends `bytes` to a server and to a client. Neither may accept it
// as a peer.
void try_bytes(ByteSpan bytes, Seen& seen) {
  static const JobKeys kKeys = make_keys();
  static const ServerSession kFreshServer({kKeys, kServer, kJob, 9}, Nonce{}, TimePoint{});
  static const ClientSession kFreshClient(
      {*kKeys.pair(kClient, kServer), kClient, 5, kServer, kJob}, Nonce{});
  ServerSession server = kFreshServer;
  ClientSession client = kFreshClient;
  FrameReader reader(kUnprovenBufferBytes, kUnprovenPayloadBytesMax);
  while (!bytes.empty()) {
    const std::span<std::byte> space = reader.space();
    const std::size_t count = std::min(space.size(), bytes.size());
    std::copy_n(bytes.begin(), count, space.begin());
    reader.commit(count);
    bytes = bytes.subspan(count);
    for (;;) {
      auto frame = reader.next();
      if (!frame) {
        ++seen.refused;
        return;
      }
      if (!*frame) break;
      ++seen.frames;
      if ((*frame)->tail.size() > kUnprovenPayloadBytesMax) std::abort();
      if (const auto answer = server.on_frame(TimePoint{}, **frame); answer) ++seen.answered;
      if (const auto answer = client.on_frame(**frame); answer) ++seen.answered;
      if (server.proven() || client.established()) std::abort();
    }
  }
}

void append_frame(Bytes& to, const Frame& frame) {
  const FrameHeaderBytes header = encode_header(frame);
  to.insert(to.end(), header.begin(), header.end());
  append_bytes<char>(to, frame.head);
  to.insert(to.end(), frame.tail.begin(), frame.tail.end());
}

// One to three frames that look like a handshake, then damaged like a bad cable or forged like an
// attacker.
Bytes make_input(Rng& rng) {
  Bytes bytes;
  for (std::uint64_t left = 1 + rng.below(3); left > 0; --left) {
    Frame frame;
    frame.header.type = static_cast<std::uint8_t>(rng.below(4) > 0 ? 1 + rng.below(5) : rng.next());
    frame.header.job_tag = rng.below(8) > 0 ? kJob : rng.next();
    frame.header.sender = rng.below(2) > 0 ? kClient : kServer;
    constexpr std::array<std::size_t, 6> kTails = {0, 1, 31, 32, 64, 256};
    frame.tail.resize(kTails[rng.below(kTails.size())]);
    for (std::byte& byte : frame.tail) byte = static_cast<std::byte>(rng.next());
    if (rng.below(8) == 0) frame.head.assign(rng.below(100), 'h');
    append_frame(bytes, frame);
  }
  for (std::uint64_t left = rng.below(4); left > 0; --left) {
    bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.next());
  }
  if (rng.below(2) == 0) {  // a right CRC over a wrong header
    store_le<std::uint32_t>(bytes.data() + 12, 0);
    const std::uint32_t crc = crc32c(ByteSpan(bytes).first(kFrameHeaderBytes));
    store_le<std::uint32_t>(bytes.data() + 12, crc);
  }
  if (rng.below(8) == 0) bytes.resize(rng.below(bytes.size()));
  return bytes;
}

TEST(FrameFuzz, AMillionMutatedFramesCrashNothingAndProveNothing) {
  constexpr int kInputs = 1'000'000;
  Rng rng(20240601);
  Seen seen;
  for (int i = 0; i < kInputs; ++i) try_bytes(make_input(rng), seen);
  // The inputs reach every layer: some frames pass, some are answered, some are refused.
  EXPECT_GT(seen.frames, 500'000U);
  EXPECT_GT(seen.answered, 50'000U);
  EXPECT_GT(seen.refused, 200'000U);
  RecordProperty("frames", std::to_string(seen.frames));
}

}  // namespace
}  // namespace paddle::net

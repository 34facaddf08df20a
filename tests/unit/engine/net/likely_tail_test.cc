// Tails that are read along with their headers, before it is known which frames they are.
#include <algorithm>
#include <cstring>

#include "base/rng.h"
#include "engine/net/frame_io.h"
#include "tests/unit/engine/net/net_fixture.h"

namespace paddle::net {
namespace {

constexpr std::size_t kTailBytes = 40'000;
constexpr std::size_t kBufferBytes = 256;

Bytes bytes_of(std::span<const Frame> frames) {
  Bytes bytes;
  for (const Frame& frame : frames) {
    append_bytes<std::byte>(bytes, encode_header(frame));
    append_bytes<char>(bytes, frame.head);
    append_bytes<std::byte>(bytes, frame.tail);
  }
  return bytes;
}

// Reads as a socket does, at most `count` bytes of what is left.
void read(FrameReader& reader, std::span<std::byte> likely, ByteSpan& left, std::size_t count) {
  count = std::min(count, left.size());
  std::size_t got = 0;
  for (const std::span<std::byte> part : reader.space(likely)) {
    const std::size_t some = std::min(part.size(), count - got);
    if (some > 0) std::memcpy(part.data(), left.data(), some);
    left = left.subspan(some);
    got += some;
  }
  reader.commit(got);
}

TailPlace place_at(std::span<std::byte> to) {
  return [to](const FrameHeader&, std::string_view, std::size_t bytes) {
    return bytes == to.size() ? std::vector{to} : std::vector<std::span<std::byte>>();
  };
}

TEST(LikelyTail, AFrameThatWasLikelyTakesOneRead) {
  const Frame frames[] = {frame_of(kEchoType, "", kTailBytes), frame_of(kEchoType, "next", 10)};
  const Bytes bytes = bytes_of(frames);
  ByteSpan left = bytes;
  FrameReader reader(kBufferBytes, kFramePayloadBytesMax);
  Bytes to(kTailBytes);
  read(reader, to, left, bytes.size());
  EXPECT_EQ(left.size(), bytes_of(std::span(frames).last(1)).size());
  const auto got = reader.next(place_at(to));
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_TRUE(*got);
  EXPECT_TRUE((*got)->tail.empty());
  EXPECT_TRUE(to == frames[0].tail);
  EXPECT_TRUE(reader.is_idle());
}

TEST(LikelyTail, AShortTailAndTheMiddleOfAFrameHaveOneSpace) {
  FrameReader reader(kBufferBytes, kFramePayloadBytesMax);
  Bytes to(kTailBytes);
  EXPECT_TRUE(reader.space(std::span(to).first(1000)).back().empty());
  const Frame frame = frame_of(kEchoType, "", kTailBytes);
  const Bytes bytes = bytes_of({&frame, 1});
  ByteSpan left = bytes;
  read(reader, to, left, 10);
  EXPECT_TRUE(reader.space(to).back().empty());
  read(reader, to, left, kFrameHeaderBytes);
  ASSERT_TRUE(reader.next(place_at(to)));
  EXPECT_TRUE(reader.space(to).back().empty());
}

// A rank state comes before the likely frame now and then, and long tails are to be read in place
// again.
TEST(LikelyTail, TheBufferIsShortAgainAfterAnotherFrame) {
  const Frame frames[] = {frame_of(kEchoType, "state", 0), frame_of(kEchoType, "", kTailBytes),
                          frame_of(kEchoType, "", kTailBytes)};
  const Bytes bytes = bytes_of(frames);
  ByteSpan left = bytes;
  FrameReader reader(kBufferBytes, kFramePayloadBytesMax);
  Bytes to(kTailBytes);
  for (int got = 0; got < 2;) {
    const auto next = reader.next(place_at(to));
    ASSERT_TRUE(next) << next.error().message;
    if (*next) {
      ++got;
    } else {
      read(reader, to, left, bytes.size());
    }
  }
  EXPECT_EQ(reader.space().size(), kBufferBytes - reader.buffered());
  reader.set_limits(2 * kBufferBytes, kFramePayloadBytesMax);
  EXPECT_EQ(reader.space().size(), 2 * kBufferBytes - reader.buffered());
}

TEST(LikelyTail, ACorruptTailIsRefused) {
  const Frame frame = frame_of(kEchoType, "", kTailBytes);
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, kTailBytes / 2, kTailBytes - 1}) {
    Bytes bytes = bytes_of({&frame, 1});
    bytes[kFrameHeaderBytes + at] ^= std::byte{1};
    ByteSpan left = bytes;
    FrameReader reader(kBufferBytes, kFramePayloadBytesMax);
    Bytes to(kTailBytes);
    read(reader, to, left, bytes.size());
    const auto got = reader.next(place_at(to));
    ASSERT_FALSE(got) << at;
    EXPECT_EQ(got.error().code, Errc::kData);
  }
}

TEST(LikelyTail, LetsGoBeforeItIsKnownWhichFrameItIs) {
  for (const bool is_known : {false, true}) {
    const Frame frame = frame_of(kEchoType, "", kTailBytes);
    const Bytes bytes = bytes_of({&frame, 1});
    ByteSpan left = bytes;
    FrameReader reader(kBufferBytes, kFramePayloadBytesMax);
    Bytes to(kTailBytes);
    read(reader, to, left, 20'000);
    if (is_known) {
      ASSERT_TRUE(reader.peek());
    }
    reader.let_go();
    to.assign(kTailBytes, std::byte{0xee});
    for (auto got = reader.next();; got = reader.next()) {
      ASSERT_TRUE(got) << got.error().message;
      if (*got) {
        EXPECT_TRUE((*got)->tail == frame.tail);
        break;
      }
      ASSERT_FALSE(left.empty());
      read(reader, {}, left, bytes.size());
    }
    EXPECT_EQ(to, Bytes(kTailBytes, std::byte{0xee}));
  }
}

// The memory of one frame's tail, of which the reader may let go.
class Places {
 public:
  Places(Rng& rng, std::span<std::byte> likely) : rng_(rng), likely_(likely) {}

  std::vector<std::span<std::byte>> of(std::size_t bytes) {
    const std::uint64_t way = rng_.below(4);
    if (way == 0 || bytes == 0) return {};
    elsewhere_.resize(bytes);
    const auto all = (way == 1 ? std::span(elsewhere_) : likely_).first(bytes);
    places_ = {all};
    if (way == 3) places_ = {all.first(bytes / 3), all.subspan(bytes / 3)};
    return places_;
  }
  // Whoever owns it uses it for something else.
  void take_back() {
    keep();
    std::ranges::fill(likely_, std::byte{0xee});
    std::ranges::fill(elsewhere_, std::byte{0xee});
  }
  // The whole tail, most of which may have come with the frame.
  Bytes tail_of(const Frame& frame, std::size_t bytes) {
    keep();
    kept_.resize(bytes - frame.tail.size());
    append_bytes<std::byte>(kept_, frame.tail);
    return std::move(kept_);
  }

 private:
  void keep() {
    for (const auto place : std::exchange(places_, {})) append_bytes<std::byte>(kept_, place);
  }

  Rng& rng_;
  std::span<std::byte> likely_;
  Bytes elsewhere_;
  Bytes kept_;
  std::vector<std::span<std::byte>> places_;
};

// With eight bytes of each number.
void fill_tail(Bytes& tail, Rng& rng) {
  for (std::size_t at = 0; at < tail.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t bits = rng.next();
    std::memcpy(tail.data() + at, &bits, std::min(sizeof bits, tail.size() - at));
  }
}

// Frames of all lengths through reads of all lengths: the likely one comes, or another one, or
// parts of several. Its tail goes there, elsewhere or along with the frame.
TEST(LikelyTail, AnotherFrameThanTheLikelyOneIsNotLost) {
  constexpr std::array<std::size_t, 8> kTails = {0, 0, 1, 500, 16'384, 17'000, 30'000, kTailBytes};
  constexpr std::array<std::size_t, 6> kReads = {1, 64, 65, 5'000, 30'000, 1'000'000};
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    std::vector<Frame> sent;
    for (int i = 0; i < 20; ++i) {
      sent.push_back(frame_of(kEchoType, std::string(rng.below(3) == 0 ? rng.below(90) : 0, 'h'),
                              kTails[rng.below(kTails.size())]));
      fill_tail(sent.back().tail, rng);
    }
    const Bytes bytes = bytes_of(sent);
    ByteSpan left = bytes;
    FrameReader reader(kBufferBytes, kFramePayloadBytesMax);
    Bytes likely(kTailBytes);
    for (const Frame& expected : sent) {
      Places places(rng, likely);
      for (;;) {
        const auto got = reader.next([&](const FrameHeader&, std::string_view, std::size_t count) {
          return places.of(count);
        });
        ASSERT_TRUE(got) << seed << ": " << got.error().message;
        if (*got) {
          ASSERT_EQ((*got)->head, expected.head) << seed;
          ASSERT_TRUE(places.tail_of(**got, expected.tail.size()) == expected.tail) << seed;
          break;
        }
        ASSERT_FALSE(left.empty()) << seed;
        const std::size_t guess = kTails[rng.below(kTails.size())];
        read(reader, std::span(likely).first(guess), left, kReads[rng.below(kReads.size())]);
        if (rng.below(4) > 0) continue;
        reader.let_go();
        places.take_back();
      }
    }
    EXPECT_TRUE(reader.is_idle());
  }
}

}  // namespace
}  // namespace paddle::net

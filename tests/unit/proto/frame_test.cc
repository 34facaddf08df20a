#include "proto/frame.h"

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/text.h"

namespace paddle {
namespace {

// Every field has a value of its own, so a swapped or shifted field shows.
Frame sample() {
  Frame frame;
  frame.header = {.type = 16,
                  .flags = 0x0201,
                  .job_tag = 0x1122334455667788,
                  .sender = {Role::kTrainer, 0x030201},
                  .incarnation = 0x0a0b0c0d,
                  .server_generation = 0x0102030405060708,
                  .sequence = 0x1112131415161718,
                  .step = 0x2122232425262728,
                  .lane = 0x3132};
  frame.head = "abc";
  for (int i = 1; i <= 5; ++i) frame.tail.push_back(static_cast<std::byte>(i));
  return frame;
}

TEST(Frame, HeaderHasTheGoldenBytesOfTheProtocol) {
  // Computed independently of this code, from the table in PROTOCOL.md.
  EXPECT_EQ(to_hex(encode_header(sample())),
            "50444c310110010208000000e2d829928877665544332211010203010d0c0b0a"
            "0807060504030201181716151413121128272625242322213231030073c391ec");
}

TEST(Frame, DecodesWhatItEncoded) {
  const Frame frame = sample();
  const auto decoded = decode_header(encode_header(frame));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->header, frame.header);
  EXPECT_EQ(decoded->head_bytes, 3U);
  EXPECT_EQ(decoded->tail_bytes, 5U);
  EXPECT_TRUE(check_payload(*decoded, as_bytes(frame.head), frame.tail));
}

TEST(Frame, EveryFlippedBitOfTheHeaderIsRefused) {
  const FrameHeaderBytes good = encode_header(sample());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    FrameHeaderBytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(decode_header(bad)) << "bit " << bit;
  }
}

TEST(Frame, EveryFlippedBitOfThePayloadIsRefused) {
  Frame frame = sample();
  const auto decoded = decode_header(encode_header(frame));
  ASSERT_TRUE(decoded);
  for (std::size_t bit = 0; bit < frame.tail.size() * 8; ++bit) {
    frame.tail[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(check_payload(*decoded, as_bytes(frame.head), frame.tail)) << "bit " << bit;
    frame.tail[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  frame.head = "abd";
  EXPECT_FALSE(check_payload(*decoded, as_bytes(frame.head), frame.tail));
}

TEST(Frame, RefusesAPayloadOverTheLimitOfTheReader) {
  const FrameHeaderBytes bytes = encode_header(sample());
  EXPECT_TRUE(decode_header(bytes, 8));
  const auto refused = decode_header(bytes, 7);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kData);
  EXPECT_EQ(refused.error().message, "frame of 8 bytes (head 3), the limit is 7");
}

// Stores a field and recomputes the header's CRC, as a hostile peer would and a bad cable would
// not.
template <class T>
FrameHeaderBytes forged(std::size_t at, T value) {
  FrameHeaderBytes bytes = encode_header(sample());
  store_le<T>(bytes.data() + at, value);
  store_le<std::uint32_t>(bytes.data() + 12, 0);
  store_le<std::uint32_t>(bytes.data() + 12, crc32c(bytes));
  return bytes;
}

TEST(Frame, RefusesForgedLengthsBeforeAnythingIsAllocated) {
  EXPECT_TRUE(decode_header(forged<std::uint32_t>(8, kFramePayloadBytesMax)));
  EXPECT_FALSE(decode_header(forged<std::uint32_t>(8, kFramePayloadBytesMax + 1)));
  EXPECT_FALSE(decode_header(forged<std::uint32_t>(8, 0xffffffff)));
  EXPECT_FALSE(decode_header(forged<std::uint16_t>(58, 9)));  // head longer than the payload
}

TEST(Frame, NamesBothVersions) {
  const auto other = decode_header(forged<std::uint8_t>(4, 2));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::kVersion);
  EXPECT_EQ(other.error().message, "peer speaks protocol 2, this program 1");
}

}  // namespace
}  // namespace paddle

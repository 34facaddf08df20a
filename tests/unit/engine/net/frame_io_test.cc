#include "engine/net/frame_io.h"

#include <algorithm>

#include "base/rng.h"
#include "tests/unit/engine/net/net_fixture.h"

namespace paddle::net {
namespace {

// Takes and gives at most `chunk` bytes a call, and nothing on every third one.
class MemoryStream final : public Stream {
 public:
  explicit MemoryStream(std::size_t chunk) : chunk_(chunk) {}

  Result<std::size_t> read_some(std::span<std::byte> into) override {
    if (++calls_ % 3 == 0) return std::size_t{0};
    const std::size_t count = std::min({chunk_, into.size(), bytes_.size() - read_});
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(read_), count, into.begin());
    read_ += count;
    return count;
  }
  Result<std::size_t> write_some(std::span<const ByteSpan> parts) override {
    if (++calls_ % 3 == 0) return std::size_t{0};
    std::size_t left = chunk_;
    for (const ByteSpan part : parts) {
      const std::size_t count = std::min(left, part.size());
      bytes_.insert(bytes_.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
      left -= count;
      if (left == 0) break;
    }
    return chunk_ - left;
  }
  Status wait(Direction, TimePoint) override { return {}; }
  bool drained() const { return read_ == bytes_.size(); }

 private:
  std::size_t chunk_;
  Bytes bytes_;
  std::size_t read_ = 0;
  int calls_ = 0;
};

TEST(FrameIo, Trap16FramesSurviveAnyFragmentation) {
  for (const std::size_t chunk : {1, 7, 63, 64, 65, 1000, 100000}) {
    MemoryStream stream(chunk);
    FrameWriter writer;
    Rng rng(chunk);
    std::vector<Frame> sent;
    std::size_t bytes = 0;
    for (int i = 0; i < 300; ++i) {  // more than one gathered write holds
      sent.push_back(frame_of(kEchoType, std::string(rng.below(40), 'h'), rng.below(400)));
      bytes += kFrameHeaderBytes + sent.back().head.size() + sent.back().tail.size();
      writer.push(Frame(sent.back()));
    }
    EXPECT_EQ(writer.queued_bytes(), bytes);
    for (auto done = writer.flush(stream); !*done; done = writer.flush(stream)) ASSERT_TRUE(done);
    EXPECT_EQ(writer.queued_bytes(), 0U);

    FrameReader reader(256, kFramePayloadBytesMax);  // tails are longer than the buffer
    std::size_t got = 0;
    while (got < sent.size()) {
      auto frame = reader.next();
      ASSERT_TRUE(frame) << frame.error().message;
      if (*frame) {
        ASSERT_EQ((*frame)->head, sent[got].head);
        ASSERT_TRUE((*frame)->tail == sent[got].tail);
        ++got;
        continue;
      }
      ASSERT_FALSE(reader.space().empty());
      reader.commit(*stream.read_some(reader.space()));
    }
    EXPECT_TRUE(stream.drained());
  }
}

TEST(FrameIo, ReadsATailIntoItsPlacesAndWritesOneFromViews) {
  constexpr std::size_t kTail = 100'000;
  const Frame whole = frame_of(kEchoType, "head", kTail);
  for (const std::size_t chunk : {13, 1000, 60'000, 1'000'000}) {
    MemoryStream stream(chunk);
    FrameWriter writer;
    Bytes shown(whole.tail.begin() + 10, whole.tail.end());
    Frame first = whole;
    first.tail.resize(10);
    writer.push(std::move(first), shown);
    writer.push(frame_of(kEchoType, "next", 50));
    auto done = writer.flush(stream);
    writer.keep_views();
    std::fill(shown.begin(), shown.end(), std::byte{0xee});  // the handler goes on
    for (; !*done; done = writer.flush(stream)) ASSERT_TRUE(done);

    FrameReader reader(256, kFramePayloadBytesMax);
    Bytes to(kTail);
    const std::span<std::byte> all(to);
    int asked = 0;
    const TailPlace place = [&](const FrameHeader&, std::string_view head, std::size_t bytes) {
      ++asked;
      std::vector<std::span<std::byte>> places;
      if (head == "head" && bytes == kTail) {
        places = {all.first(5), all.subspan(5, 60'000), {}, all.subspan(60'005)};
      }
      return places;
    };
    std::vector<Frame> got;
    while (got.size() < 2) {
      auto frame = reader.next(place);
      ASSERT_TRUE(frame) << frame.error().message;
      if (*frame) {
        got.push_back(**std::move(frame));
        continue;
      }
      ASSERT_FALSE(reader.space().empty());
      reader.commit(*stream.read_some(reader.space()));
    }
    EXPECT_EQ(asked, 2);
    EXPECT_FALSE(reader.is_placing());
    EXPECT_TRUE(got[0].tail.empty());
    EXPECT_TRUE(to == whole.tail);
    EXPECT_EQ(got[1].head, "next");
    EXPECT_TRUE(got[1].tail == frame_of(kEchoType, "", 50).tail);
  }
}

TEST(FrameIo, RefusesAPlacedTailThatIsCorrupt) {
  const Frame frame = frame_of(kEchoType, "", 40'000);
  const auto header = encode_header(frame);
  FrameReader reader(256, kFramePayloadBytesMax);
  std::copy(header.begin(), header.end(), reader.space().begin());
  reader.commit(header.size());
  Bytes to(frame.tail.size());
  const TailPlace place = [&](const FrameHeader&, std::string_view, std::size_t) {
    return std::vector<std::span<std::byte>>{to};
  };
  ASSERT_TRUE(reader.next(place));
  EXPECT_TRUE(reader.is_placing());
  ASSERT_EQ(reader.space().size(), to.size());
  std::copy(frame.tail.begin(), frame.tail.end(), reader.space().begin());
  reader.space()[39'999] ^= std::byte{1};
  reader.commit(to.size());
  const auto got = reader.next(place);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::kData);
}

// At every byte of a tail in two places.
TEST(FrameIo, LetsGoOfItsPlacesInTheMiddleOfATail) {
  constexpr std::size_t kTail = 300;
  constexpr std::byte kMine{0xee};
  const Frame frame = frame_of(kEchoType, "head", kTail);
  for (std::size_t filled = 0; filled <= kTail; ++filled) {
    MemoryStream stream(100'000);
    FrameWriter writer;
    writer.push(Frame(frame));
    writer.push(frame_of(kEchoType, "next", 50));
    for (auto done = writer.flush(stream); !*done; done = writer.flush(stream)) ASSERT_TRUE(done);
    FrameReader reader(256, kFramePayloadBytesMax);
    auto places = std::make_unique<std::array<Bytes, 2>>();
    *places = {Bytes(120), Bytes(kTail - 120)};
    const auto read = [&](std::size_t at_most) {
      const auto space = reader.space();
      const auto count = *stream.read_some(space.first(std::min(at_most, space.size())));
      reader.commit(count);
      return count;
    };
    std::size_t left = kFrameHeaderBytes + frame.head.size() + filled;
    std::optional<Frame> got;
    while (!got && left > 0) {
      left -= read(left);
      auto next = reader.next([&](const FrameHeader&, std::string_view, std::size_t) {
        return std::vector<std::span<std::byte>>{(*places)[0], (*places)[1]};
      });
      ASSERT_TRUE(next) << next.error().message;
      got = std::move(*next);
    }
    reader.let_go();
    EXPECT_FALSE(reader.is_placing());
    std::ranges::fill((*places)[0], kMine);
    std::ranges::fill((*places)[1], kMine);
    const std::array<Bytes, 2> mine = *places;
    for (bool has_next = false; !has_next;) {
      auto next = reader.next();
      ASSERT_TRUE(next) << next.error().message;
      if (!*next) {
        read(1000);
        continue;
      }
      has_next = (*next)->head == "next";
      EXPECT_EQ((*next)->head, has_next ? "next" : "head");
    }
    EXPECT_EQ(*places, mine);
  }
}

TEST(FrameIo, RefusesAFrameOverTheLimitFromItsHeaderAlone) {
  FrameReader reader(kUnprovenBufferBytes, kUnprovenPayloadBytesMax);
  const auto header = encode_header(frame_of(kEchoType, "", kUnprovenPayloadBytesMax + 1));
  std::copy(header.begin(), header.end(), reader.space().begin());
  reader.commit(header.size());
  const auto refused = reader.next();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kData);
}

TEST(FrameIo, AnUnprovenPeerIsHeldToFourKibibytes) {
  EXPECT_LE(kUnprovenBufferBytes + kUnprovenPayloadBytesMax, 4096U);
  FrameReader reader(kUnprovenBufferBytes, kUnprovenPayloadBytesMax);
  EXPECT_EQ(reader.space().size(), kUnprovenBufferBytes);
}

}  // namespace
}  // namespace paddle::net

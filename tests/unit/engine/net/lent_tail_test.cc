// Tails that a rank reads where another one of its host has them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "engine/net/lent_array.h"
#include "tests/unit/engine/net/mesh_fixture.h"

namespace paddle::net::peer {
namespace {

constexpr std::size_t kBytes = 300'000;

std::shared_ptr<LentArray> array_of(std::size_t bytes, std::uint8_t fill) {
  auto created = LentArray::create(bytes);
  PADDLE_CHECK(static_cast<bool>(created));
  auto array = std::make_shared<LentArray>(*std::move(created));
  std::ranges::fill(array->bytes(), std::byte{fill});
  return array;
}

// Both ends of a connection through shared memory.
struct Pair {
  Pair() {
    Ranks ranks(2);
    Result<Connections> first = none();
    std::thread rank0 = connecting(ranks.options(0), first);
    auto second = connect_ranks(ranks.options(1), soon());
    rank0.join();
    PADDLE_CHECK(first && second);
    from = std::move((*first)[1]);
    to = std::move((*second)[0]);
    PADDLE_CHECK(from->is_memory() && to->is_memory());
  }

  void send(ByteSpan tail, FrameType type = FrameType::kSegment, std::uint16_t flags = 3) {
    FrameHeader header;
    header.type = static_cast<std::uint8_t>(type);
    header.flags = flags;
    header.sequence = 7;
    from->begin(header, "", tail);
  }
  // The header of the next frame, once it is there.
  Result<const DecodedHeader*> peek() {
    for (;;) {
      PADDLE_TRY(const DecodedHeader* const header, to->peek());
      if (header != nullptr) return header;
      PADDLE_TRY_STATUS(to->read());
    }
  }
  Result<std::optional<Frame>> take(std::span<std::byte> into) {
    return to->next([&](const FrameHeader&, std::string_view, std::size_t) {
      return std::vector<std::span<std::byte>>{into};
    });
  }

  std::unique_ptr<Connection> from;
  std::unique_ptr<Connection> to;
};

// The same, with an array that one end has lent to the other.
struct Lending : Pair {
  Lending() { from->lend(array); }
  // All of it, which is not read yet.
  void send_lent() {
    send(array->bytes());
    EXPECT_EQ(*from->flush(), 0U);
  }
  // Reads the next frame, with a tail of so many bytes.
  void take_next(std::size_t bytes = kBytes) {
    Bytes into(bytes);
    ASSERT_TRUE(peek());
    const auto frame = take(into);
    ASSERT_TRUE(frame && *frame);
  }

  std::shared_ptr<LentArray> array = array_of(kBytes, 1);
};

TEST(LentTail, IsReadInPlaceAndFinishesItsFrameOnlyThen) {
  Pair pair;
  const auto array = array_of(2 * kBytes, 5);
  pair.from->lend(array);
  const auto tail = array->bytes().subspan(1000, kBytes);
  pair.send(tail);
  EXPECT_EQ(*pair.from->flush(), 0U);
  EXPECT_TRUE(pair.from->is_writing());
  tail[0] = std::byte{9};  // nobody has copied it
  const auto header = pair.peek();
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ((*header)->header.flags, 3);
  EXPECT_EQ((*header)->head_bytes, 0U);
  EXPECT_EQ((*header)->tail_bytes, kBytes);
  EXPECT_EQ(*pair.from->flush(), 0U);
  Bytes into(kBytes);
  const auto frame = pair.take(into);
  ASSERT_TRUE(frame && *frame);
  EXPECT_EQ((*frame)->header.sequence, 7U);
  EXPECT_TRUE((*frame)->head.empty() && (*frame)->tail.empty());
  EXPECT_TRUE(std::ranges::equal(into, tail));
  EXPECT_EQ(*pair.from->flush(), 1U);
  EXPECT_FALSE(pair.from->is_writing());
}

TEST(LentTail, FramesFinishInOrder) {
  Lending pair;
  pair.send_lent();
  pair.send({});
  EXPECT_EQ(*pair.from->flush(), 0U) << "it waits for the one before it";
  pair.send(pair.array->bytes().first(kLentTailBytesMin));
  EXPECT_EQ(*pair.from->flush(), 0U);
  pair.take_next();
  EXPECT_EQ(*pair.from->flush(), 2U);
  pair.take_next(0);
  pair.take_next(kLentTailBytesMin);
  EXPECT_EQ(*pair.from->flush(), 1U);
}

TEST(LentTail, OnlyAFewAreUnderWayAtATime) {
  Lending pair;
  std::size_t sent = 0;
  for (; pair.from->can_begin(); ++sent) {
    pair.send_lent();
    ASSERT_LT(sent, 100U);
  }
  EXPECT_GE(sent, 2U);
  pair.take_next();
  EXPECT_EQ(*pair.from->flush(), 1U);
  EXPECT_TRUE(pair.from->can_begin());
}

// A peer may have read all, and left, before the next frame is written.
TEST(LentTail, ThatWasReadFinishesThoughThePeerHasGone) {
  Lending pair;
  pair.send_lent();
  pair.take_next();
  pair.to.reset();
  pair.from->wake();  // sees the end
  pair.send({});
  const auto finished = pair.from->flush();
  ASSERT_TRUE(finished) << finished.error().message;
  EXPECT_EQ(*finished, 1U);
  EXPECT_FALSE(pair.from->flush());
}

TEST(LentTail, ShortTailsAndThoseOfOtherMemoryAreCopied) {
  Lending pair;
  const ByteSpan lent = pair.array->bytes();
  const Bytes other(kBytes, std::byte{2});
  for (const ByteSpan tail : {lent.first(kLentTailBytesMin - 1), ByteSpan(other), lent.first(0)}) {
    pair.send(tail);
    EXPECT_EQ(*pair.from->flush(), 1U);
    ASSERT_TRUE(pair.peek());
    Bytes into(tail.size());
    for (;;) {
      const auto frame = pair.take(into);
      ASSERT_TRUE(frame);
      if (*frame) break;
      ASSERT_TRUE(pair.to->read());
    }
    EXPECT_TRUE(std::ranges::equal(into, tail));
  }
}

// The owner may write again to what it had lent, so whoever was about to read it must not use it.
TEST(LentTail, IsDroppedOnceItsOwnerHasLetItGo) {
  for (const bool is_seen : {false, true}) {
    Lending pair;
    pair.send_lent();
    if (is_seen) {
      ASSERT_TRUE(pair.peek());
    }
    pair.from->let_go();
    std::ranges::fill(pair.array->bytes(), std::byte{8});
    EXPECT_EQ(*pair.from->flush(), 1U);
    pair.send({}, FrameType::kAbort);
    EXPECT_EQ(*pair.from->flush(), 1U);
    ASSERT_TRUE(pair.peek());
    Bytes into(kBytes);
    const auto dropped = pair.take(into);
    ASSERT_TRUE(dropped);
    EXPECT_FALSE(*dropped);
    EXPECT_FALSE(pair.to->is_in_frame());
    const auto header = pair.peek();
    ASSERT_TRUE(header);
    EXPECT_EQ((*header)->header.type, static_cast<std::uint8_t>(FrameType::kAbort));
  }
}

TEST(LentTail, ASleeperWakesWhenItsTailIsRead) {
  Lending pair;
  pair.send_lent();
  ASSERT_TRUE(pair.from->prepare_sleep(false));
  std::thread reader([&] { pair.take_next(); });
  EXPECT_TRUE(wait_ready(pair.from->reads_from(), POLLIN, soon()));
  reader.join();
  pair.from->wake();
  EXPECT_EQ(*pair.from->flush(), 1U);
  pair.send_lent();
  pair.take_next();
  EXPECT_FALSE(pair.from->prepare_sleep(false)) << "it is read already";
}

TEST(LentTail, HeadsThatLieAreRefused) {
  const auto array = array_of(kBytes, 1);
  const std::string good = lent_head(*array, array->bytes().subspan(1000, 500));
  ArraysOfPeer arrays;
  const auto found = arrays.find(good);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(std::ranges::equal(*found, array->bytes().subspan(1000, 500)));
  EXPECT_TRUE(arrays.find(good));  // it is open now

  const auto head = [&](std::uint64_t offset, std::uint64_t size) {
    std::string text = good;
    store_le(reinterpret_cast<std::byte*>(text.data()) + kLentOfferBytes, offset);
    store_le(reinterpret_cast<std::byte*>(text.data()) + kLentOfferBytes + 8, size);
    return text;
  };
  EXPECT_TRUE(arrays.find(head(0, kBytes)));
  EXPECT_TRUE(arrays.find(head(kBytes - 1, 1)));
  for (const std::string& bad : {head(0, kBytes + 1), head(1, kBytes), head(kBytes, 1),
                                 head(UINT64_MAX, 2), head(2, UINT64_MAX)}) {
    const auto refused = arrays.find(bad);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kData);
  }
  std::string other_token = good;
  other_token[kFileOfferBytes] ^= 1;
  EXPECT_EQ(arrays.find(other_token).error().code, Errc::kAuth);
}

TEST(LentTail, APeerLendsOnlySoManyArrays) {
  ArraysOfPeer arrays;
  std::vector<std::shared_ptr<LentArray>> lent;
  for (std::size_t i = 0; i <= kArraysOfPeerMax; ++i) {
    lent.push_back(array_of(100, 1));
    const auto found = arrays.find(lent_head(*lent.back(), lent.back()->bytes()));
    EXPECT_EQ(static_cast<bool>(found), i < kArraysOfPeerMax);
  }
}

TEST(LentTail, Trap25AnArrayThatCouldShrinkIsNotOpened) {
  for (const int seals : {0, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW}) {
    const UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(file.get(), 8192), 0);
    ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    Bytes offer = offer_of(file);
    offer.resize(kLentOfferBytes);  // the token of a new file is zeros
    std::fill(offer.begin() + kFileOfferBytes, offer.end(), std::byte{0});
    EXPECT_EQ(static_cast<bool>(LentArray::open(offer)), seals == (F_SEAL_SHRINK | F_SEAL_GROW));
  }
}

TEST(LentTail, MalformedFramesAreRefused) {
  const auto array = array_of(kBytes, 1);
  const std::string good = lent_head(*array, array->bytes());
  std::string of_none = good;
  store_le(reinterpret_cast<std::byte*>(of_none.data()) + kLentOfferBytes + 8, std::uint64_t{0});
  std::string of_too_much = good;
  store_le(reinterpret_cast<std::byte*>(of_too_much.data()) + kLentOfferBytes + 8,
           std::uint64_t{kFramePayloadBytesMax + 1});
  for (const std::string& head : {std::string(), good.substr(1), good + "x", of_none, of_too_much,
                                  std::string(good + " and a tail")}) {
    Pair pair;
    const bool has_tail = head.ends_with("tail");
    const Bytes tail(has_tail ? 100 : 0);
    FrameHeader header;
    header.type = static_cast<std::uint8_t>(FrameType::kSegment);
    header.flags = kTailIsLent;
    pair.from->begin(header, has_tail ? good : head, tail);
    ASSERT_TRUE(pair.from->flush());
    const auto seen = pair.peek();
    ASSERT_FALSE(seen);
    EXPECT_EQ(seen.error().code, Errc::kData);
  }
}

// Behind it may be why the peer has gone.
TEST(LentTail, ThatIsNowhereToBeFoundIsDropped) {
  for (const bool has_gone : {false, true}) {
    Pair pair;
    auto array = array_of(kBytes, 1);
    FrameHeader header;
    header.type = static_cast<std::uint8_t>(FrameType::kSegment);
    header.flags = kTailIsLent;
    pair.from->begin(header, lent_head(*array, array->bytes()), {});
    ASSERT_TRUE(pair.from->flush());
    array.reset();
    if (has_gone) pair.from.reset();
    const auto seen = pair.peek();
    ASSERT_TRUE(seen) << seen.error().message;
    EXPECT_EQ((*seen)->tail_bytes, kBytes);
    Bytes into(kBytes);
    const auto frame = pair.take(into);
    ASSERT_TRUE(frame);
    EXPECT_FALSE(*frame);
    EXPECT_FALSE(pair.to->is_in_frame());
  }
}

TEST(LentTail, AReaderWithoutDescriptorsSaysSo) {
  Lending pair;
  pair.send_lent();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none_left{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
  const auto seen = pair.peek();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(seen);
  Bytes into(kBytes);
  const auto frame = pair.take(into);
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, Errc::kResource) << frame.error().message;
}

TEST(LentTail, MayBeLetGoMoreThanOnce) {
  Pair pair;
  const Bytes tail(2 * kRingBytes, std::byte{7});
  pair.send(tail);
  ASSERT_TRUE(pair.from->flush());
  ASSERT_GT(pair.from->left(), 0U);
  pair.from->let_go();
  pair.from->let_go();
  ASSERT_TRUE(pair.peek());
  Bytes into(tail.size());
  for (;;) {
    const auto frame = pair.take(into);
    ASSERT_TRUE(frame);
    if (*frame) break;
    ASSERT_TRUE(pair.to->read());
    ASSERT_TRUE(pair.from->flush());
  }
  EXPECT_EQ(into, tail);
}

TEST(LentTail, AnArrayOverTheLimitOfFilesIsAnErrorAndNoSignal) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{kBytes, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto refused = LentArray::create(kBytes);
  EXPECT_TRUE(LentArray::create(kBytes / 2));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kResource);
}

TEST(LentTail, ReadersCannotWriteToTheArray) {
  const auto array = array_of(kBytes, 1);
  const Bytes offer = array->offer();
  const auto file = open_shared_file(ByteSpan(offer).first(kFileOfferBytes), O_RDWR);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(::mmap(nullptr, file->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd.get(), 0),
            MAP_FAILED);
  EXPECT_LT(::write(file->fd.get(), "x", 1), 0);
}

}  // namespace
}  // namespace paddle::net::peer

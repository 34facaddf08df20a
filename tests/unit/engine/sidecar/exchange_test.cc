// Frames and ranges of memory that a program may get wrong.
#include "engine/sidecar/exchange.h"

#include "tests/unit/engine/sidecar/program.h"

namespace paddle::sidecar {
namespace {

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() : channel_(*Channel::open(std::move(sockets_.sidecar))) {}
  void write(const std::string& bytes) const {
    ASSERT_EQ(::write(sockets_.program.get(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }
  void expect_broken(const std::string& bytes, const std::string& why) {
    write(bytes);
    sockets_.program.reset();
    const auto request = channel_.read();
    ASSERT_FALSE(request) << why;
    EXPECT_EQ(request.error().code, Errc::kData);
    EXPECT_NE(request.error().message.find(why), std::string::npos) << request.error().message;
  }

  SocketPair sockets_;
  Channel channel_;
};

TEST_F(ChannelTest, RequestsComeInTheirOrderUntilTheEnd) {
  write(frame_of(1, "{}") + frame_of(2, "") + frame_of(3, std::string(kRequestBytesMax, ' ')));
  for (const std::size_t bytes : {std::size_t{2}, std::size_t{0}, kRequestBytesMax}) {
    const auto request = channel_.read();
    ASSERT_TRUE(request && *request);
    EXPECT_EQ((*request)->text.size(), bytes);
  }
  sockets_.program.reset();
  const auto end = channel_.read();
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
}

TEST_F(ChannelTest, AnswersHaveTheNumberOfTheirRequest) {
  channel_.write(7, JsonObject().add("ok", true));
  const std::string expected = frame_of(7, R"({"ok":true})");
  std::string got(expected.size(), '\0');
  ASSERT_EQ(::recv(sockets_.program.get(), got.data(), got.size(), MSG_WAITALL),
            static_cast<ssize_t>(got.size()));
  EXPECT_EQ(got, expected);
}

TEST_F(ChannelTest, AnAnswerThatIsTooLongIsAnError) {
  const std::string large(kAnswerBytesMax, 'x');
  std::thread writer([&] { channel_.write(1, JsonObject().add("x", std::string_view(large))); });
  char header[16];
  ASSERT_EQ(::recv(sockets_.program.get(), header, 16, MSG_WAITALL), 16);
  writer.join();
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, header + 12, 4);
  std::string text(bytes, '\0');
  ASSERT_EQ(::recv(sockets_.program.get(), text.data(), bytes, MSG_WAITALL),
            static_cast<ssize_t>(bytes));
  EXPECT_TRUE(says(text, R"("kind":"resource")")) << text.substr(0, 200);
}

TEST_F(ChannelTest, AnAnswerToAProgramThatHasEndedIsLost) {
  sockets_.program.reset();
  channel_.write(1, JsonObject().add("ok", true));
  const auto end = channel_.read();
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
}

TEST_F(ChannelTest, RefusesAnotherMagic) {
  expect_broken(frame_of(1, "{}", kMagic + 1), "magic 0x434c4451");
}
TEST_F(ChannelTest, RefusesAnotherVersion) {
  expect_broken(frame_of(1, "{}", kMagic, 2), "version 2 of the frames, here 1");
}
TEST_F(ChannelTest, RefusesANumberThatDoesNotFollow) {
  expect_broken(frame_of(2, "{}"), "request 2 follows request 0");
}
TEST_F(ChannelTest, RefusesARequestThatIsTooLong) {
  expect_broken(frame_of(1, std::string(kRequestBytesMax + 1, ' ')), "65537 bytes");
}
TEST_F(ChannelTest, RefusesAnEndWithinAHeader) {
  expect_broken(frame_of(1, "{}").substr(0, 9), "9 bytes into 16");
}
TEST_F(ChannelTest, RefusesAnEndWithinARequest) {
  expect_broken(frame_of(1, "{}").substr(0, 17), "1 bytes into 2");
}

TEST(OpenChannel, TakesOnlyAStreamSocket) {
  EXPECT_FALSE(Channel::open(UniqueFd()));
  EXPECT_FALSE(Channel::open(made_memory()));
}

TEST(OpenMemory, MustBeASealedFileOfALimitedSize) {
  EXPECT_TRUE(SharedMemory::open(made_memory()));
  EXPECT_FALSE(SharedMemory::open(UniqueFd()));
  EXPECT_FALSE(SharedMemory::open(std::move(SocketPair().program)));
  for (const int seals : {0, F_SEAL_SHRINK, F_SEAL_GROW}) {
    const auto opened = SharedMemory::open(made_memory(kMemoryBytes, seals));
    ASSERT_FALSE(opened) << seals;
    EXPECT_EQ(opened.error().code, Errc::kUsage);
  }
  EXPECT_FALSE(SharedMemory::open(made_memory(kMemoryBytesMax + 4096)));
  EXPECT_FALSE(SharedMemory::open(made_memory(63)));
  const test::TemporaryFolder folder;
  EXPECT_FALSE(SharedMemory::open(
      UniqueFd(::open(folder.write("file", std::string(4096, ' ')).c_str(), O_RDWR | O_CLOEXEC))));
}

TEST(SharedMemory, HasOnlyRangesWithinIt) {
  auto memory = SharedMemory::open(made_memory());
  ASSERT_TRUE(memory);
  const auto is_inside = [&](std::uint64_t offset, std::uint64_t count) {
    return static_cast<bool>(memory->at<std::uint64_t>({offset, count}, "ids"));
  };
  EXPECT_TRUE(is_inside(0, kMemoryBytes / 8));
  EXPECT_TRUE(is_inside(kMemoryBytes - 64, 8));
  EXPECT_TRUE(is_inside(kMemoryBytes, 0));
  EXPECT_FALSE(is_inside(0, kMemoryBytes / 8 + 1));
  EXPECT_FALSE(is_inside(kMemoryBytes - 64, 9));
  EXPECT_FALSE(is_inside(kMemoryBytes + 64, 0));
  EXPECT_FALSE(is_inside(64, UINT64_MAX / 8)) << "the product of count and size overflows";
  EXPECT_FALSE(is_inside(UINT64_MAX - 63, 1));
  EXPECT_FALSE(is_inside(8, 1)) << "no multiple of 64";
}

}  // namespace
}  // namespace paddle::sidecar

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "base/fd.h"
#include "base/rng.h"
#include "engine/data/byte_source.h"
#include "engine/data/chunk_reader.h"
#include "tests/unit/engine/data/data_fixture.h"
#include "tests/unit/engine/data/packing.h"

namespace paddle::data {
namespace {

struct Codec {
  const char* name;
  std::string (*pack)(const std::string&);
  const char* ending;
};
void PrintTo(const Codec& codec, std::ostream* out) {
  *out << codec.name;
}

class CompressedTest : public DataTest, public testing::WithParamInterface<Codec> {
 protected:
  // Several chunks of text that compresses only a little.
  CompressedTest() {
    Rng rng(3);
    for (int i = 0; i < 40000; ++i) text_ += fmt::format("{}\ta b c {}\n", i, rng.next());
  }
  std::string write(const std::string& content) const {
    return folder_.write(std::string("file") + GetParam().ending, content);
  }
  // Returns the error message, or "none".
  std::string outcome_of(const std::string& content) { return mistake_of(write(content)); }

  std::string text_;
};

TEST_P(CompressedTest, ReadsWhatWasPacked) {
  const auto expected = parse(text_);
  ASSERT_EQ(expected.size(), 40000U);
  options_.share.files = {write(GetParam().pack(text_))};
  EXPECT_EQ(read_all(), expected);
}

TEST_P(CompressedTest, ReadsSeveralParts) {
  // The parts meet inside a line.
  options_.share.files = {write(GetParam().pack(text_.substr(0, 300001)) +
                                GetParam().pack(text_.substr(300001)) + GetParam().pack(""))};
  EXPECT_EQ(read_all().size(), 40000U);
}

// The second chunk ends a few bytes before the text does: the decoder still holds them when it has
// taken the whole file.
TEST_P(CompressedTest, ReadsWhatTheDecoderHoldsAtTheEndOfTheFile) {
  std::string text = "1\ta b c\n";
  while (text.size() < 2 * kChunkBytes) text += "1\ta b\n";
  ASSERT_EQ(text.size(), 2 * kChunkBytes);
  options_.share.files = {write(GetParam().pack(text))};
  EXPECT_EQ(read_all().size(), 1 + (text.size() - 8) / 6);
}

TEST_P(CompressedTest, ZeroBytesBehindAPartArePadding) {
  const auto pack = GetParam().pack;
  const std::string text = "1\ta b\n2\tc\n";
  for (const std::size_t zeros : {std::size_t{1}, std::size_t{512}, std::size_t{300000}}) {
    const std::string padding(zeros, '\0');
    options_.share.files = {write(pack(text) + padding)};
    EXPECT_EQ(read_all().size(), 2U) << zeros;
    options_.share.files = {write(pack(text) + padding + pack(text) + padding)};
    EXPECT_EQ(read_all().size(), 4U) << zeros;
    EXPECT_NE(outcome_of(pack(text) + padding + "x").find("the data after its end is not"),
              std::string::npos)
        << zeros;
  }
  EXPECT_NE(outcome_of(std::string(512, '\0') + pack(text)), "none");
}

TEST_P(CompressedTest, ACompressedFileOfAnotherNameIsNamed) {
  const std::string packed = GetParam().pack(text_);
  EXPECT_EQ(mistake(packed),
            fmt::format("bad.txt: it is compressed by {}, but its name does not show it",
                        GetParam().name));
  EXPECT_EQ(hint_of(GetParam().pack("")),
            "a file whose name ends in .gz, .zst, .bz2 or .xz is decompressed");
  const bool is_gzip = GetParam().pack == gzip;
  const std::string other = is_gzip ? xz(text_) : gzip(text_);
  EXPECT_TRUE(outcome_of(other).ends_with(
      fmt::format("damaged: it begins like {} data, although its name has another ending",
                  is_gzip ? "xz" : "gzip")))
      << outcome_of(other);
  EXPECT_TRUE(outcome_of(text_).ends_with(
      fmt::format("damaged: it does not begin like {} data", GetParam().name)));
}

TEST_P(CompressedTest, CompressedStandardInputIsToBeDecompressedByAProgram) {
  const UniqueFd file(::open(write(GetParam().pack(text_)).c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd before(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  ASSERT_GE(::dup2(file.get(), STDIN_FILENO), 0);
  options_.share.files = {kStandardInput};
  const Outcome outcome = read();
  ASSERT_GE(::dup2(before.get(), STDIN_FILENO), 0);
  ASSERT_FALSE(outcome.status);
  EXPECT_EQ(outcome.status.error().message,
            fmt::format("/dev/stdin: it is compressed by {}", GetParam().name));
  EXPECT_EQ(outcome.status.error().hint,
            fmt::format("decompress it first: {} -dc FILE | paddle ... --data=-", GetParam().name));
}

TEST_P(CompressedTest, AnEmptyFileHasNoRecords) {
  EXPECT_EQ(outcome_of(""), "none");
  EXPECT_EQ(outcome_of(GetParam().pack("")), "none");
}

TEST_P(CompressedTest, ACutFileIsNamed) {
  const std::string packed = GetParam().pack(text_);
  const std::string expected =
      fmt::format("file{}: the {} file is cut off", GetParam().ending, GetParam().name);
  for (const std::size_t size : {packed.size() - 1, packed.size() / 2, std::size_t{20}}) {
    EXPECT_EQ(outcome_of(packed.substr(0, size)), expected) << size;
  }
}

TEST_P(CompressedTest, ADamagedFileIsNamed) {
  const std::string packed = GetParam().pack(text_);
  const std::string expected =
      fmt::format("file{}: the {} file is damaged: ", GetParam().ending, GetParam().name);
  EXPECT_TRUE(outcome_of(text_).starts_with(expected));
  EXPECT_TRUE(outcome_of(packed + "some text more").starts_with(expected));
  std::string damaged = packed;
  damaged[0] = 'x';
  EXPECT_TRUE(outcome_of(damaged).starts_with(expected));
  for (std::size_t at = packed.size() / 3; at < packed.size(); at += packed.size() / 7) {
    damaged = packed;
    for (std::size_t i = 0; i < 16 && at + i < damaged.size(); ++i) damaged[at + i] ^= 0x5a;
    EXPECT_NE(outcome_of(damaged), "none") << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, CompressedTest,
                         testing::Values(Codec{"gzip", gzip, ".gz"}, Codec{"zstd", zstd, ".zst"},
                                         Codec{"bzip2", bzip2, ".bz2"}, Codec{"xz", xz, ".xz"}),
                         [](const auto& codec) { return codec.param.name; });

using WindowTest = DataTest;

TEST_F(WindowTest, LongWindowsOfZstdAreRead) {
  for (const unsigned log : {20U, 27U, 28U, 30U, 31U}) {
    const std::string content =
        zstd_with_window("1\ta b\n2\tc\n", log) + zstd_with_window("3\ta\n", 28);
    const auto source =
        *decompressed(*open_source(folder_.write("long", content), {}), "long.zst", 4ULL << 30U);
    std::array<std::byte, 64> some{};
    std::string text;
    for (;;) {
      const auto count = source->read(some);
      ASSERT_TRUE(count) << count.error().message;
      if (*count == 0) break;
      text += as_text(std::span(some).first(*count));
    }
    EXPECT_EQ(text, "1\ta b\n2\tc\n3\ta\n") << log;
  }
  options_.share.files = {folder_.write("long.zst", zstd_with_window("1\ta b\n2\tc\n", 28))};
  EXPECT_EQ(read_all().size(), 2U);
}

TEST_F(WindowTest, AWindowLargerThanTheMemoryIsNamed) {
  const auto open = [&](unsigned log, std::uint64_t memory_max) {
    const std::string path = folder_.write("long", zstd_with_window("1\ta\n", log));
    return *decompressed(*open_source(path, {}), "long.zst", memory_max);
  };
  std::array<std::byte, 16> some{};
  constexpr std::uint64_t kMiB = 1U << 20U;
  const auto first = open(29, 600 * kMiB);
  EXPECT_TRUE(first->read(some));
  // The memory is that of all files together.
  const auto refused = open(28, 600 * kMiB)->read(some);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kResource);
  EXPECT_EQ(refused.error().message,
            "long.zst: decompression needs a window of 268 MB (--long), but all files that are "
            "read at once may use 629 MB on this machine");
  EXPECT_NE(refused.error().hint.find("without --long"), std::string::npos);
  EXPECT_TRUE(open(27, 600 * kMiB)->read(some));
  EXPECT_FALSE(open(31, kMiB)->read(some));
}

TEST_F(WindowTest, AFileThatNeedsADictionaryIsNamed) {
  const std::string text = "1\ta\n2\tb\n";
  std::string frame("\x28\xb5\x2f\xfd\x21\x07", 6);  // one segment, dictionary 7
  frame += static_cast<char>(text.size());
  const auto block = static_cast<std::uint32_t>(1 + 8 * text.size());  // the last one, stored
  for (const unsigned shift : {0U, 8U, 16U}) frame += static_cast<char>(block >> shift & 0xffU);
  options_.share.files = {folder_.write("small.zst", frame + text)};
  const Outcome outcome = read();
  ASSERT_FALSE(outcome.status);
  EXPECT_TRUE(outcome.status.error().message.ends_with(
      "small.zst: the zstd file was compressed with a dictionary, which it needs"))
      << outcome.status.error().message;
  EXPECT_NE(outcome.status.error().hint.find(R"(["zstd", "-dc", "-D", "DICTIONARY"])"),
            std::string::npos);
  // Without the number of a dictionary, the same bytes are read.
  frame[4] = '\x20';
  options_.share.files = {folder_.write("small.zst", frame.erase(5, 1) + text)};
  EXPECT_EQ(read_all().size(), 2U);
}

TEST_F(WindowTest, AFrameOfOneSegmentTakesItsOwnSize) {
  std::string frame("\x28\xb5\x2f\xfd\xa0", 5);
  frame += std::string("\x00\x00\x00\x40", 4);  // 1 GiB
  frame += std::string(20, '\0');
  const std::string path = folder_.write("long", frame);
  const auto source = *decompressed(*open_source(path, {}), "long.zst", 600U << 20U);
  std::array<std::byte, 16> some{};
  const auto refused = source->read(some);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("a window of 1.1 GB"), std::string::npos);
}

}  // namespace
}  // namespace paddle::data

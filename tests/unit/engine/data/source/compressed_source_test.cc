#include "base/rng.h"
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
                         testing::Values(Codec{"gzip", gzip, ".gz"}, Codec{"zstd", zstd, ".zst"}),
                         [](const auto& codec) { return codec.param.name; });

}  // namespace
}  // namespace paddle::data

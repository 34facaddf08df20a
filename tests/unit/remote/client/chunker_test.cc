#include "remote/client/chunker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "tests/support/noise.h"
#include "tests/support/temporary_folder.h"

namespace paddle::remote {
namespace {

TEST(Chunker, AnInsertionMovesNoCutBeyondItsNeighbours) {
  const std::string before = test::noise(8U << 20U, 8);
  std::string after = before;
  after.insert(3'000'000, "inserted");
  std::set<std::string> chunks;
  const auto cut = [&](const std::string& text, bool known) {
    std::size_t fresh = 0;
    for (ByteSpan rest = as_bytes(text); !rest.empty();) {
      const std::size_t size = chunk_length(rest.first(std::min(rest.size(), kChunkBytesMax)));
      EXPECT_LE(size, kChunkBytesMax);
      if (size < rest.size()) {
        EXPECT_GT(size, kChunkBytesMin);
      }
      const bool added = chunks.insert(std::string(as_text(rest.first(size)))).second;
      fresh += known && added ? 1 : 0;
      rest = rest.subspan(size);
    }
    return fresh;
  };
  cut(before, false);
  EXPECT_GT(chunks.size(), 30U);
  EXPECT_LE(cut(after, true), 3U);
}

TEST(Chunker, HolesAreNotRead) {
  const auto bytes_read = [] {
    std::istringstream counts(test::TemporaryFolder::read("/proc/self/io"));
    std::string name;
    std::uint64_t count = 0;
    counts >> name >> count;
    return name == "rchar:" ? std::optional(count) : std::nullopt;
  };
  if (!bytes_read()) GTEST_SKIP() << "this system does not count what is read";
  const test::TemporaryFolder folder;
  const std::uint64_t size = 4ULL << 30U;
  const UniqueFd fd(
      ::open((folder / "holes").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  ASSERT_TRUE(write_at(fd.get(), as_bytes(test::noise(700'000, 8)), size / 2));
  const auto before = bytes_read();
  ASSERT_TRUE(chunk_file(fd.get(), size));
  EXPECT_LT(*bytes_read() - *before, 64U << 20U);
}

// With the chunks of the same bytes without holes.
TEST(Chunker, HolesAreChunksOfZeros) {
  const test::TemporaryFolder folder;
  const auto chunks_of = [](const UniqueFd& fd, std::uint64_t size) {
    auto chunks = chunk_file(fd.get(), size);
    EXPECT_TRUE(chunks) << chunks.error().message;
    return chunks ? *std::move(chunks) : std::vector<Chunk>();
  };
  const std::string noise = test::noise(700'000, 8);
  for (const std::vector<std::uint64_t>& places :
       {std::vector<std::uint64_t>{}, {0}, {30'000'000}, {5'000'001, 20'000'000}, {29'500'000}}) {
    const std::uint64_t size = 30'700'000;
    const UniqueFd holes(
        ::open((folder / "holes").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ASSERT_EQ(::ftruncate(holes.get(), static_cast<off_t>(size)), 0);
    std::string all(size, '\0');
    for (const std::uint64_t place : places) {
      ASSERT_TRUE(write_at(holes.get(), as_bytes(noise), place));
      all.replace(place, noise.size(), noise);
    }
    const UniqueFd full(::open(folder.write("full", all).c_str(), O_RDONLY | O_CLOEXEC));
    const std::vector<Chunk> found = chunks_of(holes, size);
    const std::vector<Chunk> right = chunks_of(full, size);
    ASSERT_EQ(found.size(), right.size()) << places.size();
    for (std::size_t i = 0; i < right.size(); ++i) {
      EXPECT_EQ(found[i].size, right[i].size) << i;
      EXPECT_EQ(found[i].hash, right[i].hash) << i;
    }
  }
}

}  // namespace
}  // namespace paddle::remote

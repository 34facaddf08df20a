#include "remote/push/chunker.h"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/noise.h"

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

}  // namespace
}  // namespace paddle::remote

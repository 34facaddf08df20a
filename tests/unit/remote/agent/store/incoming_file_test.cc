// Chunks that a node accepts for a file.
#include "remote/agent/store/incoming_file.h"

#include <gtest/gtest.h>

#include "tests/support/noise.h"
#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

constexpr std::size_t kSize = 200'000;  // of a chunk; two make a chunked file

Bytes list_of(const std::vector<std::string>& parts) {
  std::vector<Chunk> chunks;
  for (const std::string& part : parts)
    chunks.push_back({sha256_of(as_bytes(part)), static_cast<std::uint32_t>(part.size())});
  return encode_chunks(chunks);
}

TEST(IncomingFile, AChunkThatNobodyAskedForDoesNotCount) {
  const test::TemporaryFolder folder;
  const Root root = *open_root(folder.make("root"));
  const auto store = *Store::open(root);
  const std::string kept = test::noise(kSize, 1);
  const SafePath path = *SafePath::parse("jobs/a/file");
  const auto begin = [&](const std::vector<std::string>& parts) {
    const Bytes list = list_of(parts);
    const ObjectKey key{chunked_id(list, 2 * kSize), 0444};
    return *IncomingFile::begin(*store, key, path, 2 * kSize, list, ChunkMap(*store));
  };
  const std::string old = test::noise(kSize, 2);
  const auto before = begin({kept, old});
  ASSERT_TRUE(before->copy_known());
  ASSERT_TRUE(before->add(0, as_bytes(kept)));
  ASSERT_TRUE(before->add(1, as_bytes(old)));
  const auto now = begin({kept, test::noise(kSize, 3)});
  EXPECT_EQ(now->lacking(), Bytes{std::byte{2}});
  ASSERT_TRUE(now->copy_known());
  const Status added = now->add(0, as_bytes(kept));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::kData);
}

}  // namespace
}  // namespace paddle::agent

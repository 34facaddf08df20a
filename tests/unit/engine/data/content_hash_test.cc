#include "engine/data/content_hash.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::data {
namespace {

TEST(ContentHash, DependsOnContentAlone) {
  const test::TemporaryFolder folder;
  const std::string a = folder.write("a", std::string(300'000, 'x') + "y");
  const std::string same = folder.write("b", std::string(300'000, 'x') + "y");
  const std::string turned = folder.write("c", "y" + std::string(300'000, 'x'));
  const std::string empty = folder.write("d", "");
  EXPECT_EQ(*hash_content({a}), *hash_content({same}));
  EXPECT_NE(*hash_content({a}), *hash_content({turned})) << "the same size";
  EXPECT_NE(*hash_content({a, turned}), *hash_content({turned, a})) << "records in another order";
  EXPECT_NE(*hash_content({a}), *hash_content({a, empty}));
  EXPECT_NE(*hash_content({}), 0U);
}

TEST(ContentHash, OfMoreBytesReadsBlocksOfEachFileAndItsEnd) {
  const test::TemporaryFolder folder;
  std::string text(4U << 20U, 'x');
  const std::string file = folder.write("a", text);
  const auto hash = hash_content({file}, 1U << 20U);
  EXPECT_EQ(*hash, *hash_content({file}, 1U << 20U));
  text.back() = 'y';
  folder.write("a", text);
  EXPECT_NE(*hash, *hash_content({file}, 1U << 20U)) << "its end";
  text.back() = 'x';
  text.front() = 'y';
  folder.write("a", text);
  EXPECT_NE(*hash, *hash_content({file}, 1U << 20U)) << "its begin";
  folder.write("a", text + "z");
  EXPECT_NE(*hash, *hash_content({file}, 1U << 20U)) << "its size";
}

TEST(ContentHash, IsUnknownForWhatCannotBeReadAndThatOfNamesForObjects) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(hash_content({folder / "missing"}));
  EXPECT_FALSE(hash_content({folder.path()}));
  EXPECT_EQ(ContentHash({folder / "missing"}, 0).value(), 0U);
  EXPECT_EQ(ContentHash({"bucket/object"}, 77).value(), 77U);
  ContentHash one({folder.write("a", "text")}, 0);
  EXPECT_EQ(one.value(), *hash_content({folder / "a"}));
  EXPECT_EQ(one.value(), one.value());
}

}  // namespace
}  // namespace paddle::data

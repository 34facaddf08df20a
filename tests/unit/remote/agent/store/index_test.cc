#include "remote/agent/store/index.h"

#include <fcntl.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

class StoreIndexTest : public ::testing::Test {
 protected:
  StoreIndexTest() : fd_(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    key_.id[0] = std::byte{7};
    key_.mode = 0555;
    StoreIndex index;
    EXPECT_TRUE(index.load(fd_.get()));
    index.record(key_, stamp_);
    EXPECT_TRUE(index.save());
  }
  bool knows() const {
    StoreIndex index;
    EXPECT_TRUE(index.load(fd_.get()));
    return index.knows(key_.name(), stamp_);
  }
  std::string file() const { return folder_.path() + "/index"; }

  test::TemporaryFolder folder_;
  UniqueFd fd_;
  ObjectKey key_;
  FileStamp stamp_{100, 1, 2, 3, 4};
};

TEST_F(StoreIndexTest, KnowsAnObjectOnlyByTheStampItWasVerifiedWith) {
  EXPECT_TRUE(knows());
  StoreIndex index;
  ASSERT_TRUE(index.load(fd_.get()));
  FileStamp touched = stamp_;
  ++touched.changed_ns;
  EXPECT_FALSE(index.knows(key_.name(), touched));
  index.forget(key_.name());
  EXPECT_FALSE(index.knows(key_.name(), stamp_));
}

TEST_F(StoreIndexTest, AnIndexOfAnotherBootIsNotTrusted) {
  std::string text = test::TemporaryFolder::read(file());
  const auto boot = text.find('\n') + 1;
  text[boot] = text[boot] == 'a' ? 'b' : 'a';
  folder_.write("index", text);
  EXPECT_FALSE(knows());
}

TEST_F(StoreIndexTest, ADamagedOrTornIndexBeginsAnewAndIsUsableAgain) {
  const std::string whole = test::TemporaryFolder::read(file());
  std::string damaged = whole;
  damaged[damaged.size() - 10] ^= 1;
  for (const std::string& text : {damaged, whole + "half a record", whole.substr(0, 10)}) {
    folder_.write("index", text);
    EXPECT_FALSE(knows()) << text.size();
    EXPECT_LT(std::filesystem::file_size(file()), whole.size());
    StoreIndex index;
    ASSERT_TRUE(index.load(fd_.get()));
    index.record(key_, stamp_);
    ASSERT_TRUE(index.save());
    EXPECT_TRUE(knows());
  }
}

}  // namespace
}  // namespace paddle::agent

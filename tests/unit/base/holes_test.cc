#include "base/holes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "tests/support/temporary_folder.h"

namespace paddle {
namespace {

class HolesTest : public testing::Test {
 protected:
  UniqueFd open(const char* name) const {
    return UniqueFd(::open((folder_ / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }
  std::int64_t room_of(const char* name) const {
    struct stat info {};
    return ::stat((folder_ / name).c_str(), &info) == 0 ? info.st_blocks * 512 : -1;
  }
  const test::TemporaryFolder folder_;
};

TEST(Zeros, AreKnown) {
  Bytes bytes(5000, std::byte{0});
  EXPECT_TRUE(is_all_zero(bytes));
  EXPECT_TRUE(is_all_zero({}));
  for (const std::size_t at : {0U, 1U, 2500U, 4999U}) {
    bytes[at] = std::byte{1};
    EXPECT_FALSE(is_all_zero(bytes)) << at;
    bytes[at] = std::byte{0};
  }
}

TEST_F(HolesTest, WhatIsWrittenIsReadAndZerosTakeNoRoom) {
  std::string text(200'000, '\0');
  text.replace(70'000, 5, "words");
  text.back() = 'e';
  const UniqueFd fd = open("f");
  // In pieces that begin and end anywhere.
  std::mt19937 random(3);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = std::min<std::size_t>(text.size() - at, random() % 30'000);
    ASSERT_TRUE(write_with_holes(fd.get(), as_bytes(text.substr(at, size)), at));
    at += size;
  }
  EXPECT_EQ(test::TemporaryFolder::read(folder_ / "f"), text);
  EXPECT_LT(room_of("f"), 150'000);
}

TEST_F(HolesTest, OverAnOldFileZerosReplaceWhatWasThere) {
  const std::string old(100'000, 'x');
  folder_.write("f", old);
  const UniqueFd fd = open("f");
  std::string text = old;
  text.replace(3000, 50'000, std::string(50'000, '\0'));
  ASSERT_TRUE(write_with_holes(fd.get(), as_bytes(text).subspan(3000, 50'000), 3000));
  EXPECT_EQ(test::TemporaryFolder::read(folder_ / "f"), text);
  ASSERT_TRUE(make_hole(fd.get(), 90'000, 20'000)) << "over its end";
  text.replace(90'000, 10'000, std::string(20'000, '\0'));
  EXPECT_EQ(test::TemporaryFolder::read(folder_ / "f"), text);
}

TEST_F(HolesTest, DataIsFoundBetweenHoles) {
  const UniqueFd fd = open("f");
  ASSERT_TRUE(make_hole(fd.get(), 0, 1U << 20U));
  ASSERT_TRUE(write_at(fd.get(), as_bytes("data"), 512U << 10U));
  const DataRange data = next_data(fd.get(), 0, 1U << 20U);
  EXPECT_LE(data.begin, 512U << 10U);
  EXPECT_GT(data.end, 512U << 10U);
  const DataRange none = next_data(fd.get(), 900U << 10U, 1U << 20U);
  EXPECT_EQ(none.end, 1U << 20U);
  EXPECT_EQ(test::TemporaryFolder::read(folder_ / "f").size(), 1U << 20U);
}

}  // namespace
}  // namespace paddle

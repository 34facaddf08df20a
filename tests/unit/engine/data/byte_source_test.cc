#include "engine/data/byte_source.h"

#include <array>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/engine/data/packing.h"

namespace paddle::data {
namespace {

std::string read_some(ByteSource& source) {
  std::array<std::byte, 3> some{};
  const auto count = source.read(some);
  EXPECT_TRUE(count);
  return std::string(as_text(some).substr(0, count ? *count : 0));
}

TEST(ByteSource, APlainFileIsSkippedWithoutReadingIt) {
  const test::TemporaryFolder folder;
  const auto source = *open_source(folder.write("file", "0123456789"), {});
  EXPECT_EQ(read_some(*source), "012");
  EXPECT_TRUE(source->skip(4));
  EXPECT_EQ(source->position(), 7U);
  EXPECT_EQ(read_some(*source), "789");
  EXPECT_TRUE(source->skip(4));
  EXPECT_EQ(read_some(*source), "");
}

TEST(ByteSource, CompressedBytesMustBeRead) {
  const test::TemporaryFolder folder;
  const auto source = *open_source(folder.write("file.gz", gzip("0123456789")), {});
  EXPECT_FALSE(source->skip(4));
  EXPECT_EQ(read_some(*source), "012");
}

}  // namespace
}  // namespace paddle::data

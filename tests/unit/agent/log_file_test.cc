#include "remote/agent/log_file.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

TEST(LogFile, ReaderSeesOneSequenceAcrossRotations) {
  const test::TemporaryFolder folder;
  auto root = open_root(folder.path());
  ASSERT_TRUE(root) << root.error().message;
  auto writer = LogWriter::open(*root, "jobs/log", 10);
  ASSERT_TRUE(writer) << writer.error().message;
  std::string seen;
  std::uint64_t offset = 0;
  const auto follow = [&] {
    for (;;) {
      const auto part = read_log(*root, "jobs/log", offset, 3);
      ASSERT_TRUE(part) << part.error().message;
      if (part->data.empty()) return;
      seen += as_text(part->data);
      offset = part->next_offset;
    }
  };
  std::string written;
  for (const std::string line : {"aaaa\n", "bbbb\n", "cccc\n", "dddd\n", "eeee\n", "ffff\n"}) {
    writer->append(as_bytes(line));
    written += line;
    if (line[0] != 'c') follow();
  }
  EXPECT_EQ(seen, written);
  EXPECT_EQ(offset, written.size());
  const auto oldest = read_log(*root, "jobs/log", 0, 100);
  EXPECT_EQ(as_text(oldest->data), "cccc\ndddd\n") << "only one older file is kept";
  EXPECT_EQ(oldest->size, written.size());
  EXPECT_LE(std::filesystem::file_size(folder / "jobs/log"), 10U);
  EXPECT_LE(std::filesystem::file_size(folder / "jobs/log.1"), 10U);
}

}  // namespace
}  // namespace paddle::agent

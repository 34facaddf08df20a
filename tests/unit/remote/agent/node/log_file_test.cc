#include "remote/agent/node/log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

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
      const auto part = read_part(*root, "jobs/log", offset, 3);
      ASSERT_TRUE(part) << part.error().message;
      if (part->data.empty()) return;
      seen += as_text(part->data);
      offset = part->next_offset;
    }
  };
  std::string written;
  for (const std::string line : {"aaaa\n", "bbbb\n", "cccc\n", "dddd\n", "eeee\n", "ffff\n"}) {
    writer->append(as_bytes(line), 1);
    written += line;
    if (line[0] != 'c') follow();
  }
  EXPECT_EQ(seen, written);
  EXPECT_EQ(offset, written.size());
  const auto oldest = read_part(*root, "jobs/log", 0, 100);
  EXPECT_EQ(as_text(oldest->data), "cccc\ndddd\n") << "only one older file is kept";
  EXPECT_EQ(oldest->size, written.size());
  EXPECT_LE(std::filesystem::file_size(folder / "jobs/log"), 10U);
  EXPECT_LE(std::filesystem::file_size(folder / "jobs/log.1"), 10U);
}

// Opening a FIFO waits for its other end.
TEST(LogFile, AFifoInPlaceOfALogIsRefused) {
  const test::TemporaryFolder folder;
  auto root = open_root(folder.path());
  ASSERT_TRUE(root) << root.error().message;
  ASSERT_EQ(::mkfifo((folder / "log").c_str(), 0600), 0);
  EXPECT_FALSE(LogWriter::open(*root, "log"));
  const UniqueFd reader(::open((folder / "log").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_FALSE(LogWriter::open(*root, "log"));
}

// A supervisor holds the lock on the folder of its process's record as long as it lives.
TEST(LogFile, ARecordOfAProcessThatRunsIsReadAtOnce) {
  const test::TemporaryFolder folder;
  folder.write("jobs/job/proc/pserver-0/spec", "text");
  auto root = open_root(folder.path());
  ASSERT_TRUE(root) << root.error().message;
  const UniqueFd record(
      ::open((folder / "jobs/job/proc/pserver-0").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(record.get(), LOCK_EX | LOCK_NB), 0);
  const auto part = read_part(*root, "jobs/job/proc/pserver-0/spec", 0, 100);
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(as_text(part->data), "text");
}

struct TimedLog {
  test::TemporaryFolder folder;
  Root root = *open_root(folder.path());

  LogWriter open(std::uint64_t bytes_max) { return *LogWriter::open(root, "log", bytes_max); }
  FilePart read(std::uint64_t offset, std::int64_t since_unix_ms = 0) {
    return *read_part(root, "log", offset, 1000, since_unix_ms);
  }
};

std::vector<std::pair<std::uint64_t, std::int64_t>> pairs(const FilePart& part) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> all;
  for (const LogTime& time : part.times) all.emplace_back(time.offset, time.unix_ms);
  return all;
}

TEST(LogTimes, TellWhenEachPartWasWrittenAcrossRotations) {
  TimedLog log;
  using Pairs = std::vector<std::pair<std::uint64_t, std::int64_t>>;
  {
    LogWriter writer = log.open(10);
    writer.append(as_bytes("aaaa\n"), 1000);
    writer.append(as_bytes("bbbb\n"), 1004);  // too soon for a record of its own
    writer.append(as_bytes("cccc\n"), 1006);  // the first of a file has one
    writer.append(as_bytes("dddd\n"), 900);   // a clock that was set back
  }
  LogWriter writer = log.open(10);
  writer.append(as_bytes("eeee\n"), 2000);
  EXPECT_EQ(as_text(log.read(0).data), "cccc\ndddd\n") << "aaaa went with the oldest file";
  EXPECT_EQ(pairs(log.read(0)), (Pairs{{10, 1006}}));
  EXPECT_EQ(pairs(log.read(17)), (Pairs{{10, 1006}}));
  EXPECT_EQ(pairs(log.read(20)), (Pairs{{20, 2000}}));
  EXPECT_EQ(as_text(log.read(0, 1500).data), "eeee\n");
  EXPECT_EQ(as_text(log.read(0, 2001).data), "");
  EXPECT_EQ(log.read(0, 2001).next_offset, 25U);
}

TEST(LogTimes, AClockSetBackStandsStillInTheNextFileToo) {
  TimedLog log;
  LogWriter writer = log.open(10);
  writer.append(as_bytes("aaaa\n"), 1000);
  writer.append(as_bytes("bbbb\n"), 1001);
  writer.append(as_bytes("cccc\n"), 500);  // the first of a file has a record
  writer.append(as_bytes("dddd\n"), 1200);
  using Pairs = std::vector<std::pair<std::uint64_t, std::int64_t>>;
  EXPECT_EQ(pairs(log.read(10)), (Pairs{{10, 1000}, {15, 1200}}));
  EXPECT_EQ(as_text(log.read(0, 1100).data), "dddd\n") << "the records are searched as ascending";
}

TEST(LogTimes, ManyRecordsMakeAPartShorterAndNoneIsLost) {
  TimedLog log;
  LogWriter writer = log.open(1U << 20U);
  const std::size_t lines = kLogTimesMax + 500;
  for (std::size_t i = 0; i < lines; ++i) {
    writer.append(as_bytes("x"), static_cast<std::int64_t>(1000 + 10 * i));
  }
  std::uint64_t offset = 0;
  while (offset < lines) {
    const auto part = *read_part(log.root, "log", offset, kFilePartBytesMax);
    ASSERT_GT(part.next_offset, offset);
    ASSERT_EQ(part.times.front().offset, offset);
    ASSERT_EQ(part.times.front().unix_ms, static_cast<std::int64_t>(1000 + 10 * offset));
    offset = part.next_offset;
  }
}

TEST(LogTimes, HalfARecordIsCutOffAndALogWithoutTimesIsStillRead) {
  TimedLog log;
  log.open(100).append(as_bytes("a\n"), 1000);
  std::filesystem::resize_file(log.folder / "log.times", 17);
  log.open(100).append(as_bytes("b\n"), 2000);
  EXPECT_EQ(std::filesystem::file_size(log.folder / "log.times"), 32U);
  EXPECT_EQ(log.read(2).times.at(0).unix_ms, 2000);
  std::filesystem::remove(log.folder / "log.times");
  EXPECT_EQ(as_text(log.read(0).data), "a\nb\n");
  EXPECT_TRUE(log.read(0).times.empty());
}

}  // namespace
}  // namespace paddle::agent

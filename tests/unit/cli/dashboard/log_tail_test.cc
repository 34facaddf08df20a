#include "cli/dashboard/log_tail.h"

#include <gtest/gtest.h>

#include "tests/support/fake_agent_client.h"

namespace paddle::cli {
namespace {

constexpr const char* kPath = "jobs/j/node_0/train.log";

struct Node {
  Node() {
    fake.on_read_file = [this](remote::FakeNode&) { ++reads; };
  }
  Result<LogPart> part(std::optional<std::uint64_t> offset, bool is_over = false) {
    return tail.part(client, offset, is_over, now);
  }
  std::string& log() { return fake.files[kPath]; }

  remote::FakeNode fake;
  remote::FakeAgentClient client{remote::NodeSpec{}, fake};
  LogTail tail{kPath};
  TimePoint now{};
  int reads = 0;
};

TEST(LogTail, GivesWholeLinesAndWhereToGoOn) {
  Node node;
  node.log() = "one\ntwo\nthr";
  const auto first = node.part({});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->text, "one\ntwo\n");
  EXPECT_EQ(first->offset, 0U);
  EXPECT_EQ(first->next, 8U);
  EXPECT_EQ(first->size, 11U);
  node.log() += "ee\n";
  node.now += std::chrono::seconds(1);
  EXPECT_EQ(node.part(first->next)->text, "three\n");
  EXPECT_EQ(node.part(4)->text, "two\nthree\n");
}

TEST(LogTail, AnyNumberOfViewersCostOneReadASecond) {
  Node node;
  node.log() = "one\n";
  ASSERT_TRUE(node.part({}));
  const int before = node.reads;
  for (int viewer = 0; viewer < 10; ++viewer) EXPECT_EQ(node.part(0)->text, "one\n");
  EXPECT_EQ(node.reads, before);
  node.log() += "two\n";
  node.now += std::chrono::seconds(1);
  for (int viewer = 0; viewer < 10; ++viewer) EXPECT_EQ(node.part(4)->text, "two\n");
  EXPECT_EQ(node.reads, before + 1);
}

TEST(LogTail, WithoutAnOffsetBeginsAtALineNearTheEnd) {
  Node node;
  for (int i = 0; i < 100'000; ++i) node.log() += "line " + std::to_string(i) + "\n";
  const auto part = node.part({});
  ASSERT_TRUE(part);
  EXPECT_LE(part->text.size(), kLogFirstBytes);
  EXPECT_GT(part->text.size(), kLogFirstBytes - 20);
  EXPECT_TRUE(part->text.starts_with("line "));
  EXPECT_TRUE(part->text.ends_with("line 99999\n"));
  EXPECT_EQ(part->offset + part->text.size(), part->next);
  const auto earlier = node.part(0);
  ASSERT_TRUE(earlier);
  EXPECT_TRUE(earlier->text.starts_with("line 0\n")) << "no longer in memory";
  EXPECT_LE(earlier->text.size(), kLogPartBytesMax);
  EXPECT_TRUE(earlier->text.ends_with("\n"));
  EXPECT_EQ(earlier->next, earlier->text.size());
}

TEST(LogTail, TheEndOfAnEndedProcessNeedsNoNewline) {
  Node node;
  node.log() = "one\nlast words";
  EXPECT_EQ(node.part({})->text, "one\n");
  EXPECT_EQ(node.part({}, true)->text, "one\nlast words");
}

TEST(LogTail, ALineWithoutEndComesInPieces) {
  Node node;
  node.log() = std::string(kLogPartBytesMax - 1, 'x') + "\xc3\xa9" + std::string(100, 'y');
  const auto part = node.part(0);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->next, kLogPartBytesMax - 1) << "no character is cut";
  EXPECT_EQ(node.part(part->next)->text, "") << "it may still grow";
}

TEST(LogTail, OfAProgressBarTheLastStateIsShown) {
  Node node;
  node.log() = "10 %\r50 %\r100 %\r\nend\n";
  const auto part = node.part({});
  EXPECT_EQ(part->text, "100 %\nend\n");
  EXPECT_EQ(part->next, node.log().size()) << "offsets are those of the file";
}

TEST(LogTail, WhatRotationRemovedIsSkipped) {
  Node node;
  node.log() = std::string(1000, 'x') + "\nold\nnew\n";
  node.fake.first_offsets[kPath] = 1005;
  const auto part = node.part(0);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->offset, 1005U);
  EXPECT_EQ(part->text, "new\n");
}

TEST(LogTail, ANewFileBeginsAnew) {
  Node node;
  node.log() = "one\ntwo\n";
  ASSERT_TRUE(node.part({}));
  node.log() = "new\n";
  node.now += std::chrono::seconds(2);
  const auto part = node.part(8);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->text, "");
  EXPECT_EQ(part->next, 4U) << "the viewer goes on from there";
  EXPECT_EQ(node.part(0)->text, "new\n");
}

TEST(LogTail, MemoryIsBounded) {
  Node node;
  node.log() = "begin\n";
  ASSERT_TRUE(node.part({}));
  for (int i = 0; i < 300'000; ++i) node.log() += "line " + std::to_string(i) + "\n";
  node.now += std::chrono::seconds(2);
  const auto part = node.part(6);
  ASSERT_TRUE(part);
  EXPECT_TRUE(part->text.starts_with("line 0\n")) << "a viewer misses nothing";
  EXPECT_TRUE(node.part({})->text.ends_with("line 299999\n"));
}

TEST(LogTail, AFirstReadThatFailedLeavesNothingBehind) {
  Node node;
  for (int i = 0; i < 100'000; ++i) node.log() += "line " + std::to_string(i) + "\n";
  std::string whole = node.log();
  node.fake.on_read_file = [&](remote::FakeNode& fake) {
    if (++node.reads == 3) fake.files.erase(kPath);  // after its size and the first chunk
  };
  ASSERT_FALSE(node.part({}));
  for (int i = 0; i < 100'000; ++i) whole += "more " + std::to_string(i) + "\n";
  node.log() = whole;
  const auto end = node.part({});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->text, whole.substr(end->offset));
  const std::uint64_t earlier = end->offset - 200'000;
  const auto part = node.part(earlier);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->text, whole.substr(earlier, part->text.size()));
}

TEST(LogTail, AMissingFileIsAnError) {
  Node node;
  EXPECT_FALSE(node.part({}));
}

}  // namespace
}  // namespace paddle::cli

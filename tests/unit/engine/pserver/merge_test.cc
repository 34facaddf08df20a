#include "engine/pserver/merge.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::pserver {
namespace {

Bytes bytes(std::vector<float> values) {
  Bytes result;
  append_bytes(result, std::span<const float>(values));
  return result;
}

Push dense_push(std::uint64_t samples, std::vector<float> gradient) {
  Push push;
  push.samples = samples;
  const auto size = gradient.size();
  EXPECT_TRUE(push.add_dense(0, size, size, bytes(std::move(gradient))));
  return push;
}

TEST(Round, MeanIsWeightedBySamples) {
  const Push a = dense_push(1, {1, 2});
  const Push b = dense_push(3, {5, -2});
  const Push idle = dense_push(0, {100, 100});
  const std::vector<const Push*> pushes = {&a, &b, &idle};
  std::vector<float> scratch;
  std::vector<float> part;
  const auto mean = merge_dense(pushes, wire::MERGE_MEAN, scratch, part);
  EXPECT_EQ(std::vector<float>(mean.begin(), mean.end()), (std::vector<float>{4, -1}));
}

// A sum instead of a mean multiplies the learning rate, so it is never the default.
TEST(Round, Trap02SumIsAskedForByName) {
  const Push a = dense_push(1, {1, 2});
  const Push b = dense_push(3, {5, -2});
  const Push idle = dense_push(0, {100, 100});
  const std::vector<const Push*> pushes = {&a, &b, &idle};
  EXPECT_EQ(wire::ParameterSet().merge(), wire::MERGE_MEAN);
  std::vector<float> scratch;
  std::vector<float> part;
  const auto sum = merge_dense(pushes, wire::MERGE_SUM, scratch, part);
  EXPECT_EQ(std::vector<float>(sum.begin(), sum.end()), (std::vector<float>{6, 0}));
}

TEST(Round, OneContributorIsExact) {
  const std::vector<float> gradient = {0.1F, 1e-30F, 3.3333333F};
  const Push a = dense_push(7, gradient);
  const Push idle = dense_push(0, {1, 1, 1});
  const std::vector<const Push*> pushes = {&idle, &a};
  std::vector<float> scratch;
  std::vector<float> part;
  const auto mean = merge_dense(pushes, wire::MERGE_MEAN, scratch, part);
  EXPECT_EQ(std::vector<float>(mean.begin(), mean.end()), gradient);
}

TEST(Round, NobodyWithSamplesUpdatesNothing) {
  const Push idle = dense_push(0, {1, 1});
  const std::vector<const Push*> pushes = {&idle};
  std::vector<float> scratch;
  std::vector<float> part;
  EXPECT_TRUE(merge_dense(pushes, wire::MERGE_MEAN, scratch, part).empty());
}

TEST(Push, PartsMustCoverTheShardInOrder) {
  Push push;
  push.parts = 2;
  EXPECT_FALSE(push.add_dense(1, 1, 3, bytes({1})));
  EXPECT_TRUE(push.add_dense(0, 1, 3, bytes({1})));
  EXPECT_FALSE(push.add_dense(0, 2, 3, bytes({2, 3})));
  EXPECT_FALSE(push.add_dense(1, 1, 3, bytes({2})));         // leaves a hole at the end
  EXPECT_FALSE(push.add_dense(1, ~0ULL, 3, bytes({2, 3})));  // would overflow a sum
  EXPECT_FALSE(push.add_dense(1, 2, 3, bytes({2, 3, 4})));   // more bytes than said
  EXPECT_TRUE(push.add_dense(1, 2, 3, bytes({2, 3})));
  std::vector<float> scratch;
  const auto whole = push.dense(scratch);
  EXPECT_EQ(std::vector<float>(whole.begin(), whole.end()), (std::vector<float>{1, 2, 3}));
}

Status read(std::vector<std::pair<std::uint32_t, std::uint64_t>> segments,
            std::vector<std::uint64_t> ids) {
  wire::PullRows message;
  for (const auto& [parameter, count] : segments) {
    message.add_segments()->set_parameter(parameter);
    message.mutable_segments()->rbegin()->set_count(count);
  }
  Bytes tail;
  append_bytes(tail, std::span<const std::uint64_t>(ids));
  const std::vector<std::uint64_t> widths = {0, 3, 2};
  auto rows = read_segments(message.segments(), tail, widths, false);
  if (!rows) return std::move(rows).error();
  return {};
}

TEST(Push, SegmentsAreCheckedBeforeUse) {
  EXPECT_TRUE(read({{1, 2}, {2, 1}}, {4, 9, 1}));
  EXPECT_FALSE(read({{0, 1}}, {4}));             // a dense parameter
  EXPECT_FALSE(read({{3, 1}}, {4}));             // no such parameter
  EXPECT_FALSE(read({{2, 1}, {1, 1}}, {4, 4}));  // tables descend
  EXPECT_FALSE(read({{1, 2}}, {4, 4}));          // an id twice
  EXPECT_FALSE(read({{1, 2}}, {9, 4}));          // ids descend
  EXPECT_FALSE(read({{1, 2}}, {4}));             // too short
  EXPECT_FALSE(read({{1, 1}}, {4, 5}));          // too long
  EXPECT_FALSE(read({{1, 1ULL << 61U}}, {}));    // count x 8 wraps to 0
}

}  // namespace
}  // namespace paddle::pserver

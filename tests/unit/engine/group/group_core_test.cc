// The core of a group by hand: frames go from one rank to the other when a test says so.
#include "engine/group/group_core.h"

#include <gtest/gtest.h>

namespace paddle::collective {
namespace {

const TimePoint kNow = TimePoint(std::chrono::hours(1));

class TwoCores : public ::testing::Test {
 protected:
  static GroupCore core_of(std::uint32_t rank, std::uint32_t size = 2) {
    const std::vector<std::string> names{"rank 0 (a)", "rank 1 (b)", "rank 2 (c)"};
    return GroupCore({.rank = rank,
                      .size = size,
                      .names = {names.begin(), names.begin() + size},
                      .segment_bytes = 64U << 10U});
  }
  static Operation sum_of(std::vector<float>& bucket) {
    Operation operation;
    operation.shape.bytes = bucket.size() * sizeof(float);
    operation.data = std::as_writable_bytes(std::span(bucket));
    operation.weights = {1, 1};
    return operation;
  }
  // The next frame of a rank, taken by the other one.
  void move(std::uint32_t from) {
    auto out = cores_[from].next(1 - from);
    ASSERT_TRUE(out);
    take(cores_[1 - from], from, *out);
    cores_[from].sent(kNow, 1 - from);
  }
  static void take(GroupCore& to, std::uint32_t from, const GroupCore::Outgoing& out) {
    DecodedHeader header;
    header.header = out.header;
    header.head_bytes = static_cast<std::uint32_t>(out.head.size());
    header.tail_bytes = static_cast<std::uint32_t>(out.tail.size());
    ASSERT_EQ(to.judge(kNow, from, header), GroupCore::Verdict::kTake);
    const auto place = to.place(from, out.header, out.tail.size());
    std::ranges::copy(out.tail, place.begin());
    to.received(kNow, from, {out.header, out.head, {}});
  }

  std::array<GroupCore, 2> cores_{core_of(0), core_of(1)};
};

TEST_F(TwoCores, NothingIsSummedOnceTheGroupHasFailed) {
  std::vector<float> a(100, 1);
  std::vector<float> b(100, 2);
  const std::uint64_t number = cores_[0].post(kNow, sum_of(a));
  cores_[1].post(kNow, sum_of(b));
  move(1);
  // The last frame is on its way while the group ends, and has left only then.
  ASSERT_TRUE(cores_[0].next(1));
  cores_[0].abort(kNow, Error{Errc::kFailed, "enough"});
  cores_[0].sent(kNow, 1);
  EXPECT_FALSE(cores_[0].is_done(number));
  EXPECT_EQ(a, std::vector<float>(100, 1));
}

TEST_F(TwoCores, EventsOfFramesHaveTheirPlaceInTheBucketOnBothSides) {
  std::vector<float> a(100'000, 1);
  std::vector<float> b(100'000, 2);
  cores_[0].post(kNow, sum_of(a));
  cores_[1].post(kNow, sum_of(b));
  for (int i = 0; i < 2; ++i) move(0);
  const auto offsets = [](const GroupCore& core, EventKind kind) {
    std::vector<std::uint64_t> all;
    for (const Event& event : core.events().events()) {
      if (event.kind == kind) all.push_back(event.offset);
    }
    return all;
  };
  const auto sent = offsets(cores_[0], EventKind::kSent);
  EXPECT_EQ(sent, (std::vector<std::uint64_t>{200'000, 200'000 + (64U << 10U)}));
  EXPECT_EQ(sent, offsets(cores_[1], EventKind::kReceived));
}

// It is written to before the frame is known, so it is never memory of an operation.
TEST_F(TwoCores, TheLikelyPlaceOfATailIsTheWindowAsLongAsItHasRoom) {
  std::vector<float> a(100'000, 1);
  std::vector<float> b(100'000, 2);
  GroupCore& core = cores_[0];
  EXPECT_TRUE(core.likely_place(1).empty()) << "nothing is posted";
  core.post(kNow, sum_of(a));
  cores_[1].post(kNow, sum_of(b));
  const auto likely = core.likely_place(1);
  EXPECT_EQ(likely.size(), 64U << 10U);
  const auto out = cores_[1].next(0);
  ASSERT_TRUE(out);
  const auto place = core.place(1, out->header, out->tail.size());
  EXPECT_EQ(place.data(), likely.data());
  EXPECT_EQ(place.size(), likely.size());
  take(core, 1, *out);
  EXPECT_NE(core.likely_place(1).data(), likely.data()) << "the next segment's";

  GroupCore drained = core_of(0);
  drained.post(kNow, sum_of(a));
  drained.drain(1);
  EXPECT_TRUE(drained.likely_place(1).empty());

  GroupCore gathering = core_of(0);
  Operation gather = sum_of(a);
  gather.shape.pattern = Pattern::kGather;
  gathering.post(kNow, std::move(gather));
  EXPECT_TRUE(gathering.likely_place(1).empty());
}

// Rank 2 is late, so nothing of what rank 1 has sent can be added up.
TEST_F(TwoCores, ThereIsNoLikelyPlaceInAFullWindow) {
  std::array<GroupCore, 2> cores{core_of(0, 3), core_of(1, 3)};
  std::vector<float> bucket(300'000);
  for (GroupCore& core : cores) {
    Operation operation = sum_of(bucket);
    operation.weights = {1, 1, 1};
    core.post(kNow, std::move(operation));
  }
  for (std::size_t i = 0; i < kWindowSegments; ++i) {
    EXPECT_FALSE(cores[0].likely_place(1).empty());
    const auto out = cores[1].next(0);
    ASSERT_TRUE(out);
    take(cores[0], 1, *out);
    cores[1].sent(kNow, 0);
  }
  EXPECT_TRUE(cores[0].likely_place(1).empty());
}

// Facts are taken before this rank has posted its own, so their memory must have a limit.
TEST_F(TwoCores, FactsMayBringAsMuchAsASmallGradientHas) {
  DecodedHeader step;
  step.header.type = static_cast<std::uint8_t>(FrameType::kStep);
  step.header.sequence = 1;
  step.tail_bytes = static_cast<std::uint32_t>(whole_bytes_max(2));
  EXPECT_EQ(core_of(0).judge(kNow, 1, step), GroupCore::Verdict::kTake);
  step.tail_bytes += sizeof(float);
  EXPECT_EQ(core_of(0).judge(kNow, 1, step), GroupCore::Verdict::kBroken);
}

}  // namespace
}  // namespace paddle::collective

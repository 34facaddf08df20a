#include "engine/client/lane.h"

#include <gtest/gtest.h>

namespace paddle::client {
namespace {

constexpr TimePoint kNow{};

template <class Message>
Frame answer(FrameType type, std::uint64_t request, Message message = {}) {
  message.set_request(request);
  Frame frame;
  frame.header.type = static_cast<std::uint8_t>(type);
  frame.head = message.SerializeAsString();
  return frame;
}
Frame done(std::uint64_t request) {
  return answer<wire::Done>(FrameType::kDone, request);
}
Frame rows(std::uint64_t request) {
  return answer<wire::RowValues>(FrameType::kRowValues, request);
}

ClientLane asked(Duration resend_after = Duration::zero()) {
  ClientLane lane({.resend_after = resend_after});
  lane.request(FrameType::kReady, wire::Ready(), {}, kNow);
  return lane;
}

std::string error_of(const Result<std::optional<Frame>>& taken) {
  return taken ? "none" : taken.error().message;
}

// As the answer; false for a frame that says nothing new.
bool takes(ClientLane& lane, Frame frame) {
  const auto taken = lane.on_frame(std::move(frame), kNow);
  EXPECT_TRUE(taken) << error_of(taken);
  return taken && taken->has_value();
}

TEST(ClientLane, AnAnswerThatWasNotAskedForIsAnErrorAtOnce) {
  const std::string awaited = ", but request 1 was expected";
  for (const Duration resend_after : {Duration::zero(), Duration(std::chrono::seconds(1))}) {
    EXPECT_EQ(error_of(asked(resend_after).on_frame(done(2), kNow)),
              "the pserver's answer of type 34 is for request 2" + awaited);
    EXPECT_EQ(error_of(asked(resend_after).on_frame(done(0), kNow)),
              "the pserver's answer of type 34 is for request 0" + awaited);
    EXPECT_EQ(
        error_of(asked(resend_after).on_frame(answer<wire::Waiting>(FrameType::kWaiting, 9), kNow)),
        "the pserver's answer of type 33 is for request 9" + awaited);
    EXPECT_EQ(
        error_of(asked(resend_after).on_frame(answer<wire::Refused>(FrameType::kRefused, 9), kNow)),
        "the pserver's answer of type 32 is for request 9" + awaited);
  }
  ClientLane idle({});
  EXPECT_EQ(error_of(idle.on_frame(done(1), kNow)),
            "the pserver's answer of type 34 is for request 1, but none was expected");
}

TEST(ClientLane, AnAnswerAgainIsALateCopyWhereRequestsAreSentAgainOnly) {
  ClientLane again = asked(std::chrono::seconds(1));
  EXPECT_TRUE(takes(again, done(1)));
  again.request(FrameType::kReady, wire::Ready(), {}, kNow);
  EXPECT_FALSE(takes(again, done(1)));
  EXPECT_TRUE(takes(again, done(2)));

  ClientLane once = asked();
  EXPECT_TRUE(takes(once, done(1)));
  once.request(FrameType::kReady, wire::Ready(), {}, kNow);
  EXPECT_EQ(error_of(once.on_frame(done(1), kNow)),
            "the pserver's answer of type 34 is for request 1, but request 2 was expected");
}

TEST(ClientLane, AHeadIsReadOnceBeforeItsTailIsPlaced) {
  ClientLane lane({});
  lane.request(FrameType::kPullDense, wire::PullDense(), {}, kNow);
  wire::DenseValues values;
  values.set_update_count(7);
  const Frame awaited = answer(FrameType::kDenseValues, 1, values);
  EXPECT_FALSE(lane.is_awaited(rows(2).header, rows(2).head)) << "of another request";
  EXPECT_TRUE(lane.is_awaited(awaited.header, awaited.head));
  Frame arrived = awaited;
  arrived.head = "not read again";
  EXPECT_TRUE(takes(lane, std::move(arrived)));
  EXPECT_EQ(lane.answer<wire::DenseValues>().update_count(), 7U);
  EXPECT_FALSE(lane.is_awaited(awaited.header, awaited.head)) << "it is a late copy now";
}

TEST(ClientLane, ATailOfANoticeOrOfAMalformedAnswerIsNotPlaced) {
  ClientLane lane = asked();
  const Frame waiting = answer<wire::Waiting>(FrameType::kWaiting, 1);
  EXPECT_FALSE(lane.is_awaited(waiting.header, waiting.head));
  EXPECT_FALSE(takes(lane, waiting));
  Frame malformed = done(1);
  malformed.head = "\xff";
  EXPECT_FALSE(lane.is_awaited(malformed.header, malformed.head));
  EXPECT_EQ(error_of(lane.on_frame(std::move(malformed), kNow)),
            "the pserver's answer of type 34 is malformed");
}

TEST(ClientLane, PipelinedPullsAreAnsweredInTheirOrder) {
  ClientLane lane({});
  lane.request(FrameType::kPullRows, wire::PullRows(), {}, kNow);
  lane.request(FrameType::kPullRows, wire::PullRows(), {}, kNow);
  EXPECT_EQ(error_of(lane.on_frame(rows(2), kNow)),
            "the pserver's answer of type 37 is for request 2, but request 1 was expected");
  EXPECT_TRUE(takes(lane, rows(1)));
  EXPECT_TRUE(takes(lane, rows(2)));
}

TEST(ClientLane, ARefusalClosesThePullsBehindItWhoseAnswersMayStillCome) {
  ClientLane lane({});
  lane.request(FrameType::kPullRows, wire::PullRows(), {}, kNow);
  lane.request(FrameType::kPullRows, wire::PullRows(), {}, kNow);
  EXPECT_FALSE(lane.on_frame(answer<wire::Refused>(FrameType::kRefused, 1), kNow));
  lane.request(FrameType::kLeave, wire::Leave(), {}, kNow);
  EXPECT_FALSE(takes(lane, rows(2)));
  EXPECT_TRUE(takes(lane, done(3)));
}

// The trainer joins again.
TEST(ClientLane, AShardThatWentBackIsLost) {
  for (const auto code : {wire::REFUSAL_STALE_GENERATION, wire::REFUSAL_TRAINER_LOST}) {
    wire::Refused refused;
    refused.set_code(code);
    ClientLane lane = asked();
    const auto taken = lane.on_frame(answer(FrameType::kRefused, 1, refused), kNow);
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, Errc::kUnreachable);
  }
}

TEST(ClientLane, OfAJobThatATrainerGaveUpTheCodeIsThatTrainers) {
  for (const Errc code : {Errc::kResource, Errc::kData, Errc::kFailed}) {
    wire::Refused refused;
    refused.set_code(wire::REFUSAL_ABANDONED);
    refused.set_exit_code(static_cast<std::uint32_t>(code));
    ClientLane lane = asked();
    const auto taken = lane.on_frame(answer(FrameType::kRefused, 1, refused), kNow);
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, code);
  }
}

TEST(ClientLane, AWaitingThatCarriesValuesIsNone) {
  Frame waiting = answer<wire::Waiting>(FrameType::kWaiting, 1);
  EXPECT_EQ(error_of(asked().on_frame(Frame(waiting), kNow)), "none");
  waiting.tail.resize(8);
  EXPECT_EQ(error_of(asked().on_frame(Frame(waiting), kNow)),
            "the pserver's answer of type 33 is malformed");
}

// A lane whose first push, of batch 1, is open.
Result<std::optional<Frame>> answer_push(std::uint64_t last_applied) {
  ClientLane lane(ClientLane::Options{.trainer_id = 3});
  (void)lane.request(FrameType::kPushDense, wire::PushDense(), {}, TimePoint());
  wire::Pushed pushed;
  pushed.set_request(1);
  pushed.set_last_applied(last_applied);
  Frame frame;
  frame.header.type = static_cast<std::uint8_t>(FrameType::kPushed);
  frame.head = pushed.SerializeAsString();
  return lane.on_frame(std::move(frame), TimePoint());
}

// A pserver that takes every push for a repeat would train nothing and report success.
TEST(ClientLane, APushThatWasNotAppliedEndsTheTrainer) {
  EXPECT_TRUE(answer_push(1));
  for (const std::uint64_t last : {std::uint64_t{0}, std::uint64_t{2}, ~std::uint64_t{0}}) {
    const auto refused = answer_push(last);
    ASSERT_FALSE(refused) << last;
    EXPECT_EQ(refused.error().code, Errc::kData);
    EXPECT_EQ(refused.error().message.find("trainer 3 pushed batch 1, but the pserver reports"), 0U)
        << refused.error().message;
  }
}

}  // namespace
}  // namespace paddle::client

#include "engine/net/local_link.h"

#include "tests/unit/engine/net/net_fixture.h"

namespace paddle::net {
namespace {

TEST(LocalLink, EchoesInOrderAndStampsTheSender) {
  const auto handler = std::make_shared<EchoHandler>();
  const auto link = make_local_link(handler, {Role::kTrainer, 4});
  ASSERT_TRUE(link->send(frame_of(kEchoType, "one", 3), soon()));
  ASSERT_TRUE(link->send(frame_of(kEchoType, "two", 0), soon()));
  const auto one = link->receive(soon());
  ASSERT_TRUE(one);
  EXPECT_EQ(one->head, "one");
  EXPECT_EQ(one->header.sender, (NodeId{Role::kTrainer, 4}));
  const auto two = link->receive(soon());
  ASSERT_TRUE(two);
  EXPECT_EQ(two->head, "two");
}

TEST(LocalLink, ReceiveWithoutAReplyTicksAndFails) {
  const auto handler = std::make_shared<EchoHandler>();
  const auto link = make_local_link(handler, {Role::kTrainer, 0});
  const auto got = link->receive(soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::kUnreachable);
  EXPECT_EQ(handler->ticks, 1);
}

TEST(LocalLink, ClosesAfterTheLastReplyAndTellsTheHandlerWhenItDies) {
  const auto handler = std::make_shared<EchoHandler>();
  {
    const auto link = make_local_link(handler, {Role::kTrainer, 0});
    ASSERT_TRUE(link->send(frame_of(kByeType, "bye", 0), soon()));
    EXPECT_FALSE(link->send(frame_of(kEchoType, "late", 0), soon()));
    const auto last = link->receive(soon());
    ASSERT_TRUE(last);
    EXPECT_EQ(last->head, "bye");
    EXPECT_FALSE(link->receive(soon()));
    EXPECT_EQ(handler->disconnects, 0);
  }
  EXPECT_EQ(handler->frames, 1);
  EXPECT_EQ(handler->disconnects, 1);
}

// Replies with views of its one buffer, which every frame overwrites.
class ShowHandler final : public FrameHandler {
 public:
  void on_frame(TimePoint, PeerId from, Frame&& frame, std::vector<Outgoing>& out) override {
    shown_ = std::move(frame.tail);
    Frame reply = frame_of(kEchoType, frame.head, 2);
    out.push_back({from, std::move(reply), false, shown_});
  }
  void on_disconnect(TimePoint, PeerId, std::vector<Outgoing>&) override {}
  void on_tick(TimePoint, std::vector<Outgoing>&) override {}

 private:
  Bytes shown_;
};

TEST(LocalLink, RepliesKeepWhatTheyShowedAcrossTheHandlersNextCall) {
  const auto link = make_local_link(std::make_shared<ShowHandler>(), {Role::kTrainer, 0});
  const std::string first = "first";
  const std::string second = "again";
  for (const std::string& text : {first, second}) {
    const ByteSpan pieces[] = {as_bytes(text).first(2), as_bytes(text).subspan(2)};
    ASSERT_TRUE(link->send(frame_of(kEchoType, text, 0), pieces, soon()));
  }
  for (const std::string& text : {first, second}) {
    const auto got = link->receive(soon());
    ASSERT_TRUE(got);
    EXPECT_EQ(as_text(got->tail).substr(2), text);
  }
}

TEST(LocalLink, ATailIsPutWhereTheReceiverWantsIt) {
  const auto link = make_local_link(std::make_shared<ShowHandler>(), {Role::kTrainer, 0});
  const std::string text = "values";
  const ByteSpan pieces[] = {as_bytes(text)};
  ASSERT_TRUE(link->send(frame_of(kEchoType, "head", 0), pieces, soon()));
  Bytes left(3);
  Bytes right(5);
  const auto got =
      link->receive(soon(), [&](const FrameHeader&, std::string_view head, std::size_t tail_bytes) {
        EXPECT_EQ(head, "head");
        EXPECT_EQ(tail_bytes, left.size() + right.size());
        return std::vector<std::span<std::byte>>{left, right};
      });
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->tail.empty());
  EXPECT_EQ(as_text(left).substr(2), "v");
  EXPECT_EQ(as_text(right), "alues");
}

}  // namespace
}  // namespace paddle::net

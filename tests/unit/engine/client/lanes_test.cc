#include "engine/client/lanes.h"

#include <gtest/gtest.h>

namespace paddle::client {
namespace {

// A port that keeps its trainer waiting, or one that is gone.
class WaitingLink final : public net::Link {
 public:
  explicit WaitingLink(bool is_closed) : is_closed_(is_closed) {}
  Status send(Frame /*frame*/, std::span<const ByteSpan> /*pieces*/, TimePoint) override {
    return {};
  }
  Result<Frame> receive(TimePoint /*deadline*/, const net::TailPlace& /*place*/) override {
    if (++received_ > 3) return Error{Errc::kFailed, "nobody looked after the other port"};
    wire::Waiting waiting;
    waiting.set_request(1);
    waiting.set_reason("trainer 1 to push step 7");
    waiting.set_all_connected(true);
    Frame frame;
    frame.header.type = static_cast<std::uint8_t>(FrameType::kWaiting);
    frame.head = waiting.SerializeAsString();
    return frame;
  }
  std::string peer() const override { return "10.0.0.1:7164"; }
  bool is_closed() const override { return is_closed_; }

 private:
  bool is_closed_;
  int received_ = 0;
};

// One port for each entry, closed or not.
ClientLanes lanes_of(const std::string& kind, const std::vector<bool>& closed) {
  std::vector<std::unique_ptr<net::Link>> links;
  for (const bool is_closed : closed) links.push_back(std::make_unique<WaitingLink>(is_closed));
  return {kind, std::move(links), {}, 0, std::chrono::seconds(60)};
}

Error error_of_waiting(ClientLanes& lanes) {
  const auto answer = lanes.exchange(0, FrameType::kReady, wire::Ready(), {}, FrameType::kPosition);
  EXPECT_FALSE(answer);
  return answer ? Error{} : answer.error();
}

TEST(ClientLanes, APortOfTheSameKindThatIsGoneEndsTheWait) {
  ClientLanes dense = lanes_of("dense", {false, false, true});
  const Error error = error_of_waiting(dense);
  EXPECT_EQ(error.code, Errc::kUnreachable);
  EXPECT_EQ(error.message, "pserver dense port 2 (10.0.0.1:7164) closed the connection");
}

TEST(ClientLanes, APortOfTheOtherKindThatIsGoneEndsTheWait) {
  ClientLanes dense = lanes_of("dense", {false});
  ClientLanes sparse = lanes_of("sparse", {false, true});
  dense.look_after(sparse);
  const Error error = error_of_waiting(dense);
  EXPECT_EQ(error.code, Errc::kUnreachable);
  EXPECT_EQ(error.message, "pserver sparse port 1 (10.0.0.1:7164) closed the connection");
}

TEST(ClientLanes, ThePortItselfIsHeardOutThoughItHasClosed) {
  ClientLanes dense = lanes_of("dense", {true, false});
  EXPECT_EQ(error_of_waiting(dense).code, Errc::kFailed) << "the last words of the test's port";
}

TEST(ClientLanes, AWaitGoesOnWhileAllPortsAreThere) {
  ClientLanes dense = lanes_of("dense", {false, false});
  ClientLanes sparse = lanes_of("sparse", {false});
  dense.look_after(sparse);
  EXPECT_EQ(error_of_waiting(dense).code, Errc::kFailed) << "of the test's port";
}

}  // namespace
}  // namespace paddle::client

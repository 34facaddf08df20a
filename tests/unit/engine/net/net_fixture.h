// A server with an echo core on its own thread, on a loopback port the kernel picks.
#pragma once

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "engine/net/session.h"
#include "engine/net/tcp.h"

namespace paddle::net {

constexpr std::uint64_t kJob = 0x1122334455667788;
constexpr NodeId kServer{Role::kPserver, 3};
constexpr std::uint8_t kEchoType = 16;
constexpr std::uint8_t kByeType = 17;  // echoed, then the connection is closed
constexpr std::uint8_t kFloodType =
    18;  // answered with header.step frames of header.sequence bytes

inline Secret secret_of(std::uint8_t fill) {
  std::array<std::byte, kSecretBytes> bytes;
  bytes.fill(static_cast<std::byte>(fill));
  return *Secret::from_bytes(bytes);
}

inline JobKeys keys_of(std::uint8_t fill) {
  return JobKeys::of_job(secret_of(fill));
}

inline TimePoint in(Duration left) {
  return SteadyClock().now() + left;
}

// A deadline that only a hanging test reaches.
inline TimePoint soon() {
  return in(std::chrono::seconds(30));
}

inline Frame frame_of(std::uint8_t type, std::string head, std::size_t tail_bytes) {
  Frame frame;
  frame.header.type = type;
  frame.head = std::move(head);
  frame.tail.resize(tail_bytes);
  for (std::size_t i = 0; i < tail_bytes; ++i) {
    frame.tail[i] = static_cast<std::byte>((i * 2654435761U) >> 13U);
  }
  return frame;
}

class EchoHandler final : public FrameHandler {
 public:
  void on_frame(TimePoint /*now*/, PeerId from, Frame&& frame,
                std::vector<Outgoing>& out) override {
    ++frames;
    const std::uint8_t type = frame.header.type;
    if (type == kFloodType) {
      for (std::uint64_t i = 0; i < frame.header.step; ++i) {
        out.push_back({from, frame_of(kEchoType, "", frame.header.sequence), false});
      }
      return;
    }
    out.push_back({from, std::move(frame), type == kByeType});
  }
  void on_disconnect(TimePoint /*now*/, PeerId /*from*/, std::vector<Outgoing>& /*out*/) override {
    ++disconnects;
    disconnects.notify_all();
  }
  void on_tick(TimePoint /*now*/, std::vector<Outgoing>& /*out*/) override {
    ++ticks;
    ticks.notify_all();
  }

  std::atomic<int> frames = 0;
  std::atomic<int> disconnects = 0;
  std::atomic<int> ticks = 0;
};

class NetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = TcpServer::listen(
        {{"127.0.0.1", 0}, keys_of(1), kServer, kJob, /*server_generation=*/9, transport_},
        handler_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
  }

  ClientOptions client(std::uint32_t trainer) const {
    return {{"127.0.0.1", server_->port()},
            keys_of(1),
            {Role::kTrainer, trainer},
            5,
            kServer,
            kJob,
            transport_,
            shares_memory_};
  }
  std::unique_ptr<Link> connect_trainer(std::uint32_t trainer) {
    auto link = connect(client(trainer), soon());
    EXPECT_TRUE(link) << link.error().message;
    return link ? std::move(*link) : nullptr;
  }
  // One whose first frame was answered, so that its frames may be long.
  std::unique_ptr<Link> joined_trainer(std::uint32_t trainer) {
    auto link = connect_trainer(trainer);
    if (!link) return nullptr;
    EXPECT_TRUE(link->send(frame_of(kEchoType, "join", 0), soon()));
    EXPECT_TRUE(link->receive(soon()));
    return link;
  }
  // Returns once the handler saw `count` disconnects; the test's timeout bounds it.
  void wait_disconnects(int count) {
    for (int seen = handler_.disconnects; seen < count; seen = handler_.disconnects) {
      handler_.disconnects.wait(seen);
    }
  }

  Transport transport_ = Transport::kSealed;
  bool shares_memory_ = true;
  EchoHandler handler_;
  std::unique_ptr<TcpServer> server_;
  std::thread thread_;
};

}  // namespace paddle::net

// Raw connections to a listener on loopback, and somebody on the way who records one.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/free_ports.h"

namespace paddle::agent::test_wire {

constexpr Duration kLong = std::chrono::seconds(10);

inline TimePoint within(Duration patience) {
  return TimePoint(std::chrono::steady_clock::now()) + patience;
}

// From 127.0.0.`from`.
inline UniqueFd connect_to(std::uint32_t port, std::uint32_t from = 1) {
  ::signal(SIGPIPE, SIG_IGN);  // a listener may hang up at any time
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// All bytes until the other end closes; nothing when it does not by then.
inline std::optional<Bytes> read_to_end(int fd, TimePoint deadline) {
  Bytes all;
  std::byte part[4096];
  while (wait_ready(fd, POLLIN, deadline)) {
    const ssize_t got = ::recv(fd, part, sizeof part, MSG_DONTWAIT);
    if (got <= 0) return all;
    append_bytes(all, std::span<const std::byte>(part, static_cast<std::size_t>(got)));
  }
  return std::nullopt;
}

// Passes one connection on to `port` and keeps its bytes.
class Recorder {
 public:
  explicit Recorder(std::uint32_t port)
      : port_(test::free_ports(1)), listener_(test::listen_on(port_)), thread_([this, port] {
          const UniqueFd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
          const UniqueFd listener = connect_to(port);
          std::jthread back([&] { pass(listener.get(), caller.get(), answered_); });
          pass(caller.get(), listener.get(), said_);
        }) {}

  std::uint16_t port() const { return port_; }
  // The bytes of the caller and of the listener, once both have hung up.
  std::pair<Bytes, Bytes> finish() {
    thread_.join();
    return {said_, answered_};
  }

 private:
  static void pass(int from, int to, Bytes& kept) {
    std::byte part[4096];
    for (ssize_t got; (got = ::read(from, part, sizeof part)) > 0;) {
      const std::span<const std::byte> bytes(part, static_cast<std::size_t>(got));
      append_bytes(kept, bytes);
      if (!write_all(to, bytes, within(kLong))) return;
    }
    ::shutdown(to, SHUT_WR);
  }

  std::uint16_t port_;
  UniqueFd listener_;
  Bytes said_, answered_;
  std::jthread thread_;
};

}  // namespace paddle::agent::test_wire

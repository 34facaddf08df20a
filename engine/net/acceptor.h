// The thread that accepts connections of a port, so that a flood of them costs the port's own
// thread little, and one address cannot keep the others out.
#pragma once

#include <functional>
#include <map>
#include <thread>

#include <asio/ip/tcp.hpp>

#include "base/clock.h"
#include "base/fd.h"

namespace paddle::net {

constexpr std::size_t kAcceptsPerTick = 500;
constexpr std::size_t kAcceptsPerTickAndAddress = 32;

// Counts the new connections of one tick by address.
class AcceptLimiter {
 public:
  // False when the connection is to be dropped.
  bool allows(const asio::ip::address& from, TimePoint now);
  // The time until which no more are to be accepted, or `now`.
  TimePoint next(TimePoint now) const;

 private:
  TimePoint tick_end_{};
  std::size_t accepted_ = 0;
  std::map<asio::ip::address, std::size_t> by_address_;
};

class Acceptor {
 public:
  // Called on the acceptor's thread.
  using OnAccept = std::function<void(UniqueFd socket, const asio::ip::tcp::endpoint& from)>;
  Acceptor() = default;
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor() { stop(); }

  Status open();
  // `listener` is non-blocking and stays open until stop().
  void start(int listener, OnAccept on_accept);
  void stop();

 private:
  void run(int listener, int stop_fd, const OnAccept& on_accept);

  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace paddle::net

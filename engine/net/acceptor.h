// The thread that accepts connections of a port, so that a flood of them costs the port's own
// thread little, and one address cannot keep the others out.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include <asio/ip/tcp.hpp>

#include "base/clock.h"
#include "base/fd.h"

namespace paddle::net {

constexpr std::size_t kAcceptsPerTick = 128;
constexpr std::size_t kAcceptsPerTickAndSource = 32;
constexpr std::size_t kAcceptedWaitingMax = 256;

// Connections are counted by this: an IPv4 address, or the 64-bit network of an IPv6 address, of
// which one host may use every address.
asio::ip::address source_of(const asio::ip::address& address);

// Counts the new connections of one tick by their source.
class AcceptLimiter {
 public:
  // False when the connection is to be dropped.
  bool allows(const asio::ip::address& from, TimePoint now);
  // The time until which no more are to be accepted, or `now`.
  TimePoint next(TimePoint now) const;

 private:
  TimePoint tick_end_{};
  std::size_t accepted_ = 0;
  std::map<asio::ip::address, std::size_t> by_source_;
};

class Acceptor {
 public:
  // Called on the acceptor's thread. Each call is to be followed by a taken().
  using OnAccept = std::function<void(UniqueFd socket, const asio::ip::tcp::endpoint& from)>;
  Acceptor() = default;
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor() { stop(); }

  Status open();
  // `listener` is non-blocking and stays open until stop().
  void start(int listener, OnAccept on_accept);
  void stop();
  // The port's thread has one connection less to take. While it is busy, few wait for it.
  void taken() { --waiting_; }

 private:
  void run(int listener, int stop_fd, const OnAccept& on_accept);

  UniqueFd stop_;
  std::atomic<std::size_t> waiting_ = 0;
  std::thread thread_;
};

}  // namespace paddle::net

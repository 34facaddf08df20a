// A thread that accepts the connections of a port, so that a flood of connections costs the port's
// own thread little time, and one address cannot exclude the others.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include <asio/ip/tcp.hpp>

#include "base/caller_source.h"
#include "base/clock.h"
#include "base/fd.h"

namespace paddle::net {

constexpr std::size_t kAcceptsPerTick = 128;
constexpr std::size_t kAcceptsPerTickAndSource = 32;
constexpr std::size_t kAcceptedWaitingMax = 256;

// Counts the new connections of one tick by their source.
class AcceptLimiter {
 public:
  // Counts a connection. Returns false if it must be dropped.
  bool allows(const CallerSource& source, TimePoint now);
  // The time before which no more connections may be accepted, or `now`.
  TimePoint next(TimePoint now) const;

 private:
  TimePoint tick_end_{};
  std::size_t accepted_ = 0;
  std::map<CallerSource, std::size_t> by_source_;
};

class Acceptor {
 public:
  // Called on the acceptor's thread. Each call must be followed by a call of taken().
  using OnAccept = std::function<void(UniqueFd socket, const asio::ip::tcp::endpoint& from)>;
  Acceptor() = default;
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor() { stop(); }

  Status open();
  // `listener` is non-blocking and stays open until stop().
  void start(int listener, OnAccept on_accept);
  void stop();
  // The port's thread calls it for each connection it takes over. At most kAcceptedWaitingMax
  // connections wait for that thread.
  void taken() { --waiting_; }

 private:
  void run(int listener, int stop_fd, const OnAccept& on_accept);

  UniqueFd stop_;
  std::atomic<std::size_t> waiting_ = 0;
  std::thread thread_;
};

}  // namespace paddle::net

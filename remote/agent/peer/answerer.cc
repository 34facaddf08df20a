#include "remote/agent/peer/answerer.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace paddle::agent {

namespace {

constexpr Duration kClaimDeadline = std::chrono::seconds(3);
constexpr std::size_t kUnprovenMax = 64;
constexpr std::ptrdiff_t kUnprovenOfAddressMax = 16;
constexpr std::ptrdiff_t kPlaces = 8;
constexpr std::size_t kOwnItems = 2;  // of poll: the listener and wake_

// A few bytes, for which a new connection has room.
bool send_now(int fd, ByteSpan bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

// Ends the thread that serves it, and drops the bytes that the caller has not read.
void hang_up(const PeerConnection& connection) {
  const linger none{1, 0};
  ::setsockopt(connection.fd.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
  ::shutdown(connection.fd.get(), SHUT_RDWR);
}

}  // namespace

Answerer::Answerer(int listener, const Secret& token, PeerService service)
    : listener_(listener),
      token_(token),
      service_(std::move(service)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Answerer::run(TimePoint end) {
  while (SteadyClock().now() < end) {
    end_late();
    serve_waiting();
    std::vector<pollfd> items{{listener_, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    TimePoint wake = end;
    for (const Unproven& one : unproven_) {
      items.push_back({one.fd.get(), POLLIN, 0});
      wake = std::min(wake, one.deadline);
    }
    for (const auto& one : proven_) wake = std::min(wake, one->deadline);
    if (::poll(items.data(), items.size(), milliseconds_until(wake)) < 0 && errno != EINTR) return;
    for (std::size_t i = items.size(); i-- > kOwnItems;) {
      if (items[i].revents != 0) hear(i - kOwnItems);
    }
    std::uint64_t ended = 0;
    if (items[1].revents != 0) std::ignore = ::read(wake_.get(), &ended, sizeof ended);
    if (items[0].revents != 0) admit();
  }
}

void Answerer::admit() {
  sockaddr_in from{};
  socklen_t size = sizeof from;
  UniqueFd fd(::accept4(listener_, reinterpret_cast<sockaddr*>(&from), &size,
                        SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) return;
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto nonce = random_peer_nonce();
  if (!nonce || !send_now(fd.get(), *nonce)) return;
  make_room(from.sin_addr.s_addr);
  unproven_.push_back(
      {std::move(fd), from.sin_addr.s_addr, SteadyClock().now() + kClaimDeadline, *nonce, {}, 0});
}

// An honest caller proves its key within a round trip, so the oldest is the least likely to.
void Answerer::make_room(in_addr_t address) {
  if (std::ranges::count(unproven_, address, &Unproven::address) >= kUnprovenOfAddressMax) {
    unproven_.erase(std::ranges::find(unproven_, address, &Unproven::address));
  } else if (unproven_.size() >= kUnprovenMax) {
    unproven_.erase(unproven_.begin());
  }
}

void Answerer::hear(std::size_t index) {
  Unproven& caller = unproven_[index];
  const std::span<std::byte> rest = std::span(caller.claim).subspan(caller.size);
  const ssize_t got = ::read(caller.fd.get(), rest.data(), rest.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  caller.size += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  if (got > 0 && caller.size < caller.claim.size()) return;
  Unproven heard = std::move(caller);
  unproven_.erase(unproven_.begin() + static_cast<std::ptrdiff_t>(index));
  if (got <= 0) return;
  if (auto proven = check_claim(token_, service_.name, heard.nonce, heard.claim))
    take(*std::move(proven), std::move(heard.fd));
}

void Answerer::take(ProvenCaller proven, UniqueFd fd) {
  if (!send_now(fd.get(), proven.keys.listener_proof.reveal())) return;
  for (const auto& older : proven_) {
    if (older->caller != proven.caller) continue;
    hang_up(older->connection);
    if (!older->served) older->ended = true;
  }
  proven_.push_back(std::make_shared<Proven>(
      proven.caller, PeerConnection{std::move(fd), std::move(proven.keys)}));
}

void Answerer::end_late() {
  const TimePoint now = SteadyClock().now();
  std::erase_if(unproven_, [&](const Unproven& one) { return now >= one.deadline; });
  std::erase_if(proven_, [](const auto& one) { return one->ended.load(); });
  for (const auto& one : proven_) {
    if (now < one->deadline) continue;
    hang_up(one->connection);
    one->deadline = TimePoint::max();  // its thread soon ends
  }
}

void Answerer::serve_waiting() {
  for (const auto& one : proven_) {
    const auto has_place = [&](const auto& other) {
      return other->served && other->caller == one->caller;
    };
    if (one->served || std::ranges::any_of(proven_, has_place)) continue;
    const auto is_served = [](const auto& other) { return other->served; };
    if (std::ranges::count_if(proven_, is_served) >= kPlaces) return;
    serve(one);
  }
}

void Answerer::serve(const std::shared_ptr<Proven>& one) {
  one->served = true;
  one->deadline = SteadyClock().now() + service_.connection_max;
  std::thread([this, one] {
    service_.serve(one->connection, service_.folder);
    one->ended = true;
    const std::uint64_t count = 1;
    std::ignore = ::write(wake_.get(), &count, sizeof count);
  }).detach();
}

}  // namespace paddle::agent

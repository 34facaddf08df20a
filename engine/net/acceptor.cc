#include "engine/net/acceptor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"

namespace paddle::net {
namespace {

constexpr Duration kAcceptTick = std::chrono::milliseconds(100);
constexpr Duration kPauseWithoutDescriptors = std::chrono::seconds(1);
constexpr Duration kPauseWhileManyWait = std::chrono::milliseconds(10);
constexpr std::size_t kSourcesMax = 4096;  // addresses counted in one tick

int poll_timeout(TimePoint until, TimePoint now) {
  return static_cast<int>(
      std::chrono::ceil<std::chrono::milliseconds>(std::max(until - now, Duration())).count());
}

}  // namespace

bool AcceptLimiter::allows(const CallerSource& source, TimePoint now) {
  if (now >= tick_end_) {
    tick_end_ = now + kAcceptTick;
    accepted_ = 0;
    by_source_.clear();
  }
  ++accepted_;
  if (by_source_.size() >= kSourcesMax && !by_source_.contains(source)) return false;
  return ++by_source_[source] <= kAcceptsPerTickAndSource;
}

TimePoint AcceptLimiter::next(TimePoint now) const {
  return accepted_ >= kAcceptsPerTick && now < tick_end_ ? tick_end_ : now;
}

Status Acceptor::open() {
  stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return stop_ ? Status() : system_error(Errc::kResource, "eventfd");
}

void Acceptor::start(int listener, OnAccept on_accept) {
  thread_ = std::thread([this, listener, stop_fd = stop_.get(), call = std::move(on_accept)] {
    run(listener, stop_fd, call);
  });
}

void Acceptor::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void Acceptor::run(int listener, int stop_fd, const OnAccept& on_accept) {
  const SteadyClock clock;
  AcceptLimiter limiter;
  TimePoint pause_until{};
  for (;;) {
    // During a pause only stop() wakes this thread; connections wait in the kernel's queue.
    const TimePoint now = clock.now();
    if (waiting_ >= kAcceptedWaitingMax) {
      pause_until = std::max(pause_until, now + kPauseWhileManyWait);
    }
    const bool pauses = now < pause_until;
    pollfd items[] = {{stop_fd, POLLIN, 0}, {pauses ? -1 : listener, POLLIN, 0}};
    const int ready = ::poll(items, 2, pauses ? poll_timeout(pause_until, now) : -1);
    if (ready < 0 && errno != EINTR) return;
    if (items[0].revents != 0) return;
    if (pauses || ready <= 0) continue;
    asio::ip::tcp::endpoint from;
    auto size = static_cast<socklen_t>(from.capacity());
    UniqueFd socket(::accept4(listener, from.data(), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
      log_warning("accept: {}", system_error(Errc::kResource, "accept4").message);
      pause_until = now + kPauseWithoutDescriptors;
      continue;
    }
    from.resize(size);
    const bool allowed = limiter.allows(source_of(from.data()), now);
    pause_until = limiter.next(now);
    if (!allowed) continue;
    ++waiting_;
    on_accept(std::move(socket), from);
  }
}

}  // namespace paddle::net

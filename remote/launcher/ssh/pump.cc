#include "remote/launcher/ssh/pump.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "remote/launcher/ssh/channel.h"

namespace paddle::remote {

void StderrTail::append(std::string_view text) {
  const std::lock_guard lock(mutex_);
  tail_.append(text);
  if (tail_.size() > kStderrTailBytes) tail_.erase(0, tail_.size() - kStderrTailBytes);
}

std::string StderrTail::text() const {
  const std::lock_guard lock(mutex_);
  return tail_;
}

Result<std::shared_ptr<SshPump>> SshPump::start(SshConnection connection) {
  std::shared_ptr<SshPump> pump(new SshPump(std::move(connection)));
  pump->wake_fd_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!pump->wake_fd_) return system_error(Errc::kResource, "eventfd");
  ssh_session session = pump->connection_.session.get();
  ssh_set_blocking(session, 0);
  pump->event_ = ssh_event_new();
  if (pump->event_ == nullptr || ssh_event_add_session(pump->event_, session) != SSH_OK) {
    return Error{Errc::kResource, "libssh: out of memory", ""};
  }
  ssh_set_counters(session, &pump->socket_bytes_, nullptr);
  // The thread inherits a mask without signals: they belong to the program's main thread.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pump->thread_ = std::thread([raw = pump.get()] { raw->run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return pump;
}

SshPump::SshPump(SshConnection connection) : connection_(std::move(connection)) {}

SshPump::~SshPump() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake();
    thread_.join();
  }
  channels_.clear();
  if (event_ != nullptr) {
    ssh_event_remove_session(event_, connection_.session.get());
    ssh_event_free(event_);
  }
  ssh_set_counters(connection_.session.get(), nullptr, nullptr);
}

Result<Channel> SshPump::open(ChannelRequest request, TimePoint deadline) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return system_error(Errc::kResource, "socketpair");
  }
  UniqueFd ours(pair[0]), theirs(pair[1]);
  auto tail = std::make_shared<StderrTail>();
  auto channel =
      std::make_unique<SshChannel>(std::move(request), deadline, std::move(theirs), tail);
  std::future<Status> opened = channel->opened();
  {
    const std::lock_guard lock(mutex_);
    if (!lost_.empty()) {
      return Error{Errc::kUnreachable, fmt::format("{}: {}", connection_.label, lost_), ""};
    }
    if (open_channels_ >= kMaxChannels) {
      return Error{Errc::kResource,
                   fmt::format("{}: {} channels are open already", connection_.label, kMaxChannels),
                   ""};
    }
    ++open_channels_;
    requests_.push_back(std::move(channel));
  }
  wake();
  // The thread answers every request by its deadline, or when the session ends.
  PADDLE_TRY_STATUS(opened.get().with(connection_.label));
  return Channel{shared_from_this(), [tail] { return tail->text(); }, std::move(ours)};
}

void SshPump::wake() const {
  const std::uint64_t one = 1;
  // A full counter means that a wake-up is pending already.
  [[maybe_unused]] const ssize_t put = ::write(wake_fd_.get(), &one, sizeof one);
}

bool SshPump::take_requests() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_fd_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  for (auto& request : requests_) channels_.push_back(std::move(request));
  requests_.clear();
  const std::size_t before = channels_.size();
  std::erase_if(channels_, [](const auto& channel) { return channel->done(); });
  open_channels_ -= before - channels_.size();
  return !stop_;
}

void SshPump::run() {
  ssh_session session = connection_.session.get();
  while (take_requests()) {
    // A step of one channel may read packets of another from the socket, so a pass counts as idle
    // only when neither a channel moved nor the socket gave anything.
    const std::uint64_t bytes_before = socket_bytes_.in_bytes;
    bool moved = ssh_event_dopoll(event_, 0) == SSH_ERROR;
    const TimePoint now = SteadyClock().now();
    bool is_closing = false;
    for (auto& channel : channels_) {
      // A server that allows one session takes the next one when it has closed the last.
      if (is_closing && channel->is_new() && channel->waits(now)) continue;
      moved |= channel->step(session, now);
      is_closing |= channel->is_closing();
    }
    if (session_lost(session)) break;
    if (!moved && socket_bytes_.in_bytes == bytes_before) wait_for_work();
  }
  end_session();
}

void SshPump::wait_for_work() {
  ssh_session session = connection_.session.get();
  std::vector<pollfd> items;
  items.push_back({wake_fd_.get(), POLLIN, 0});
  const bool write_pending = (ssh_get_poll_flags(session) & SSH_WRITE_PENDING) != 0;
  items.push_back(
      {ssh_get_fd(session), static_cast<short>(POLLIN | (write_pending ? POLLOUT : 0)), 0});
  TimePoint next = TimePoint::max();
  for (const auto& channel : channels_) {
    if (channel->opening()) next = std::min(next, channel->deadline());
    if (channel->is_new()) next = std::min(next, channel->next_try(SteadyClock().now()));
    // poll() reports a hang-up even for no events, so a socket that cannot help is left out.
    if (const short events = channel->wanted(write_pending); events != 0) {
      items.push_back({channel->local(), events, 0});
    }
  }
  ::poll(items.data(), items.size(), next == TimePoint::max() ? -1 : milliseconds_until(next));
}

void SshPump::end_session() {
  ssh_session session = connection_.session.get();
  const char* error = ssh_get_error(session);
  const std::string why =
      error != nullptr && *error != '\0' ? escape_control(error) : "closed by the server";
  const std::lock_guard lock(mutex_);
  lost_ = why;
  for (auto& request : requests_) channels_.push_back(std::move(request));
  requests_.clear();
  for (auto& channel : channels_) channel->fail(why);
}

}  // namespace paddle::remote

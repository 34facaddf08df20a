#include "remote/launcher/ssh_pump.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <libssh/libssh.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/text.h"
#include "base/thread.h"

namespace paddle::remote {
namespace {

// A server that limits the sessions of a connection (MaxSessions) still counts a session shortly
// after both ends have closed it. An opening that the server refuses is therefore repeated every
// kRetryEvery, for kRefusedMax.
constexpr auto kRefusedMax = std::chrono::seconds(10);
// A new channel waits at most this long for a closing one, since the command of that one may
// continue.
constexpr auto kCloseMax = std::chrono::seconds(1);
constexpr auto kRetryEvery = std::chrono::milliseconds(50);

// True when the connection is closed or broken.
bool session_lost(ssh_session session) {
  return ssh_is_connected(session) == 0 ||
         (ssh_get_status(session) & (SSH_CLOSED | SSH_CLOSED_ERROR)) != 0;
}

}  // namespace

struct SshChannelFree {
  void operator()(ssh_channel channel) const { ssh_channel_free(channel); }
};

// One channel of a session and the local socket it is bridged to. Belongs to the pump's thread.
class SshChannel {
 public:
  SshChannel(ChannelRequest request, TimePoint deadline, UniqueFd local,
             std::shared_ptr<StderrTail> tail);

  std::future<Status> opened() { return opened_.get_future(); }
  TimePoint deadline() const { return deadline_; }  // for opening the channel
  bool opening() const {
    return stage_ == Stage::kNew || stage_ == Stage::kOpening || stage_ == Stage::kRequesting;
  }
  bool done() const { return stage_ == Stage::kDone; }
  // True while the server has not received a request for this channel.
  bool is_new() const { return stage_ == Stage::kNew; }
  // The caller has closed the channel and the server has not: the server still counts the session
  // towards MaxSessions.
  bool is_closing() const {
    return stage_ == Stage::kRunning && local_eof_ && !request_.command.empty();
  }
  // Whether this new channel still waits for closing ones.
  bool waits(TimePoint now);
  // The time at which a new channel must be stepped again even if no bytes moved.
  TimePoint next_try(TimePoint now) const;

  // Moves bytes as far as possible without blocking; true when any moved.
  bool step(ssh_session session, TimePoint now);
  // The events to poll the local socket for; 0: none. While libssh has unsent bytes
  // (SSH_WRITE_PENDING), nothing is read from the socket.
  short wanted(bool write_pending) const;
  int local() const { return local_.get(); }
  // Ends the channel: fails the opening, or leaves `why` in the stderr tail.
  void fail(const std::string& why, const std::string& hint = "");

 private:
  enum class Stage { kNew, kOpening, kRequesting, kRunning, kDone };
  static constexpr std::size_t kChunkBytes = 32U << 10U;

  bool step_open(ssh_session session, TimePoint now);
  int advance_open(ssh_session session);
  bool tries_again(TimePoint now);
  std::string refusal_hint() const;
  bool move_to_remote(ssh_session session);
  bool move_to_local();
  bool move_stderr();
  bool finish();
  bool write_local();

  ChannelRequest request_;
  TimePoint deadline_;
  UniqueFd local_;
  std::shared_ptr<StderrTail> tail_;
  std::promise<Status> opened_;
  Stage stage_ = Stage::kNew;
  TimePoint retry_at_{};
  std::optional<TimePoint> asked_at_;    // when it first waited for a closing channel
  std::optional<TimePoint> refused_at_;  // when the server first refused it
  std::unique_ptr<ssh_channel_struct, SshChannelFree> channel_;

  std::array<char, kChunkBytes> to_remote_;
  std::size_t remote_begin_ = 0, remote_end_ = 0;
  std::array<char, kChunkBytes> to_local_;
  std::size_t local_begin_ = 0, local_end_ = 0;
  bool local_eof_ = false;  // the caller sends no more
  bool eof_sent_ = false;
  bool local_closed_ = false;  // the caller reads no more: output is dropped
  bool output_ended_ = false;  // the remote sends no more
};

SshChannel::SshChannel(ChannelRequest request, TimePoint deadline, UniqueFd local,
                       std::shared_ptr<StderrTail> tail)
    : request_(std::move(request)),
      deadline_(deadline),
      local_(std::move(local)),
      tail_(std::move(tail)) {}

bool SshChannel::step(ssh_session session, TimePoint now) {
  if (stage_ == Stage::kDone) return false;
  if (opening()) return step_open(session, now);
  bool moved = move_to_remote(session);
  moved |= move_to_local();
  const bool had_stderr = move_stderr();
  moved |= had_stderr;
  // A lost session looks like the end of output; let the pump report the loss first.
  if (session_lost(session)) return false;
  return (!had_stderr && finish()) || moved;
}

// One non-blocking step of opening: SSH_OK on progress, SSH_AGAIN to wait for the server.
int SshChannel::advance_open(ssh_session session) {
  switch (stage_) {
    case Stage::kNew:
      channel_.reset(ssh_channel_new(session));
      if (!channel_) return SSH_ERROR;
      stage_ = Stage::kOpening;
      return SSH_OK;
    case Stage::kOpening: {
      const int code = request_.command.empty()
                           ? ssh_channel_open_forward(channel_.get(), request_.forward_host.c_str(),
                                                      request_.forward_port, "127.0.0.1", 0)
                           : ssh_channel_open_session(channel_.get());
      if (code != SSH_OK) return code;
      stage_ = request_.command.empty() ? Stage::kRunning : Stage::kRequesting;
      return SSH_OK;
    }
    case Stage::kRequesting: {
      const int code = ssh_channel_request_exec(channel_.get(), request_.command.c_str());
      if (code == SSH_OK) stage_ = Stage::kRunning;
      return code;
    }
    default:
      return SSH_ERROR;
  }
}

bool SshChannel::waits(TimePoint now) {
  if (request_.command.empty()) return false;  // a forwarded connection is not a session
  if (!asked_at_) asked_at_ = now;
  return now < *asked_at_ + kCloseMax && now < deadline_;
}

TimePoint SshChannel::next_try(TimePoint now) const {
  if (retry_at_ > now) return retry_at_;
  return asked_at_ && *asked_at_ + kCloseMax > now ? *asked_at_ + kCloseMax : TimePoint::max();
}

std::string SshChannel::refusal_hint() const {
  if (request_.command.empty()) {
    return fmt::format(
        "the bastion must be able to connect to {} port {}, and its sshd must allow that "
        "(AllowTcpForwarding, PermitOpen)",
        request_.forward_host, request_.forward_port);
  }
  return "sshd there accepts the login but allows no session: set MaxSessions in its sshd_config "
         "to 1 or more (`sshd -T | grep -i maxsessions` shows it)";
}

bool SshChannel::tries_again(TimePoint now) {
  if (request_.command.empty()) return false;
  if (!refused_at_) refused_at_ = now;
  if (now >= deadline_ || now >= *refused_at_ + kRefusedMax) return false;
  retry_at_ = now + kRetryEvery;
  stage_ = Stage::kNew;
  channel_.reset();
  return true;
}

bool SshChannel::step_open(ssh_session session, TimePoint now) {
  if (now < retry_at_) return false;
  const int code = advance_open(session);
  if (code == SSH_OK) {
    if (stage_ == Stage::kRunning) opened_.set_value({});
    return true;
  }
  if (code == SSH_AGAIN && now < deadline_) return false;
  const bool is_refused = code == SSH_ERROR && stage_ == Stage::kOpening && !session_lost(session);
  if (is_refused && tries_again(now)) return false;
  fail(code == SSH_AGAIN ? "no answer before the deadline" : escape_control(ssh_get_error(session)),
       is_refused ? refusal_hint() : "");
  return true;
}

bool SshChannel::move_to_remote(ssh_session session) {
  // libssh queues bytes that the socket does not take in a buffer that it moves and clears at each
  // step, which is expensive for a long queue.
  if ((ssh_get_poll_flags(session) & SSH_WRITE_PENDING) != 0) return false;
  bool moved = false;
  if (remote_begin_ == remote_end_ && !local_eof_ && ssh_channel_window_size(channel_.get()) > 0) {
    const ssize_t got = ::recv(local_.get(), to_remote_.data(), to_remote_.size(), MSG_DONTWAIT);
    if (got > 0) {
      remote_begin_ = 0;
      remote_end_ = static_cast<std::size_t>(got);
      moved = true;
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      local_eof_ = true;
      moved = true;
    }
  }
  const std::size_t window = ssh_channel_window_size(channel_.get());
  if (const std::size_t size = std::min(remote_end_ - remote_begin_, window); size > 0) {
    const int put = ssh_channel_write(channel_.get(), to_remote_.data() + remote_begin_,
                                      static_cast<std::uint32_t>(size));
    if (put > 0) {
      remote_begin_ += static_cast<std::size_t>(put);
      moved = true;
    } else if (put == SSH_ERROR) {  // the channel is closed; unsent bytes are lost
      remote_begin_ = remote_end_;
      local_eof_ = eof_sent_ = true;
      moved = true;
    }
  }
  if (local_eof_ && !eof_sent_ && remote_begin_ == remote_end_) {
    ssh_channel_send_eof(channel_.get());
    eof_sent_ = true;
    moved = true;
  }
  return moved;
}

bool SshChannel::write_local() {
  while (local_begin_ < local_end_ && !local_closed_) {
    const ssize_t put = ::send(local_.get(), to_local_.data() + local_begin_,
                               local_end_ - local_begin_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put > 0) {
      local_begin_ += static_cast<std::size_t>(put);
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      local_closed_ = true;
    }
  }
  local_begin_ = local_end_ = 0;
  return true;
}

bool SshChannel::move_to_local() {
  // Reading only into an empty buffer gives back-pressure: the window closes while the caller does
  // not read.
  if (local_begin_ < local_end_ && !write_local()) return false;
  if (output_ended_) return false;
  const int got = ssh_channel_read_nonblocking(channel_.get(), to_local_.data(),
                                               static_cast<std::uint32_t>(to_local_.size()), 0);
  if (got > 0) {
    local_end_ = static_cast<std::size_t>(got);
    write_local();
    return true;
  }
  output_ended_ = got < 0;
  return output_ended_;
}

bool SshChannel::move_stderr() {
  std::array<char, kStderrTailBytes> chunk;
  const int got = ssh_channel_read_nonblocking(channel_.get(), chunk.data(),
                                               static_cast<std::uint32_t>(chunk.size()), 1);
  if (got > 0) tail_->append({chunk.data(), static_cast<std::size_t>(got)});
  return got > 0;
}

// Forwards the end of output once all output, stderr included, has been read.
bool SshChannel::finish() {
  if (!output_ended_ || local_begin_ < local_end_) return false;
  const bool closed = ssh_channel_is_closed(channel_.get()) != 0;
  if (!closed && local_closed_) return false;
  if (!closed) {
    ::shutdown(local_.get(), SHUT_WR);
    local_closed_ = true;
    return true;
  }
  stage_ = Stage::kDone;
  channel_.reset();
  local_.reset();
  return true;
}

short SshChannel::wanted(bool write_pending) const {
  if (stage_ != Stage::kRunning) return 0;
  short events = 0;
  if (local_begin_ < local_end_ && !local_closed_) events |= POLLOUT;
  if (!write_pending && remote_begin_ == remote_end_ && !local_eof_ &&
      ssh_channel_window_size(channel_.get()) > 0) {
    events |= POLLIN;
  }
  return events;
}

void SshChannel::fail(const std::string& why, const std::string& hint) {
  if (stage_ == Stage::kDone) return;
  if (opening()) {
    opened_.set_value(Error{Errc::kUnreachable, "opening a channel: " + why, hint});
  } else {
    tail_->append(fmt::format("\nconnection lost: {}\n", why));
  }
  stage_ = Stage::kDone;
  channel_.reset();
  local_.reset();
}

// The pump.

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
  pump->thread_ = thread_without_signals([raw = pump.get()] { raw->run(); });
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
    if (!loss_reason_.empty()) {
      return Error{Errc::kUnreachable, fmt::format("{}: {}", connection_.label, loss_reason_), ""};
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

bool SshPump::accept_requests() {
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
  while (accept_requests()) {
    // A step of one channel may read packets of another from the socket, so a pass counts as idle
    // only when neither a channel moved nor the socket gave anything.
    const std::uint64_t bytes_before = socket_bytes_.in_bytes;
    bool moved = ssh_event_dopoll(event_, 0) == SSH_ERROR;
    const TimePoint now = SteadyClock().now();
    bool is_closing = false;
    for (auto& channel : channels_) {
      // A server that allows one session accepts the next one only after it has closed the last
      // one.
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
    // poll() reports a hang-up even for no events, so a socket without wanted events is left out.
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
  loss_reason_ = why;
  for (auto& request : requests_) channels_.push_back(std::move(request));
  requests_.clear();
  for (auto& channel : channels_) channel->fail(why);
}

}  // namespace paddle::remote

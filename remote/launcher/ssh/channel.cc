#include "remote/launcher/ssh/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::remote {

namespace {

// A server that allows few sessions a connection (MaxSessions) counts one for a moment after both
// ends have closed it. So long an opening that it refuses is tried again, so often.
constexpr auto kRefusedMax = std::chrono::seconds(10);
// A new channel waits so long for one that closes: the command of that may go on.
constexpr auto kCloseMax = std::chrono::seconds(1);
constexpr auto kRetryEvery = std::chrono::milliseconds(50);

}  // namespace

bool session_lost(ssh_session session) {
  return ssh_is_connected(session) == 0 ||
         (ssh_get_status(session) & (SSH_CLOSED | SSH_CLOSED_ERROR)) != 0;
}

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
  if (request_.command.empty()) return false;  // no session, but a connection further on
  if (!asked_at_) asked_at_ = now;
  return now < *asked_at_ + kCloseMax && now < deadline_;
}

TimePoint SshChannel::next_try(TimePoint now) const {
  if (retry_at_ > now) return retry_at_;
  return asked_at_ && *asked_at_ + kCloseMax > now ? *asked_at_ + kCloseMax : TimePoint::max();
}

bool SshChannel::tries_again(TimePoint now) {
  if (stage_ != Stage::kOpening || request_.command.empty()) return false;
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
  if (code == SSH_ERROR && !session_lost(session) && tries_again(now)) return false;
  fail(code == SSH_AGAIN ? "no answer before the deadline"
                         : escape_control(ssh_get_error(session)));
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

void SshChannel::fail(const std::string& why) {
  if (stage_ == Stage::kDone) return;
  if (opening()) {
    opened_.set_value(Error{Errc::kUnreachable, "opening a channel: " + why, ""});
  } else {
    tail_->append(fmt::format("\nconnection lost: {}\n", why));
  }
  stage_ = Stage::kDone;
  channel_.reset();
  local_.reset();
}

}  // namespace paddle::remote

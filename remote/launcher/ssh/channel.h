// One channel of a session and the local socket it is bridged to. Belongs to the pump's thread.
#pragma once

#include <array>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include <libssh/libssh.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "remote/launcher/ssh/pump.h"

namespace paddle::remote {

struct SshChannelFree {
  void operator()(ssh_channel channel) const { ssh_channel_free(channel); }
};

// True when the connection is closed or broken.
bool session_lost(ssh_session session);

class SshChannel {
 public:
  SshChannel(ChannelRequest request, TimePoint deadline, UniqueFd local,
             std::shared_ptr<StderrTail> tail);

  std::future<Status> opened() { return opened_.get_future(); }
  TimePoint deadline() const { return deadline_; }  // of opening
  bool opening() const {
    return stage_ == Stage::kNew || stage_ == Stage::kOpening || stage_ == Stage::kRequesting;
  }
  bool done() const { return stage_ == Stage::kDone; }
  // It has not asked the server for anything yet.
  bool is_new() const { return stage_ == Stage::kNew; }
  // Its caller has closed it, and the server has not: a session that a server with MaxSessions
  // counts.
  bool is_closing() const {
    return stage_ == Stage::kRunning && local_eof_ && !request_.command.empty();
  }
  // Whether a new one still waits for others that close.
  bool waits(TimePoint now);
  // When a new one is to be stepped again, although nothing moved.
  TimePoint next_try(TimePoint now) const;

  // Moves bytes as far as possible without blocking; true when any moved.
  bool step(ssh_session session, TimePoint now);
  // The events to poll the local socket for; 0: none. While libssh has unsent bytes
  // (SSH_WRITE_PENDING) no more are read.
  short wanted(bool write_pending) const;
  int local() const { return local_.get(); }
  // Ends the channel of a lost session: fails the opening, or leaves `why` in the stderr tail.
  void fail(const std::string& why);

 private:
  enum class Stage { kNew, kOpening, kRequesting, kRunning, kDone };
  static constexpr std::size_t kChunkBytes = 32U << 10U;

  bool step_open(ssh_session session, TimePoint now);
  int advance_open(ssh_session session);
  bool tries_again(TimePoint now);
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
  std::optional<TimePoint> asked_at_;    // while another one was closing
  std::optional<TimePoint> refused_at_;  // by the server, first
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

}  // namespace paddle::remote

// One channel of a session and the local socket it is bridged to. Belongs to the pump's thread.
#pragma once

#include <array>
#include <future>
#include <memory>
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

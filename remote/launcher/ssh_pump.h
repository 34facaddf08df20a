// The bridge between the channels of an SSH session and local sockets. Only its thread touches the
// session.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "remote/launcher/launcher.h"
#include "remote/launcher/ssh_config.h"

namespace paddle::remote {

constexpr std::size_t kStderrTailBytes = 4096;
constexpr std::size_t kMaxChannels = 8;  // below sshd's default MaxSessions of 10

class SshChannel;

class StderrTail {
 public:
  void append(std::string_view text);
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::string tail_;
};

// The content of a channel: a command's stdin and stdout, or a TCP connection made by the server.
struct ChannelRequest {
  std::string command;  // to run; "": forward to forward_host
  std::string forward_host;
  std::uint16_t forward_port = 0;
};

struct SshConnection {
  std::shared_ptr<void> transport;  // a jump host's channel, if any; outlives the session
  SshHandle session;                // authenticated
  std::string label;                // "host:port", for errors
};

class SshPump : public std::enable_shared_from_this<SshPump> {
 public:
  static Result<std::shared_ptr<SshPump>> start(SshConnection connection);
  ~SshPump();  // closes every channel and the session
  SshPump(const SshPump&) = delete;
  SshPump& operator=(const SshPump&) = delete;

  // Opens a channel; kUnreachable when the session is lost or the deadline passes, kResource above
  // kMaxChannels.
  Result<Channel> open(ChannelRequest request, TimePoint deadline);

 private:
  explicit SshPump(SshConnection connection);

  void run();
  bool accept_requests();  // false: stop
  void wait_for_work();
  void end_session();
  void wake() const;

  SshConnection connection_;
  ssh_event event_ = nullptr;
  ssh_counter_struct socket_bytes_{};
  UniqueFd wake_fd_;
  std::vector<std::unique_ptr<SshChannel>> channels_;  // used only by thread_

  std::mutex mutex_;
  std::vector<std::unique_ptr<SshChannel>> requests_;  // guarded by mutex_, as are the next three
  std::size_t open_channels_ = 0;
  bool stop_ = false;
  std::string loss_reason_;  // why the session ended
  std::thread thread_;
};

}  // namespace paddle::remote

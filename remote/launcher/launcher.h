// A way to reach a node. It starts programs there and hands back a channel; everything after that
// is the same for all.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "remote/launcher/login_answers.h"
#include "remote/launcher/node.h"

namespace paddle::remote {

// A running remote command's stdin and stdout as one socket. Closing it ends the command's input.
struct Channel {
  std::shared_ptr<void> keep_alive;          // whatever pumps the channel
  std::function<std::string()> stderr_tail;  // the last 4 KiB the command wrote to stderr
  UniqueFd fd;  // last, so that it closes first: the command ends with its input
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  // Runs one of bootstrap's constant command lines through the node's shell.
  virtual Result<Channel> run(const std::string& constant_command, TimePoint deadline) = 0;
};

Result<std::unique_ptr<Launcher>> make_local_launcher(const NodeSpec& node);
// Connects and authenticates; kAuth with the fingerprint and the next step when the host key is
// unknown or changed. Without a login nothing is tried but keys.
Result<std::unique_ptr<Launcher>> make_ssh_launcher(const NodeSpec& node, TimePoint deadline,
                                                    Login* login = nullptr);

}  // namespace paddle::remote

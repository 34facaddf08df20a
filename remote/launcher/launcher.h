// The ways to a node. A launcher starts programs on it and returns their channels; everything above
// is the same for all launchers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "remote/launcher/login_answers.h"
#include "remote/launcher/node.h"

namespace paddle::remote {

// Stdin and stdout of a running remote command as one socket. Closing it ends the command's input.
struct Channel {
  std::shared_ptr<void> keep_alive;          // owns the thread or process that moves the bytes
  std::function<std::string()> stderr_tail;  // the last 4 KiB that the command wrote to stderr
  UniqueFd fd;  // last, so that it closes first: the command ends with its input
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  // Runs one of bootstrap's constant command lines in the node's shell.
  virtual Result<Channel> run(const std::string& constant_command, TimePoint deadline) = 0;
};

struct LauncherKind {
  std::string_view name;  // NodeSpec::launcher
  Result<std::unique_ptr<Launcher>> (*make)(const NodeSpec& node, TimePoint deadline, Login* login);
};
// All launchers, the default first.
std::span<const LauncherKind> launcher_kinds();
// Without a login no launcher asks a person anything. kUsage for a launcher that is not in the
// table.
Result<std::unique_ptr<Launcher>> make_launcher(const NodeSpec& node, TimePoint deadline,
                                                Login* login);

// Commands of this machine's shell.
Result<std::unique_ptr<Launcher>> make_local_launcher(const NodeSpec& node, TimePoint deadline = {},
                                                      Login* login = nullptr);
// Commands of a shell on the node, which the program NodeSpec::command gives. kUnreachable with the
// program's name, exit status and last words when it does not.
Result<std::unique_ptr<Launcher>> make_command_launcher(const NodeSpec& node, TimePoint deadline,
                                                        Login* login);
// Connects and authenticates; kAuth with the fingerprint and the next step when the host key is
// unknown or changed. Without a login only keys are tried.
Result<std::unique_ptr<Launcher>> make_ssh_launcher(const NodeSpec& node, TimePoint deadline,
                                                    Login* login = nullptr);

}  // namespace paddle::remote

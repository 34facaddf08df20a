// The SSH launcher: one session to the node, a channel for each command.
#include <libssh/libssh.h>

#include "remote/launcher/launcher.h"
#include "remote/launcher/ssh_pump.h"
#include "remote/launcher/ssh_session.h"

namespace paddle::remote {
namespace {

class SshLauncher final : public Launcher {
 public:
  SshLauncher(std::string name, std::shared_ptr<SshPump> pump)
      : name_(std::move(name)), pump_(std::move(pump)) {}

  Result<Channel> run(const std::string& constant_command, TimePoint deadline) override {
    return pump_->open({constant_command, "", 0}, deadline).with(name_);
  }

 private:
  std::string name_;
  std::shared_ptr<SshPump> pump_;
};

}  // namespace

Result<std::unique_ptr<Launcher>> make_ssh_launcher(const NodeSpec& node, TimePoint deadline,
                                                    Login* login) {
  PADDLE_TRY(auto connection, open_session(node, deadline, login).with(node.name));
  PADDLE_TRY(std::shared_ptr<SshPump> pump, SshPump::start(std::move(connection)));
  return std::unique_ptr<Launcher>(std::make_unique<SshLauncher>(node.name, std::move(pump)));
}

std::string ssh_library() {
  return std::string("libssh ") + ::ssh_version(0);
}

}  // namespace paddle::remote

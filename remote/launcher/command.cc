// The command launcher: runs a program of the user's that connects its stdin and stdout to a shell
// on the node, such as `podman exec -i`, `kubectl exec -i`, `sudo -u`, `nsenter` or OpenSSH's ssh.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "remote/launcher/child_program.h"
#include "remote/launcher/launcher.h"

namespace paddle::remote {
namespace {

constexpr const char* kShell = "/bin/sh";  // appended to the user's arguments
constexpr const char* kReady = "PADDLECTL-SHELL";

class CommandLauncher final : public Launcher {
 public:
  explicit CommandLauncher(const NodeSpec& node) : node_(node.name), arguments_(node.command) {
    arguments_.emplace_back(kShell);
  }

  // Writes the line to the shell's stdin, so that no program on the way splits or quotes it. A
  // shell may read ahead; the channel is returned only when the line runs: by then the shell has
  // read all of it.
  Result<Channel> run(const std::string& constant_command, TimePoint deadline) override {
    const std::string& name = arguments_.front();
    UniqueFd fd;
    auto program = ChildProgram::start(arguments_, fd);
    if (!program) return failed(Errc::kUnreachable, program.error().message);
    Channel channel{*program, [child = *program, name] { return child->describe_end(name); },
                    std::move(fd)};
    PADDLE_TRY_STATUS(set_nonblocking(channel.fd.get()));
    const std::string line = fmt::format("echo; echo {}; {}\n", kReady, constant_command);
    // If the program does not accept the line, its output and status below show why.
    (void)write_all(channel.fd.get(), as_bytes(line), deadline);
    const auto ready = skip_to_line(channel.fd.get(), kReady, deadline);
    if (ready) return channel;
    return failed(ready.error().code,
                  fmt::format("the shell on the node did not start: {} ({})", ready.error().message,
                              escape_control(channel.stderr_tail())));
  }

 private:
  Error failed(Errc code, const std::string& message) const {
    return Error{
        code, node_ + ": " + message,
        fmt::format(
            "run it by hand: {}; it must not ask for input, such as a password, because its "
            "stdin is the channel",
            fmt::join(arguments_, " "))};
  }

  std::string node_;
  std::vector<std::string> arguments_;
};

}  // namespace

Result<std::unique_ptr<Launcher>> make_command_launcher(const NodeSpec& node,
                                                        TimePoint /*deadline*/, Login* /*login*/) {
  return std::unique_ptr<Launcher>(std::make_unique<CommandLauncher>(node));
}

}  // namespace paddle::remote

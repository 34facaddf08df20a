// The local launcher: this machine's shell behind a socket pair, so that everything above it works
// as on SSH nodes.
#include "remote/launcher/child_program.h"
#include "remote/launcher/launcher.h"

namespace paddle::remote {
namespace {

class LocalLauncher final : public Launcher {
 public:
  Result<Channel> run(const std::string& constant_command, TimePoint /*deadline*/) override {
    UniqueFd fd;
    PADDLE_TRY(const auto program, ChildProgram::start({"/bin/sh", "-c", constant_command}, fd));
    return Channel{program, [program] { return program->stderr_tail(); }, std::move(fd)};
  }
};

}  // namespace

Result<std::unique_ptr<Launcher>> make_local_launcher(const NodeSpec& /*node*/,
                                                      TimePoint /*deadline*/, Login* /*login*/) {
  return std::unique_ptr<Launcher>(std::make_unique<LocalLauncher>());
}

}  // namespace paddle::remote

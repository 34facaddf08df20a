#include "remote/launcher/launcher.h"

#include <algorithm>
#include <array>

namespace paddle::remote {
namespace {

constexpr auto kKinds = std::to_array<LauncherKind>({
    {"ssh", make_ssh_launcher},
    {"local", make_local_launcher},
    {"command", make_command_launcher},
});

}  // namespace

std::span<const LauncherKind> launcher_kinds() {
  return kKinds;
}

Result<std::unique_ptr<Launcher>> make_launcher(const NodeSpec& node, TimePoint deadline,
                                                Login* login) {
  const auto kind = std::ranges::find(kKinds, node.launcher, &LauncherKind::name);
  if (kind != kKinds.end()) return kind->make(node, deadline, login);
  return Error{Errc::kUsage, "there is no launcher '" + node.launcher + "'", ""};
}

}  // namespace paddle::remote

#include "remote/launcher/launcher.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/text.h"

namespace paddle::remote {
namespace {

constexpr std::size_t kLineShownMax = 200;

constexpr auto kKinds = std::to_array<LauncherKind>({
    {"ssh", make_ssh_launcher},
    {"local", make_local_launcher},
    {"command", make_command_launcher},
});

// The error for a refusal by bootstrap's shell code; `why` may contain messages of the node's own
// programs.
Error refused(std::string why) {
  const std::string_view lack = hint_for_lack(why);
  if (why.ends_with(" was removed meanwhile")) {
    return {Errc::kUnreachable, std::move(why),
            "run the same command again when paddlectl teardown has ended"};
  }
  // The check failed on the node, or a part of the folder was removed meanwhile.
  if (why.ends_with(" cannot be checked"))
    return {Errc::kFailed, std::move(why), "run the same command again"};
  if (lack.empty()) return {Errc::kAuth, std::move(why), "choose another workdir"};
  return {Errc::kResource, std::move(why),
          fmt::format("{}; or set another `workdir` in the cluster file", lack)};
}

}  // namespace

std::span<const LauncherKind> launcher_kinds() {
  return kKinds;
}

Error with_stderr(Error error, const Channel& channel) {
  std::string tail = channel.stderr_tail ? channel.stderr_tail() : "";
  while (tail.ends_with('\n')) tail.pop_back();
  if (tail.empty()) return error;
  error.message += " (" + escape_control(tail.substr(tail.rfind('\n') + 1)) + ")";
  return error;
}

Result<std::unique_ptr<Launcher>> make_launcher(const NodeSpec& node, TimePoint deadline,
                                                Login* login) {
  const auto kind = std::ranges::find(kKinds, node.launcher, &LauncherKind::name);
  if (kind != kKinds.end()) return kind->make(node, deadline, login);
  return Error{Errc::kUsage, "unknown launcher '" + node.launcher + "'", ""};
}

Result<std::string> skip_to_line(int fd, const std::string& prefix, TimePoint deadline) {
  std::string line;
  std::string last;
  for (std::size_t noise = 0; noise < kNoiseBytesMax; ++noise) {
    std::byte byte{};
    auto got = read_exact(fd, std::span(&byte, 1), deadline);
    if (!got) {
      Error error = std::move(got).error();
      if (!line.empty()) last = line.substr(0, kLineShownMax);
      if (!last.empty()) error.message += "; its last output was '" + escape_control(last) + "'";
      return error;
    }
    if (byte != std::byte{'\n'}) {
      line += static_cast<char>(byte);
      continue;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.starts_with(prefix)) return line.substr(prefix.size());
    if (line.starts_with("PADDLECTL-REFUSED ")) {
      return refused(escape_control(line.substr(18)));
    }
    last = std::exchange(line, {}).substr(0, kLineShownMax);
  }
  return Error{
      Errc::kData,
      fmt::format("there is no '{}' in the first {} bytes of output", prefix, kNoiseBytesMax),
      "check whether a start-up file of the shell prints endless output"};
}

}  // namespace paddle::remote

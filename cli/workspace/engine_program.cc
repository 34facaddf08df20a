#include "cli/workspace/engine_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"

extern char** environ;  // NOLINT: POSIX's name

namespace paddle::cli {
namespace {

constexpr Duration kDeadline = std::chrono::minutes(1);
constexpr std::size_t kOutputBytesMax = 256U << 20U;

Result<pid_t> spawn(const std::string& program, std::vector<std::string>& arguments, int output) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, 1);
  ::posix_spawn_file_actions_adddup2(&actions, output, 2);
  pid_t pid = -1;
  const int failure =
      ::posix_spawn(&pid, program.c_str(), &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure == 0) return pid;
  errno = failure;
  return system_error(Errc::kResource, "start " + program);
}

Result<std::string> read_to_end(int fd) {
  std::string text;
  const TimePoint end = std::chrono::steady_clock::now() + kDeadline;
  std::array<char, 1U << 16U> buffer{};
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd item{fd, POLLIN, 0};
    const int ready = left.count() > 0 ? ::poll(&item, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) return Error{Errc::kInterrupted, "interrupted", ""};
    if (ready <= 0) return Error{Errc::kResource, "paddle takes over a minute", ""};
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0) return system_error(Errc::kResource, "read from paddle");
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kOutputBytesMax) return Error{Errc::kResource, "paddle prints no end", ""};
  }
}

// "paddle: <message>\nhint: <hint>\n", as the engine's main writes it.
Error error_of(int code, std::string text) {
  Error error{static_cast<Errc>(code), std::move(text), ""};
  if (error.message.starts_with("paddle: ")) error.message.erase(0, 8);
  while (error.message.ends_with('\n')) error.message.pop_back();
  const std::size_t hint = error.message.rfind("\nhint: ");
  if (hint == std::string::npos) return error;
  error.hint = error.message.substr(hint + 7);
  error.message.resize(hint);
  return error;
}

}  // namespace

Result<remote::PushItem> engine_item(const std::string& local_path) {
  auto digest = sha256_of_file(local_path);
  if (!digest) {
    Error error = std::move(digest).error().with("the engine that goes to the nodes");
    error.code = Errc::kUsage;
    error.hint = "build it (scripts/build), or keep `paddle` in the same folder as paddlectl";
    return error;
  }
  return remote::PushItem{local_path, "bin/paddle-" + to_hex(*digest).substr(0, 16), true};
}

Result<std::string> run_engine(const std::string& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(Errc::kResource, "pipe");
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  PADDLE_TRY(const pid_t pid, spawn(program, arguments, theirs.get()));
  theirs = UniqueFd();
  auto text = read_to_end(ours.get());
  if (!text) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!text) return text;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  if (!WIFEXITED(status)) {
    return Error{Errc::kFailed, fmt::format("paddle died of signal {}", WTERMSIG(status)), ""};
  }
  return error_of(WEXITSTATUS(status), *std::move(text));
}

Status check_engine_version(const std::string& program) {
  constexpr std::string_view kPrefix = "paddlectl engine ";
  const auto text = run_engine(program, {"version"});
  if (!text || !text->starts_with(kPrefix)) return {};  // running it for real tells more
  const std::string version =
      text->substr(kPrefix.size(), text->find_first_of(",\n") - kPrefix.size());
  if (version == kProgramVersion) return {};
  return Error{
      Errc::kVersion,
      fmt::format("paddle is {}, paddlectl is {}", escape_control(version), kProgramVersion),
      "put both of one release into one folder: " + program + " is what goes to the nodes"};
}

}  // namespace paddle::cli

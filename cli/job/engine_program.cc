#include "cli/job/engine_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

constexpr std::size_t kOutputBytesMax = 256U << 20U;

Result<pid_t> spawn(const std::string& program, std::vector<std::string>& arguments, int output,
                    int error) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, 1);
  ::posix_spawn_file_actions_adddup2(&actions, error, 2);
  pid_t pid = -1;
  const int failure =
      ::posix_spawn(&pid, program.c_str(), &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure == 0) return pid;
  errno = failure;
  return system_error(Errc::kResource, "start " + program);
}

// Reads both pipes to their end.
Result<EngineOutput> read_to_end(int out, int error, const std::optional<Duration>& limit) {
  EngineOutput texts;
  const std::array<std::string*, 2> into{&texts.out, &texts.error};
  std::array<pollfd, 2> open{pollfd{out, POLLIN, 0}, pollfd{error, POLLIN, 0}};
  const TimePoint begun = std::chrono::steady_clock::now();
  std::array<char, 1U << 16U> buffer{};
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    int left_ms = -1;
    if (limit) {
      const auto left = begun + *limit - std::chrono::steady_clock::now();
      left_ms =
          std::max(0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    }
    const int ready = ::poll(open.data(), open.size(), left_ms);
    if (ready < 0 && errno == EINTR) return Error{Errc::kInterrupted, "interrupted", ""};
    if (ready <= 0) return Error{Errc::kResource, "paddle took too long", ""};
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (open[i].fd < 0 || open[i].revents == 0) continue;
      const ssize_t got = ::read(open[i].fd, buffer.data(), buffer.size());
      if (got < 0) return system_error(Errc::kResource, "read from paddle");
      if (got == 0) open[i].fd = -1;  // poll() ignores it
      into[i]->append(buffer.data(), static_cast<std::size_t>(got));
      if (into[i]->size() > kOutputBytesMax)
        return Error{Errc::kResource, "the output of paddle is over 256 MiB", ""};
    }
  }
  return texts;
}

}  // namespace

// Parses "paddle: <message>\nhint: <hint>\n", as the engine's main writes it.
Error engine_error(int code, std::string text) {
  Error error{static_cast<Errc>(code), std::move(text), ""};
  if (error.message.starts_with("paddle: ")) error.message.erase(0, 8);
  while (error.message.ends_with('\n')) error.message.pop_back();
  const std::size_t hint = error.message.rfind("\nhint: ");
  if (hint == std::string::npos) return error;
  error.hint = error.message.substr(hint + 7);
  error.message.resize(hint);
  return error;
}

Result<remote::PushItem> engine_item(const std::string& local_path) {
  auto digest = sha256_of_file(local_path);
  if (!digest) {
    Error error = std::move(digest).error().with("the engine for the nodes");
    error.code = Errc::kUsage;
    error.hint = "build it (scripts/build), or keep `paddle` in the same folder as paddlectl";
    return error;
  }
  return remote::PushItem{local_path, "bin/paddle-" + to_hex(*digest).substr(0, 16), true};
}

Result<EngineOutput> run_engine_apart(const std::string& program,
                                      std::vector<std::string> arguments,
                                      std::optional<Duration> limit) {
  arguments.insert(arguments.begin(), program);
  PADDLE_TRY(Pipe out, make_pipe());
  PADDLE_TRY(Pipe error, make_pipe());
  PADDLE_TRY(const pid_t pid, spawn(program, arguments, out.write.get(), error.write.get()));
  out.write.reset();
  error.write.reset();
  auto texts = read_to_end(out.read.get(), error.read.get(), limit);
  if (!texts) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!texts) return texts;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return texts;
  if (!WIFEXITED(status)) {
    return Error{Errc::kFailed, fmt::format("paddle died of signal {}", WTERMSIG(status)), ""};
  }
  return engine_error(WEXITSTATUS(status), texts->error.empty() ? texts->out : texts->error);
}

Result<std::string> run_engine(const std::string& program, std::vector<std::string> arguments,
                               std::optional<Duration> limit) {
  PADDLE_TRY(EngineOutput texts, run_engine_apart(program, std::move(arguments), limit));
  return std::move(texts.out);
}

Status check_engine_version(const std::string& program) {
  constexpr std::string_view kPrefix = "paddlectl engine ";
  const auto text = run_engine(program, {"version"});
  if (!text || !text->starts_with(kPrefix)) return {};  // the next run of it reports the cause
  const std::string version =
      text->substr(kPrefix.size(), text->find_first_of(",\n") - kPrefix.size());
  if (version == kProgramVersion) return {};
  return Error{
      Errc::kVersion,
      fmt::format("{} is version {}, but paddlectl is version {}",
                  program.substr(program.rfind('/') + 1), escape_control(version), kProgramVersion),
      "put programs of one release into one folder: " + program + " is sent to the nodes"};
}

}  // namespace paddle::cli

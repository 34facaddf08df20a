#include "remote/agent/process/supervise.h"

#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

#include "remote/agent/process/record.h"
#include "remote/agent/process/supervisor.h"

namespace paddle::agent {
namespace {

constexpr std::size_t kSpecBytesMax = 64U << 10U;
// Longer than a supervisor takes to end leftovers.
constexpr Duration kTakeOverDeadline = std::chrono::seconds(7);
constexpr int kTakeOverPollMs = 10;

TimePoint in(Duration time) {
  return TimePoint(std::chrono::steady_clock::now()) + time;
}

// Waits for the lock while the supervisor of an ended process is still ending its leftovers.
bool take_over(int lock, const Root& root, const SafePath& folder) {
  const TimePoint give_up = in(kTakeOverDeadline);
  while (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (!has_record(root, folder, "exit") || in({}) >= give_up) return false;
    ::poll(nullptr, 0, kTakeOverPollMs);
  }
  return true;
}

Result<Supervisor> make_supervisor(const std::string& root_path, int spec_fd) {
  PADDLE_TRY(Root root, open_root(root_path));
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(spec_fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kSpecBytesMax) break;
  }
  wire::agent::ProcessSpec spec;
  if (text.size() > kSpecBytesMax || !spec.ParseFromString(text)) {
    return Error{Errc::kData, "malformed process specification", ""};
  }
  PADDLE_TRY(SafePath folder, process_folder(spec.job(), spec.name()));
  PADDLE_TRY_STATUS(folder.make_directories(root.fd.get()));
  PADDLE_TRY(UniqueFd lock, folder.open_directory(root.fd.get()));
  if (!take_over(lock.get(), root, folder)) {
    return Error{Errc::kFailed, spec.job() + "/" + spec.name() + " is running already",
                 "stop it first"};
  }
  const std::uint32_t lives = lives_of(root, folder);
  for (const char* file : {"pid", "exit", "stop", "notice"}) remove_record(root, folder, file);
  PADDLE_TRY_STATUS(write_record(root, folder, "spec", spec));
  PADDLE_TRY(LogWriter log, LogWriter::open(root, spec.log()));
  return Supervisor(std::move(root), std::move(spec), std::move(folder), std::move(lock),
                    std::move(log), lives);
}

}  // namespace

int supervise(const std::string& root_path, int spec_fd, int status_fd,
              const Environment& environment) {
  ::signal(SIGCHLD, SIG_DFL);  // the agent ignores it; waitpid would find nothing
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  UniqueFd status(status_fd);
  auto supervisor = make_supervisor(root_path, spec_fd);
  ::close(spec_fd);
  const Status started = supervisor ? supervisor->start(environment) : Status(supervisor.error());
  if (!started) {
    wire::agent::ErrorReply reply;
    reply.set_code(static_cast<int>(started.error().code));
    reply.set_message(started.error().message);
    reply.set_hint(started.error().hint);
    [[maybe_unused]] const auto told =
        write_all(status.get(), as_bytes(kStartFailed + reply.SerializeAsString()),
                  in(std::chrono::seconds(10)));
    return 1;
  }
  [[maybe_unused]] const auto told =
      write_all(status.get(), as_bytes(std::string(1, kStarted)), in(std::chrono::seconds(10)));
  status.reset();
  supervisor->run(environment);
  return 0;
}

}  // namespace paddle::agent

#include "remote/agent/process/supervise.h"

#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <optional>

#include "remote/agent/process/guard.h"
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

Result<wire::agent::ProcessSpec> read_spec(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kSpecBytesMax) break;
  }
  wire::agent::ProcessSpec spec;
  if (text.size() > kSpecBytesMax || !spec.ParseFromString(text)) {
    return Error{Errc::kData, "malformed process specification", ""};
  }
  return spec;
}

// `prepare` gets the process's folder once no other supervisor has it.
Result<Supervisor> make_supervisor(
    const std::string& root_path, const wire::agent::ProcessSpec& spec,
    const std::function<Status(const Root& root, const SafePath& folder)>& prepare) {
  PADDLE_TRY(Root root, open_root(root_path));
  PADDLE_TRY(SafePath folder, process_folder(spec.job(), spec.name()));
  PADDLE_TRY_STATUS(folder.make_directories(root.fd.get()));
  PADDLE_TRY(UniqueFd lock, folder.open_directory(root.fd.get()));
  if (!take_over(lock.get(), root, folder)) {
    return Error{Errc::kFailed, spec.job() + "/" + spec.name() + " is running already",
                 "stop it first"};
  }
  const std::uint32_t lives = lives_of(root, folder);
  PADDLE_TRY_STATUS(prepare(root, folder));
  PADDLE_TRY(LogWriter log, LogWriter::open(root, spec.log()));
  return Supervisor(std::move(root), spec, std::move(folder), std::move(lock), std::move(log),
                    lives);
}

struct Supervision {
  std::string root;
  wire::agent::ProcessSpec spec;
  Environment environment;
  ProcStat guard;  // without a pid: nobody
  TimePoint guarded_from;
  UniqueFd memory = {};  // kept by the guard, so that it outlives a supervisor
};

void tell(const Status& started, UniqueFd& status) {
  std::string text(1, kStarted);
  if (!started) {
    wire::agent::ErrorReply reply;
    reply.set_code(static_cast<int>(started.error().code));
    reply.set_message(started.error().message);
    reply.set_hint(started.error().hint);
    text = kStartFailed + reply.SerializeAsString();
  }
  [[maybe_unused]] const auto told =
      write_all(status.get(), as_bytes(text), in(std::chrono::seconds(10)));
  status.reset();
}

int supervise_first(const Supervision& supervision, UniqueFd& status) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto supervisor = make_supervisor(supervision.root, supervision.spec,
                                    [&](const Root& root, const SafePath& folder) {
                                      for (const char* file : {"pid", "exit", "stop"})
                                        remove_record(root, folder, file);
                                      return write_record(root, folder, "spec", supervision.spec);
                                    });
  Status started = supervisor ? Status() : Status(supervisor.error());
  if (supervisor) {
    supervisor->set_guard(supervision.guard);
    supervisor->set_memory(supervision.memory.get());
    started = supervisor->start(supervision.environment);
  }
  tell(started, status);
  if (!started) return 1;
  supervisor->run(supervision.environment);
  return 0;
}

// All records stay, a request to stop among them.
int supervise_next(const Supervision& supervision) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::optional<Record> before;
  auto supervisor = make_supervisor(
      supervision.root, supervision.spec, [&](const Root& root, const SafePath&) -> Status {
        before = read_record(root, supervision.spec.job(), supervision.spec.name());
        return before ? Status() : Status(Error{Errc::kData, "no record of the process", ""});
      });
  if (!supervisor) return 1;
  supervisor->set_guard(supervision.guard);
  supervisor->set_memory(supervision.memory.get());
  if (!supervisor->succeed(*before, supervision.guarded_from)) return 1;
  supervisor->run(supervision.environment);
  return 0;
}

// Whether a process whose supervisor was killed is to go on.
bool goes_on(const Supervision& supervision) {
  const auto root = open_root(supervision.root);
  const auto folder = process_folder(supervision.spec.job(), supervision.spec.name());
  return root && folder && has_record(*root, *folder, "pid") &&
         stop_wish(*root, *folder) != StopWish::kOrdered && !has_record(*root, *folder, "exit");
}

}  // namespace

int supervise(const std::string& root_path, int spec_fd, int status_fd,
              const Environment& environment) {
  ::signal(SIGCHLD, SIG_DFL);  // the agent ignores it; waitpid would find nothing
  UniqueFd status(status_fd);
  auto spec = read_spec(spec_fd);
  ::close(spec_fd);
  if (!spec) {
    tell(spec.error(), status);
    return 1;
  }
  Supervision supervision{root_path, *std::move(spec), environment, {}, in({})};
  auto memory = memory_of(supervision.spec);
  if (!memory) {
    tell(memory.error(), status);
    return 1;
  }
  supervision.memory = *std::move(memory);
  if (supervision.spec.restarts() == 0) return supervise_first(supervision, status);
  read_stat(::getpid(), supervision.guard);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return guard(
      supervision.spec,
      [&](int start) {
        return start == 1 ? supervise_first(supervision, status) : supervise_next(supervision);
      },
      [&] { return goes_on(supervision); }, status);
}

}  // namespace paddle::agent

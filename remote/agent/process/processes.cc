#include "remote/agent/process/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/secret.h"
#include "proto/command_order.h"
#include "remote/agent/node/files.h"
#include "remote/agent/node/log_file.h"
#include "remote/agent/process/claims.h"
#include "remote/agent/process/key_files.h"
#include "remote/agent/process/record.h"
#include "remote/agent/process/supervisor.h"
#include "remote/agent/process/usage.h"

namespace paddle::agent {
namespace {

constexpr Duration kStartDeadline = std::chrono::seconds(20);
// A supervisor writes the exit record and ends leftover children before it exits.
constexpr Duration kSupervisorGrace = std::chrono::seconds(5);
constexpr Duration kTeardownGrace = std::chrono::seconds(5);
constexpr int kRemoveTries = 5;
constexpr int kRemovePauseMs = 100;
constexpr std::size_t kStatusBytesMax = 64U << 10U;
constexpr const char* kMadeMark = ".paddlectl-made";  // bootstrap leaves it in folders above root
constexpr int kFoldersAboveMax = 16;
constexpr int kLeftoversNamedMax = 16;
constexpr std::size_t kNameBytesMax = 4096;

// In the forked child: only async-signal-safe calls.
[[noreturn]] void become_supervisor(const char* root, const char* label, int spec_fd,
                                    int status_fd) {
  ::setsid();
  if (::dup2(spec_fd, 3) < 0 || ::dup2(status_fd, 4) < 0) ::_exit(126);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  ::close_range(5, ~0U, 0);
  restore_cores();
  char* const arguments[] = {const_cast<char*>("paddlectl-agent"), const_cast<char*>("supervise"),
                             const_cast<char*>(root), const_cast<char*>(label), nullptr};
  ::execv("/proc/self/exe", arguments);
  ::_exit(126);
}

Result<std::string> read_status(int fd) {
  const TimePoint deadline = TimePoint(std::chrono::steady_clock::now()) + kStartDeadline;
  std::string text;
  while (text.size() < kStatusBytesMax) {
    std::byte byte{};
    const auto got = read_exact(fd, std::span(&byte, 1), deadline);
    if (got) {
      text += static_cast<char>(byte);
    } else if (got.error().message == "closed by peer") {
      return text;
    } else {
      return got.error();
    }
  }
  return text;
}

bool is_below(const std::string& path, const std::string& root) {
  return path == root || path.starts_with(root + "/");
}

// Processes of this user that run from root or carry its mark in their environment, except this
// one. A working folder below root alone does not count.
std::vector<ProcStat> processes_below(const Root& root) {
  std::vector<ProcStat> found;
  for (const ProcStat& process : own_processes()) {
    if (is_below(link_of(process.pid, "exe"), root.path) ||
        environment_of(process.pid, kProcessVariable).starts_with(root.path + ":")) {
      found.push_back(process);
    }
  }
  return found;
}

bool holds_only_the_mark(const std::string& path) {
  std::error_code error;
  bool marked = false;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().filename() != kMadeMark) return false;
    marked = true;
  }
  return !error && marked;
}

// Removes the folders above root that bootstrap made, unless they contain anything else. Several
// nodes may do so at once: each checks after its own part is removed, so the last finds only the
// mark.
void remove_made_folders(std::string path) {
  for (int i = 0; i < kFoldersAboveMax; ++i) {
    path.resize(path.rfind('/'));
    if (path.empty()) return;
    const std::string mark = path + "/" + kMadeMark;
    if (!holds_only_the_mark(path)) return;
    if (::unlink(mark.c_str()) != 0) return;
    if (::rmdir(path.c_str()) != 0 && errno != ENOENT) {
      // Another session has used the folder meanwhile.
      const UniqueFd again(::open(mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
      return;
    }
  }
}

ProcStat process_of(const Record& record) {
  return {.pid = record.pid.pid(), .start_ticks = record.pid.start_ticks()};
}

// spares_notices: leaves the supervisors of ended processes, which may still run a command of
// [notify]. Without it, the commands end, too.
Status end_records(const Root& root, const std::vector<Record>& records, Duration grace,
                   bool spares_notices, std::size_t& ended) {
  const auto members = [&] { return members_of(root, records); };
  // A supervisor that still has to write how its process ended is left: its memory would be lost.
  const auto supervisors = [&] {
    std::vector<Record> to_end = records;
    std::erase_if(to_end, [&](const Record& record) {
      const auto folder = process_folder(record.spec.job(), record.spec.name());
      const bool has_ended = record.exit || (folder && has_record(root, *folder, "exit"));
      if (spares_notices && has_ended && record.spec.has_notify()) return true;
      return folder && is_end_in_memory(root, *folder);
    });
    return supervisors_of(to_end);
  };
  // Commands of [notify] outlive a supervisor that was killed.
  const auto notices = [&] {
    std::vector<ProcStat> found;
    for (const Record& record : records) {
      const auto some = notices_of(root, record.spec.job() + "/" + record.spec.name() + "/");
      found.insert(found.end(), some.begin(), some.end());
    }
    return found;
  };
  std::size_t supervisors_ended = 0;
  if (end_processes(members, grace, ended) &&
      end_processes(supervisors, kSupervisorGrace, supervisors_ended) &&
      end_processes(members, Duration::zero(), ended) &&
      (spares_notices || end_processes(notices, Duration::zero(), supervisors_ended))) {
    return {};
  }
  return Error{Errc::kResource, "some processes cannot be ended, even by SIGKILL", ""};
}

// Whether the process has ended, and its supervisor has not noticed it yet.
bool is_ended_unnoticed(const Record& record) {
  const ProcStat process = process_of(record);
  ProcStat stat;
  return read_stat(process.pid, stat) && stat.start_ticks == process.start_ticks &&
         !is_alive(process.pid, process.start_ticks);
}

// Records the stop request for each running process that it names. If the request asks
// (StopRequest::ask), also sends SIGTERM to those that have no earlier request. Returns the records
// of all processes that it names.
Result<std::vector<Record>> note_stop(const Root& root, const wire::agent::StopRequest& request) {
  const UniqueFd lock = lock_stop_requests(root, request.job());
  PADDLE_TRY(std::vector<Record> records, read_records(root, request.job()));
  if (request.names_size() > 0) {
    std::erase_if(records, [&](const Record& record) {
      return std::find(request.names().begin(), request.names().end(), record.spec.name()) ==
             request.names().end();
    });
  }
  for (const Record& record : records) {
    if (record.exit || !supervisor_alive(record)) continue;
    PADDLE_TRY(const SafePath folder, process_folder(record.spec.job(), record.spec.name()));
    const bool was_asked = requested_stop(root, folder) != StopMode::kNone;
    wire::agent::StopRequest written;
    written.set_ask(request.ask());
    written.set_by(request.by());
    written.set_is_rest(request.is_rest());
    written.set_is_late(is_ended_unnoticed(record));
    PADDLE_TRY_STATUS(write_stop_request(root, folder, written));
    // No error if the process has just ended.
    if (request.ask() && !was_asked) send_signal(process_of(record), SIGTERM);
  }
  return records;
}

}  // namespace

Status start_process(const Root& root, const wire::agent::ProcessSpec& spec) {
  PADDLE_TRY_STATUS(check_name(spec.job()));
  PADDLE_TRY_STATUS(check_name(spec.name()));
  const std::string label = spec.job() + "/" + spec.name();
  const UniqueFd spec_fd(::memfd_create("spec", MFD_CLOEXEC));
  if (!spec_fd) return system_error(Errc::kResource, "memfd_create");
  Status written = write_all(spec_fd.get(), as_bytes(spec.SerializeAsString()), TimePoint::max());
  PADDLE_TRY_STATUS(std::move(written).with("start " + label));
  ::lseek(spec_fd.get(), 0, SEEK_SET);
  PADDLE_TRY(Pipe status, make_pipe());
  // These numbers are above the descriptors that the child uses.
  const UniqueFd spec_high(::fcntl(spec_fd.get(), F_DUPFD_CLOEXEC, 10));
  UniqueFd status_high(::fcntl(status.write.get(), F_DUPFD_CLOEXEC, 10));
  status.write.reset();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error(Errc::kResource, "fork");
  if (pid == 0) {
    become_supervisor(root.path.c_str(), label.c_str(), spec_high.get(), status_high.get());
  }
  status_high.reset();
  PADDLE_TRY(const std::string text, read_status(status.read.get()));
  if (!text.empty() && text[0] == kStarted) return {};
  wire::agent::ErrorReply reply;
  if (text.empty() || text[0] != kStartFailed || !reply.ParseFromString(text.substr(1))) {
    return Error{Errc::kFailed, "the supervisor of " + label + " ended unexpectedly", ""};
  }
  return Error{static_cast<Errc>(reply.code()), reply.message(), reply.hint()};
}

Result<std::vector<wire::agent::ProcessStatus>> list_processes(const Root& root,
                                                               const std::string& job, bool usage) {
  PADDLE_TRY(std::vector<Record> records, read_records(root, job));
  std::map<std::string, std::vector<wire::agent::JobClaim>> claims;  // by job
  for (const Record& record : records) {
    const std::string& name = record.spec.job();
    if (!claims.contains(name)) claims[name] = claims_of(root, name);
  }
  std::map<std::string, wire::agent::Usage> used;
  if (usage) used = usage_of(records);
  std::vector<wire::agent::ProcessStatus> statuses;
  for (Record& record : records) {
    const auto own = used.find(record.spec.job() + "/" + record.spec.name());
    const auto arguments = record.spec.arguments();
    const auto gpus = usage ? read_gpus(root, record.spec) : wire::agent::GpuVariables();
    statuses.push_back(status_of(root, std::move(record)));
    wire::agent::ProcessStatus& status = statuses.back();
    const auto& of_job = claims[status.job()];
    status.set_claimed(has_starter(of_job));
    status.mutable_claims()->Assign(of_job.begin(), of_job.end());
    *status.mutable_arguments() = arguments;  // they distinguish a user's own program from ours
    if (!usage) continue;
    *status.mutable_gpu_variables() = gpus.variables();
    // The usage of an ended process comes from its exit record.
    const bool runs = status.state() == wire::agent::PROCESS_RUNNING;
    if (runs && own != used.end()) *status.mutable_usage() = own->second;
    if (status.has_usage()) {
      status.mutable_usage()->set_last_output_unix_ms(last_written(root, status.log()));
    }
  }
  return statuses;
}

Status stop_processes(const Root& root, const wire::agent::StopRequest& request) {
  PADDLE_TRY_STATUS(check_name(request.job()));
  PADDLE_TRY(const std::vector<Record> records, note_stop(root, request));
  if (request.ask()) return {};
  const auto grace = std::min<Duration>(
      std::chrono::milliseconds(std::min<std::uint64_t>(request.grace_ms(), 3'600'000)), kGraceMax);
  const auto claims = claims_of(root, request.job());
  const bool is_now = std::ranges::any_of(claims, [](const wire::agent::JobClaim& claim) {
    return job_command_of(claim.command()) == JobCommand::kStopNow;
  });
  std::size_t ended = 0;
  PADDLE_TRY_STATUS(end_records(root, records, grace, !is_now, ended));
  wipe_unneeded_keys(root, request.job());  // supervisors that were killed did not do it
  return {};
}

void end_notices(const Root& root, const std::string& job) {
  std::size_t ended = 0;
  end_processes([&] { return notices_of(root, job + "/"); }, Duration::zero(), ended);
}

Result<wire::agent::LeftoversReply> find_leftovers(const Root& root) {
  PADDLE_TRY(std::vector<Record> records, read_records(root, ""));
  PADDLE_TRY(const std::vector<std::string> jobs, names_in(root, "jobs"));
  std::erase_if(records, [](const Record& record) { return !supervisor_alive(record); });
  wire::agent::LeftoversReply reply;
  reply.set_ended_jobs(static_cast<std::uint32_t>(std::ranges::count_if(jobs, [&](const auto& job) {
    return std::ranges::none_of(records, [&](const Record& r) { return r.spec.job() == job; });
  })));
  const std::string agents = root.path + "/bin/paddlectl-agent-";
  std::set<pid_t> known;
  for (const ProcStat& process : members_of(root, records)) known.insert(process.pid);
  for (const ProcStat& process : supervisors_of(records)) known.insert(process.pid);
  for (const Record& record : records) {
    const std::string label = record.spec.job() + "/" + record.spec.name() + "/";
    for (const ProcStat& process : notices_of(root, label)) known.insert(process.pid);
  }
  for (const ProcStat& process : processes_below(root)) {
    // Skips agents, which end with their channels, and supervisors that have just started and have
    // no record yet; both run the agent's program. A process without a program has ended meanwhile.
    const std::string program = link_of(process.pid, "exe");
    if (known.contains(process.pid) || program.empty() || program.starts_with(agents)) continue;
    reply.set_process_count(reply.process_count() + 1);
    if (reply.processes_size() >= kLeftoversNamedMax) continue;
    auto name = read_file("/proc/" + std::to_string(process.pid) + "/comm", kNameBytesMax);
    if (name && name->ends_with('\n')) name->pop_back();
    reply.add_processes("pid " + std::to_string(process.pid) + " (" + (name ? *name : "?") + ")");
  }
  return reply;
}

Status restart_processes(const Root& root, const wire::agent::RestartRequest& request) {
  PADDLE_TRY_STATUS(check_name(request.job()));
  for (const std::string& name : request.names()) {
    PADDLE_TRY_STATUS(check_name(name));
    const auto record = read_record(root, request.job(), name);
    if (!record) {
      return Error{Errc::kUsage,
                   "there is no process " + name + " of job " + request.job() + " on this node",
                   ""};
    }
    // An ended process may still have a supervisor, which ends its leftover children.
    if (record->exit || !supervisor_alive(*record)) {
      forget_event(root, request.job(), failed_event(record->spec));
      PADDLE_TRY_STATUS(start_process(root, record->spec));
      continue;
    }
    if (record->spec.restarts() == 0) {
      return Error{Errc::kUsage, name + " is running, and ending it would end the job",
                   "start jobs with --restarts, or restart the whole job: paddlectl restart " +
                       request.job()};
    }
    PADDLE_TRY(const SafePath folder, process_folder(request.job(), name));
    PADDLE_TRY_STATUS(write_restart_order(root, folder, record->pid.incarnation()));
    send_signal(process_of(*record), SIGKILL);
  }
  return {};
}

Result<wire::agent::TeardownReply> teardown(const Root& root, bool keep_data) {
  wire::agent::TeardownReply reply;
  PADDLE_TRY(const std::vector<Record> records, read_records(root, ""));
  // Their ends are then no failures, of which a command of [notify] would report.
  wire::agent::StopRequest of_teardown;
  of_teardown.set_by("paddlectl teardown");
  for (const Record& record : records) {
    const auto folder = process_folder(record.spec.job(), record.spec.name());
    if (folder && !record.exit && record.spec.has_notify())
      (void)write_stop_request(root, *folder, of_teardown);
  }
  std::size_t ended = 0;
  const Status stopped = end_records(root, records, kTeardownGrace, false, ended);
  const auto below = [&] { return processes_below(root); };
  if (!end_processes(below, kTeardownGrace, ended) || !stopped) {
    for (const ProcStat& process : below()) {
      reply.add_remaining("process " + std::to_string(process.pid) + " (" +
                          link_of(process.pid, "exe") + "): cannot be ended");
    }
  }
  reply.set_processes_ended(ended);
  const auto keep = [&](const std::string& path) {
    // jobs/<job>/output, and the logs in jobs/<job>/node_<number>
    const auto slash = path.find('/', 5);
    if (!keep_data || !path.starts_with("jobs/") || slash == std::string::npos) return false;
    const std::string inside = path.substr(slash);
    return inside == "/output" || inside.starts_with("/node_");
  };
  if (const auto jobs = names_in(root, "jobs")) {
    for (const std::string& job : *jobs) wipe_key_files(root, job);
  }
  wipe_stray_key_files(root);
  // Another command that is just ending may still write files.
  for (int tries = 1;; ++tries) {
    RemoveReport report;
    PADDLE_TRY(const std::vector<std::string> names, names_of(root.fd.get()));
    for (const std::string& name : names) {
      remove_tree(root.fd.get(), name, name, keep, report);
    }
    reply.set_files_removed(reply.files_removed() + report.files);
    const int reason = ::rmdir(root.path.c_str()) == 0 ? 0 : errno;
    if (reason == 0 || reason == ENOENT) {
      remove_made_folders(root.path);
      return reply;
    }
    if (keep_data && reason == ENOTEMPTY && report.remaining.empty()) return reply;
    if (tries < kRemoveTries) {
      ::poll(nullptr, 0, kRemovePauseMs);
      continue;
    }
    for (const std::string& path : report.remaining) reply.add_remaining(path);
    if (reply.remaining_size() == 0) reply.add_remaining(root.path + ": " + std::strerror(reason));
    return reply;
  }
}

}  // namespace paddle::agent

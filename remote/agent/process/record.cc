#include "remote/agent/process/record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>

namespace paddle::agent {
namespace {

std::uint64_t milliseconds(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec * 1000 + time.tv_usec / 1000);
}

constexpr std::size_t kRecordBytesMax = 1U << 20U;
constexpr int kRestartsKept = 32;
// Without the files in kVital a process looks lost or hung, ends without a cause, cannot be started
// again or cannot be asked to save.
constexpr const char* kNotice = "notice";
constexpr const char* kGpus = "gpus";
constexpr const char* kRestartOrder = "restart";
constexpr const char* kStop = "stop";
constexpr const char* kNotifyPart = "notify.";  // of the mark of a command
constexpr std::array<const char*, 5> kVital{"incarnation", "pid", "exit", kNotice, kStop};
constexpr std::size_t kRoomBytes = 4096;
// The files that may be in memory. The specification is not among them: no process is started while
// the disk accepts no files. `pid` leads to the memory, so it is the last one that is moved to
// disk.
constexpr std::array<const char*, 6> kKeptInMemory{"incarnation", "exit",     kNotice,
                                                   kStop,         "restarts", "pid"};

// The records in memory lie in a file without a name, which the supervisor and its guard keep open.
// It has two parts for each file of kKeptInMemory. A new record goes into the part that is not in
// use, and then becomes the current one, so that a writer that is killed damages nothing.
constexpr const char* kMemoryName = "paddlectl-records";
constexpr const char* kMemoryLink = "/memfd:paddlectl-records (deleted)";
constexpr std::size_t kPartBytes = 16384;
struct PartHead {
  std::uint32_t part = 0;  // the current part, 1 or 2; 0: there is no record
  std::uint32_t size = 0;
};
static_assert(std::is_trivially_copyable_v<PartHead>);

// The place of a file's records in the memory. REQUIRES: `file` is in kKeptInMemory.
std::uint64_t index_of(std::string_view file) {
  return static_cast<std::uint64_t>(std::ranges::find(kKeptInMemory, file) - kKeptInMemory.begin());
}
std::uint64_t part_offset(std::uint64_t index, std::uint32_t part) {
  return kPartBytes * (2 * index + part);
}
bool may_be_in_memory(std::string_view file) {
  return std::ranges::find(kKeptInMemory, file) != kKeptInMemory.end();
}

// Opens the memory of a running supervisor or guard through /proc; empty if there is none.
UniqueFd memory_held_by(pid_t holder) {
  for (const std::string& name : names_under("/proc/" + std::to_string(holder) + "/fd")) {
    const std::string link = "fd/" + name;
    if (link_of(holder, link) != kMemoryLink) continue;
    UniqueFd memory(
        ::open(("/proc/" + std::to_string(holder) + "/" + link).c_str(), O_RDWR | O_CLOEXEC));
    struct stat info {};
    if (memory && ::fstat(memory.get(), &info) == 0 && info.st_uid == ::geteuid()) return memory;
  }
  return {};
}

// The memory for the records of a process. The `pid` on disk leads to it even if it is older than
// the one in memory: the guard is the same for all runs.
UniqueFd open_memory(const Root& root, const SafePath& folder) {
  const auto path = SafePath::parse(folder.str() + "/pid");
  const auto text = path ? read_below(root, *path, kRecordBytesMax) : Result<std::string>("");
  Record record;
  if (!text || !record.pid.ParseFromString(*text)) return {};
  for (const ProcStat& holder : supervisors_of({record})) {
    if (UniqueFd memory = memory_held_by(holder.pid)) return memory;
  }
  return {};
}

// Locks the memory until `memory` is closed. It is held only while a record is read or written.
bool lock_memory(const UniqueFd& memory, int operation) {
  while (memory && ::flock(memory.get(), operation) != 0) {
    if (errno != EINTR) return false;
  }
  return static_cast<bool>(memory);
}

PartHead head_in(const UniqueFd& memory, std::string_view file) {
  PartHead head;
  const auto bytes = std::as_writable_bytes(std::span(&head, 1));
  const bool is_read = read_at(memory.get(), bytes, index_of(file) * sizeof head);
  return is_read && head.part <= 2 && head.size <= kPartBytes ? head : PartHead();
}

bool set_head(const UniqueFd& memory, std::string_view file, const PartHead& head) {
  return write_at(memory.get(), std::as_bytes(std::span(&head, 1)), index_of(file) * sizeof head);
}

bool write_in_memory(const Root& root, const SafePath& folder, std::string_view file,
                     ByteSpan bytes) {
  if (!may_be_in_memory(file) || bytes.size() > kPartBytes) return false;
  const UniqueFd memory = open_memory(root, folder);
  if (!lock_memory(memory, LOCK_EX)) return false;
  const std::uint32_t part = head_in(memory, file).part == 1 ? 2 : 1;
  return write_at(memory.get(), bytes, part_offset(index_of(file), part)) &&
         set_head(memory, file, {part, static_cast<std::uint32_t>(bytes.size())});
}

void forget_in_memory(const Root& root, const SafePath& folder, std::string_view file) {
  if (!may_be_in_memory(file)) return;
  const UniqueFd memory = open_memory(root, folder);
  if (lock_memory(memory, LOCK_EX) && head_in(memory, file).part != 0) set_head(memory, file, {});
}

// memory: of open_memory(); it stays locked until it is closed.
std::optional<std::string> read_in_memory(const UniqueFd& memory, std::string_view file) {
  if (!may_be_in_memory(file) || !lock_memory(memory, LOCK_SH)) return std::nullopt;
  const PartHead head = head_in(memory, file);
  std::string text(head.size, '\0');
  if (head.part == 0 || !read_at(memory.get(), std::as_writable_bytes(std::span(text)),
                                 part_offset(index_of(file), head.part)))
    return std::nullopt;
  return text;
}

std::string room_of(std::string_view file) {
  return std::string(file) + ".room";
}

// Gives the prepared file `room` the name `file`. Where the file system can exchange the two, the
// replaced file becomes the room of the next one.
bool exchange_names(int directory, const std::string& room, const char* file) {
  return ::renameat2(directory, room.c_str(), directory, file, RENAME_EXCHANGE) == 0 ||
         ::renameat(directory, room.c_str(), directory, file) == 0;
}

// Writes into a file that has its disk blocks already, then gives it the name `file`.
Status write_into_room(const Root& root, const SafePath& folder, const char* file, ByteSpan bytes,
                       Keep keep) {
  PADDLE_TRY(const UniqueFd directory, folder.open_directory(root.fd.get()));
  const std::string room = room_of(file);
  const UniqueFd fd(::openat(directory.get(), room.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return system_error(Errc::kResource, room);
  PADDLE_TRY_STATUS(write_all(fd.get(), bytes, TimePoint::max()));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes.size())) != 0 ||
      (keep == Keep::kDurably && ::fsync(fd.get()) != 0) ||
      !exchange_names(directory.get(), room, file)) {
    return system_error(Errc::kResource, room);
  }
  return {};
}

// Milliseconds since then, by the monotonic clock.
std::uint64_t since(std::int64_t then_steady_ms) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, steady_ms() - then_steady_ms));
}

// For an end before the last reboot, only the wall clock gives the age.
std::uint64_t age_of(const wire::agent::Restart& restart) {
  if (restart.boot_id() == boot_id()) return since(restart.ended_steady_ms());
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, unix_ms() - restart.ended_unix_ms()));
}

template <class Message>
std::optional<Message> read_message(const Root& root, const SafePath& folder, const char* file,
                                    const UniqueFd& memory) {
  const auto path = SafePath::parse(folder.str() + "/" + file);
  if (!path) return std::nullopt;
  Message message;
  // A record in memory, if there is one, is newer than the record on disk.
  if (const auto text = read_in_memory(memory, file); text && message.ParseFromString(*text))
    return message;
  const auto text = read_below(root, *path, kRecordBytesMax);
  if (!text || !message.ParseFromString(*text)) return std::nullopt;
  return message;
}

template <class Message>
std::optional<Message> read_message(const Root& root, const SafePath& folder, const char* file) {
  const UniqueFd memory = may_be_in_memory(file) ? open_memory(root, folder) : UniqueFd();
  return read_message<Message>(root, folder, file, memory);
}

}  // namespace

std::string process_mark(const Root& root, const std::string& job, const std::string& name) {
  return root.path + ":" + job + "/" + name;
}

std::string notify_name(const std::string& process, pid_t supervisor) {
  return process + "/" + kNotifyPart + std::to_string(supervisor);
}

std::vector<ProcStat> notices_of(const Root& root, const std::string& label) {
  std::vector<ProcStat> found = own_processes();
  std::erase_if(found, [&](const ProcStat& process) {
    const std::string mark = environment_of(process.pid, kProcessVariable);
    const std::size_t last = mark.rfind('/');
    return last == mark.npos || !mark.starts_with(root.path + ":" + label) ||
           !std::string_view(mark).substr(last + 1).starts_with(kNotifyPart);
  });
  return found;
}

Status write_record(const Root& root, const SafePath& folder, const char* file,
                    const google::protobuf::MessageLite& message) {
  PADDLE_TRY(const SafePath path, SafePath::parse(folder.str() + "/" + file));
  const std::string text = message.SerializeAsString();
  // A notice is worthless after a loss of power. One arrives each second, and the loop that reads
  // them must not wait for a disk: a process whose notices are not read looks dead.
  const Keep keep = std::string_view(file) == kNotice ? Keep::kLazily : Keep::kDurably;
  Status written = replace_below(root, path, as_bytes(text), keep);
  if (!written && text.size() <= kRoomBytes &&
      write_into_room(root, folder, file, as_bytes(text), keep)) {
    written = Status();
  }
  if (!written) return write_in_memory(root, folder, file, as_bytes(text)) ? Status() : written;
  forget_in_memory(root, folder, file);  // older than the file on disk
  return written;
}

Result<UniqueFd> make_record_memory() {
  UniqueFd memory(::memfd_create(kMemoryName, MFD_CLOEXEC));
  if (!memory) return system_error(Errc::kResource, "memfd_create");
  return memory;
}

bool move_records_to_disk(const Root& root, const SafePath& folder, const std::string& job) {
  const auto there = folder.open_directory(root.fd.get());
  if (!there && errno == ENOENT) return true;  // the job was removed
  // An agent may record a stop request at the same time.
  const UniqueFd lock = lock_stop_requests(root, job);
  bool moved = true;
  for (const char* const file : kKeptInMemory) {
    const auto text = read_in_memory(open_memory(root, folder), file);
    const auto path = SafePath::parse(folder.str() + "/" + file);
    if (!text || !path) continue;
    const bool is_written = static_cast<bool>(replace_below(root, *path, as_bytes(*text)));
    if (is_written) forget_in_memory(root, folder, file);
    moved = moved && is_written;
  }
  return moved;
}

bool is_end_in_memory(const Root& root, const SafePath& folder) {
  return read_in_memory(open_memory(root, folder), "exit").has_value();
}

void reserve_records(const Root& root, const SafePath& folder) {
  const auto directory = folder.open_directory(root.fd.get());
  if (!directory) return;
  const Bytes zeros(kRoomBytes);
  for (const char* const file : kVital) {
    const std::string room = room_of(file);
    const UniqueFd fd(::openat(directory->get(), room.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd && !write_all(fd.get(), zeros, TimePoint::max()))
      ::unlinkat(directory->get(), room.c_str(), 0);
  }
}

bool claim_event(const Root& root, const std::string& job, std::string_view event,
                 Duration interval) {
  const auto path = SafePath::parse("jobs/" + job + "/events/" + std::string(event));
  const auto entry = path ? make_parent(root, *path) : Result<FolderEntry>(path.error());
  if (!entry) return true;
  const UniqueFd file(::openat(entry->folder.get(), entry->name.c_str(),
                               O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  while (file && ::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return true;
  }
  char buffer[128];
  const ssize_t got = file ? ::pread(file.get(), buffer, sizeof buffer, 0) : -1;
  const std::string text(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const std::string mark = boot_id() + " ";  // times of another boot are not comparable
  std::int64_t claimed = 0;
  const bool is_known = text.starts_with(mark);
  if (is_known) std::from_chars(text.data() + mark.size(), text.data() + text.size(), claimed);
  const std::int64_t now = steady_ms();
  if (is_known && std::chrono::milliseconds(now - claimed) < interval) return false;
  const std::string line = mark + std::to_string(now) + "\n";
  if (file && ::ftruncate(file.get(), 0) == 0)
    (void)!::pwrite(file.get(), line.data(), line.size(), 0);  // lost on a full disk
  return true;
}

std::string failed_event(const wire::agent::ProcessSpec& spec) {
  return "failed-" + std::to_string(spec.run());
}

void forget_event(const Root& root, const std::string& job, std::string_view event) {
  if (const auto folder = open_folder(root, "jobs/" + job + "/events"))
    ::unlinkat(folder->get(), std::string(event).c_str(), 0);
}

void remove_record(const Root& root, const SafePath& folder, const char* file) {
  const auto directory = folder.open_directory(root.fd.get());
  if (directory) ::unlinkat(directory->get(), file, 0);
  forget_in_memory(root, folder, file);
}

void forget_notice(const Root& root, const SafePath& folder) {
  wire::Notice nothing;
  nothing.mutable_pulse();  // an empty file would have no block
  if (!write_record(root, folder, "notice", nothing)) remove_record(root, folder, "notice");
}

bool has_record(const Root& root, const SafePath& folder, const char* file) {
  const auto path = SafePath::parse(folder.str() + "/" + file);
  if (path && path->open_read(root.fd.get())) return true;
  return may_be_in_memory(file) && read_in_memory(open_memory(root, folder), file).has_value();
}

StopMode requested_stop(const Root& root, const SafePath& folder) {
  if (!has_record(root, folder, kStop)) return StopMode::kNone;
  const auto mode = read_message<wire::agent::StopRequest>(root, folder, kStop);
  return mode && mode->ask() ? StopMode::kSave : StopMode::kNow;
}

UniqueFd lock_stop_requests(const Root& root, const std::string& job) {
  auto folder = open_folder(root, "jobs/" + job + "/proc");
  if (!folder) return {};
  while (::flock(folder->get(), LOCK_EX) != 0) {
    if (errno != EINTR) return {};
  }
  return *std::move(folder);
}

wire::agent::StopRequest read_stop_request(const Root& root, const SafePath& folder) {
  auto request = read_message<wire::agent::StopRequest>(root, folder, kStop);
  return request ? *std::move(request) : wire::agent::StopRequest();
}

Status write_stop_request(const Root& root, const SafePath& folder,
                          const wire::agent::StopRequest& request) {
  if (requested_stop(root, folder) >= (request.ask() ? StopMode::kSave : StopMode::kNow)) return {};
  return write_record(root, folder, kStop, request);
}

Status write_restart_order(const Root& root, const SafePath& folder, std::uint32_t incarnation) {
  wire::agent::PidRecord order;
  order.set_incarnation(incarnation);
  return write_record(root, folder, kRestartOrder, order);
}

bool is_restart_ordered(const Root& root, const SafePath& folder, std::uint32_t incarnation) {
  const auto order = read_message<wire::agent::PidRecord>(root, folder, kRestartOrder);
  return order && order->incarnation() == incarnation;
}

Status write_incarnation(const Root& root, const SafePath& folder, std::uint32_t incarnation) {
  wire::agent::PidRecord record;
  record.set_incarnation(incarnation);
  return write_record(root, folder, "incarnation", record);
}

Status write_pid(const Root& root, const SafePath& folder, pid_t child, std::uint32_t incarnation,
                 const ProcStat& guard) {
  ProcStat own;
  ProcStat of_child;
  // A child that has ended is a zombie until we wait for it, so both can be read.
  if (!read_stat(::getpid(), own) || !read_stat(child, of_child)) {
    return system_error(Errc::kFailed, "read /proc");
  }
  wire::agent::PidRecord record;
  record.set_supervisor(own.pid);
  record.set_supervisor_start_ticks(own.start_ticks);
  record.set_guard(guard.pid);
  record.set_guard_start_ticks(guard.start_ticks);
  record.set_pid(of_child.pid);
  record.set_start_ticks(of_child.start_ticks);
  record.set_boot_id(boot_id());
  record.set_started_unix_ms(unix_ms());
  record.set_started_steady_ms(steady_ms());
  record.set_incarnation(incarnation);
  return write_record(root, folder, "pid", record);
}

void write_gpus(const Root& root, const SafePath& folder, const wire::agent::GpuVariables& gpus) {
  if (gpus.variables().empty() || !write_record(root, folder, kGpus, gpus))
    remove_record(root, folder, kGpus);
}

wire::agent::GpuVariables read_gpus(const Root& root, const wire::agent::ProcessSpec& spec) {
  const auto folder = process_folder(spec.job(), spec.name());
  if (!folder) return {};
  return read_message<wire::agent::GpuVariables>(root, *folder, kGpus)
      .value_or(wire::agent::GpuVariables());
}

wire::agent::ExitRecord exit_record(int wait_status, const rusage& used) {
  wire::agent::ExitRecord record;
  if (WIFSIGNALED(wait_status)) {
    record.set_signal(WTERMSIG(wait_status));
  } else {
    record.set_exit_code(WEXITSTATUS(wait_status));
  }
  record.set_ended_unix_ms(unix_ms());
  record.set_cpu_ms(milliseconds(used.ru_utime) + milliseconds(used.ru_stime));
  record.set_resident_peak_bytes(static_cast<std::uint64_t>(used.ru_maxrss) * 1024);
  return record;
}

Status add_restart(const Root& root, const SafePath& folder, int wait_status,
                   wire::agent::Restart restart) {
  auto record = read_message<wire::agent::Restarts>(root, folder, "restarts")
                    .value_or(wire::agent::Restarts());
  if (record.restarts_size() >= kRestartsKept) {
    record.mutable_restarts()->erase(record.restarts().begin());
  }
  restart.set_ended_unix_ms(unix_ms());
  restart.set_boot_id(boot_id());
  restart.set_ended_steady_ms(steady_ms());
  const int code = WIFSIGNALED(wait_status) ? 0 : WEXITSTATUS(wait_status);
  restart.set_exit_code(code);
  if (WIFSIGNALED(wait_status)) restart.set_signal(WTERMSIG(wait_status));
  if (code == static_cast<int>(Errc::kUnreachable)) restart.set_failures(0);
  *record.add_restarts() = std::move(restart);
  return write_record(root, folder, "restarts", record);
}

std::uint32_t last_incarnation(const Root& root, const SafePath& folder) {
  const auto record = read_message<wire::agent::PidRecord>(root, folder, "incarnation");
  return record ? record->incarnation() : 0;
}

std::optional<Record> read_record(const Root& root, const std::string& job,
                                  const std::string& name) {
  const auto folder = process_folder(job, name);
  if (!folder) return std::nullopt;
  const UniqueFd memory = open_memory(root, *folder);  // once for all, for it costs a look at /proc
  auto spec = read_message<wire::agent::ProcessSpec>(root, *folder, "spec", memory);
  auto pid = read_message<wire::agent::PidRecord>(root, *folder, "pid", memory);
  if (!spec || !pid) return std::nullopt;
  return Record{std::move(*spec), std::move(*pid),
                read_message<wire::agent::ExitRecord>(root, *folder, "exit", memory),
                read_message<wire::Notice>(root, *folder, "notice", memory),
                read_message<wire::agent::Restarts>(root, *folder, "restarts", memory)};
}

Result<std::vector<Record>> read_records(const Root& root, const std::string& job) {
  std::vector<std::string> jobs{job};
  if (job.empty()) {
    PADDLE_TRY(jobs, names_in(root, "jobs"));
  } else {
    PADDLE_TRY_STATUS(check_name(job));
  }
  std::vector<Record> records;
  for (const std::string& one : jobs) {
    const auto names = names_in(root, "jobs/" + one + "/proc");
    if (!names) continue;
    for (const std::string& name : *names) {
      if (auto record = read_record(root, one, name)) records.push_back(std::move(*record));
    }
  }
  return records;
}

bool supervisor_alive(const Record& record) {
  return !supervisors_of({record}).empty();
}

wire::agent::ProcessStatus status_of(const Root& root, Record record) {
  if (!record.exit && !supervisor_alive(record)) {
    // The supervisor may have written the exit record and ended after the files were read.
    if (auto again = read_record(root, record.spec.job(), record.spec.name())) {
      record = std::move(*again);
    }
  }
  wire::agent::ProcessStatus status;
  status.set_job(record.spec.job());
  status.set_name(record.spec.name());
  status.set_log(record.spec.log());
  status.set_pid(record.pid.pid());
  status.set_started_unix_ms(record.pid.started_unix_ms());
  status.set_incarnation(record.pid.incarnation());
  status.set_asked_unix_ms(unix_ms());
  status.set_restarts_allowed(record.spec.restarts());
  status.set_reports(!record.spec.program().empty());
  status.set_trainers(record.spec.trainers());
  status.set_pservers(record.spec.pservers());
  status.set_run(record.spec.run());
  *status.mutable_ports() = record.spec.ports();
  if (record.restarts) *status.mutable_restarts() = record.restarts->restarts();
  for (wire::agent::Restart& restart : *status.mutable_restarts())
    restart.set_age_ms(age_of(restart));
  if (record.notice) *status.mutable_notice() = *record.notice;
  if (const auto folder = process_folder(status.job(), status.name())) {
    if (const auto stop = read_message<wire::agent::StopRequest>(root, *folder, kStop)) {
      status.set_stopped_by(stop->by());
      status.set_stop_ordered(!stop->ask());
    }
  }
  if (record.notice && record.pid.boot_id() == boot_id()) {
    if (record.notice->reported_steady_ms() > 0)
      status.set_silent_ms(since(record.notice->reported_steady_ms()));
    if (record.notice->received_steady_ms() > 0)
      status.set_notice_age_ms(since(record.notice->received_steady_ms()));
  }
  if (record.exit) {
    const bool killed = record.exit->signal() != 0;
    status.set_state(killed ? wire::agent::PROCESS_KILLED : wire::agent::PROCESS_EXITED);
    status.set_exit_code(record.exit->exit_code());
    status.set_signal(record.exit->signal());
    status.set_ended_unix_ms(record.exit->ended_unix_ms());
    status.set_stopped(record.exit->stopped());
    status.set_hang(record.exit->hang());
    status.set_out_of_memory_bytes(record.exit->out_of_memory_bytes());
    if (record.exit->resident_peak_bytes() > 0) {
      status.mutable_usage()->set_resident_bytes(record.exit->resident_peak_bytes());
      status.mutable_usage()->set_cpu_ms(record.exit->cpu_ms());
    }
  } else {
    const bool runs = supervisor_alive(record);
    status.set_state(runs ? wire::agent::PROCESS_RUNNING : wire::agent::PROCESS_LOST);
    // A kOrdered request kills a supervisor that does not react, for example a suspended one, which
    // then writes no exit record.
    status.set_stopped(!runs && status.stop_ordered());
  }
  return status;
}

std::vector<ProcStat> members_of(const Root& root, const std::vector<Record>& records) {
  // If a supervisor has ended, its pid may lead a session that is not ours.
  std::set<pid_t> supervisors;
  std::set<pid_t> sessions;
  for (const ProcStat& supervisor : supervisors_of(records)) {
    supervisors.insert(supervisor.pid);
    sessions.insert(supervisor.session);
  }
  std::vector<ProcStat> members;
  for (const ProcStat& process : own_processes()) {
    const std::string mark = environment_of(process.pid, kProcessVariable);
    const bool is_marked = std::any_of(records.begin(), records.end(), [&](const Record& record) {
      return mark == process_mark(root, record.spec.job(), record.spec.name());
    });
    const bool is_member = is_marked || sessions.contains(process.session);
    if (is_member && !supervisors.contains(process.pid)) members.push_back(process);
  }
  return members;
}

std::vector<ProcStat> supervisors_of(const std::vector<Record>& records) {
  std::vector<ProcStat> found;
  for (const Record& record : records) {
    if (record.pid.boot_id() != boot_id()) continue;
    for (const auto& [pid, start_ticks] :
         {std::pair(record.pid.supervisor(), record.pid.supervisor_start_ticks()),
          std::pair(record.pid.guard(), record.pid.guard_start_ticks())}) {
      ProcStat stat;
      if (is_alive(pid, start_ticks) && read_stat(pid, stat)) found.push_back(stat);
    }
  }
  return found;
}

}  // namespace paddle::agent

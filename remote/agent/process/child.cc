#include "remote/agent/process/child.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <optional>
#include <set>

#include "base/secret.h"
#include "base/text.h"
#include "proto/supervision.pb.h"
#include "remote/agent/node/proc.h"
#include "remote/agent/process/record.h"

namespace paddle::agent {
namespace {

// The engine writes to memory with this name alone (engine/commands/supervision.cc).
constexpr const char* kTrainerMemoryName = "paddlectl-trainer";
constexpr const char* kOomScore = "/proc/self/oom_score_adj";
constexpr int kOomScoreRaise = 200;  // thousandths of the memory, counted as used in addition
constexpr int kOomScoreMax = 1000;
// Bounds of the GPU variables in a status report: their number, and the size of each value.
constexpr int kGpuVariablesMax = 64;
constexpr std::size_t kGpuValueBytesMax = 1024;
constexpr std::size_t kFirstLineBytesMax = 256;  // the kernel reads no more of a script

// Gives the child `descriptor` under the number `number`; -1: there is no descriptor to give.
bool give(int descriptor, int number) {
  if (descriptor < 0) return true;
  if (descriptor == number) return ::fcntl(descriptor, F_SETFD, 0) == 0;
  return ::dup2(descriptor, number) == number;
}

// Makes the kernel kill this process before its supervisor and the agent when memory runs out. Best
// effort: it needs no privilege, but a container may forbid it.
void be_ended_first_without_memory() {
  int score = 0;
  const std::string text = text_of(kOomScore);
  std::from_chars(text.data(), text.data() + text.size(), score);
  const std::string raised = std::to_string(std::min(score + kOomScoreRaise, kOomScoreMax));
  const UniqueFd file(::open(kOomScore, O_WRONLY | O_CLOEXEC));
  (void)write_all(file.get(), as_bytes(raised), TimePoint::max());
}

// Turns the forked child of a single-threaded program into `program`.
[[noreturn]] void become(const Program& program, int directory, int output, int error,
                         int notices) {
  const pid_t parent = ::getppid();
  const std::vector<char*> arguments = pointers(program.arguments);
  const std::vector<char*> variables = pointers(program.variables);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before the call above
  be_ended_first_without_memory();
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Descriptor 0 has been /dev/null since the supervisor started. The other descriptors may have
  // the numbers that the program's descriptors get.
  const int lowest = 1 + (program.memory < 0 ? kNoticeFd : program.memory_number);
  const auto move_up = [&](int& fd) {
    if (fd < 0) return true;
    const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, lowest);
    if (moved >= 0) fd = moved;
    return moved >= 0;
  };
  int memory = program.memory;
  if (move_up(error) && move_up(notices) && move_up(memory) && ::dup2(output, 1) == 1 &&
      ::dup2(output, 2) == 2 && ::fchdir(directory) == 0 && give(notices, kNoticeFd) &&
      give(memory, program.memory_number)) {
    restore_cores();
    ::execve(arguments[0], arguments.data(), variables.data());
  }
  const int failure = errno;
  [[maybe_unused]] const ssize_t put = ::write(error, &failure, sizeof failure);
  ::_exit(127);
}

// Replaces every `mark` in the text by `value`.
void fill_in(std::string& text, std::string_view mark, const std::string& value) {
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    text.replace(at, mark.size(), value);
    at += value.size();
  }
}

// The name itself if it has a '/', else the first match in the PATH among `variables`. A missing
// program gets a path that execve(2) refuses.
std::string find_program(const std::string& name, const std::vector<std::string>& variables) {
  if (name.find('/') != std::string::npos) return name;
  for (const std::string& variable : variables) {
    if (!variable.starts_with("PATH=")) continue;
    for (std::size_t begin = 5; begin <= variable.size();) {
      const std::size_t end = std::min(variable.find(':', begin), variable.size());
      std::string path = variable.substr(begin, end - begin) + "/" + name;
      if (path.starts_with('/') && ::access(path.c_str(), X_OK) == 0) return path;
      begin = end + 1;
    }
  }
  return "/nonexistent/" + name;  // execve reports the error
}

// The next step for a program that was not found.
std::string step_to_find(const std::string& name) {
  if (name.starts_with('~') || name.find('$') != std::string::npos)
    return "no shell expands the name of a program: give its absolute path, or name a shell: "
           "[\"sh\", \"-c\", ...]";
  if (name.find(' ') != std::string::npos)
    return "give the program and each argument as a string of its own: [\"python3\", \"train.py\"]";
  return "put it into the workspace, or install it on the node";
}

// Reads more than a pipe holds; bounds the time spent on a process that sends without end.
constexpr int kReadsMax = 32;

// Parses one notice from the front of `pending` and removes it. kNone: the notice is not complete
// yet.
enum class Parsed { kNotice, kNone, kMalformed };

Parsed parse(std::string& pending, wire::Notice& notice) {
  std::uint32_t size = 0;
  if (pending.size() < sizeof size) return Parsed::kNone;
  std::memcpy(&size, pending.data(), sizeof size);
  if (size > PIPE_BUF) return Parsed::kMalformed;
  if (pending.size() < sizeof size + size) return Parsed::kNone;
  const bool is_valid = notice.ParseFromString(pending.substr(sizeof size, size));
  pending.erase(0, sizeof size + size);
  return is_valid ? Parsed::kNotice : Parsed::kMalformed;
}

// Only these variables may be reported: the value of another one may be a secret.
bool is_gpu_variable(std::string_view name) {
  return name == "CUDA_VISIBLE_DEVICES" || name == "FLAGS_selected_gpus" ||
         name.starts_with("NCCL_");
}

void note_gpu_variable(wire::agent::GpuVariables& noted, const std::string& name,
                       const std::string& value, wire::agent::VariableSource source) {
  if (!is_gpu_variable(name) || noted.variables_size() >= kGpuVariablesMax) return;
  wire::agent::Variable& variable = *noted.add_variables();
  // Text that is not UTF-8, or that is cut within a character, would make the whole record invalid.
  variable.set_name(escape_control(name));
  variable.set_value(escape_control(std::string_view(value).substr(0, kGpuValueBytesMax)));
  if (value.size() > kGpuValueBytesMax) *variable.mutable_value() += "...";
  variable.set_source(source);
}

}  // namespace

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

Result<Child> start_child(const Program& program, int directory) {
  PADDLE_TRY(Pipe output, make_pipe());
  PADDLE_TRY(Pipe error, make_pipe());
  Pipe notices;
  if (program.sends_notices) {
    PADDLE_TRY(notices, make_pipe());
    ::fcntl(notices.read.get(), F_SETFL, O_NONBLOCK);
  }
  ::fcntl(output.read.get(), F_SETFL, O_NONBLOCK);

  Child child{::fork(), std::move(output.read), std::move(notices.read)};
  if (child.pid < 0) return system_error(Errc::kResource, "fork");
  if (child.pid == 0) {
    become(program, directory, output.write.get(), error.write.get(), notices.write.get());
  }
  // Parent and child both call this, so that the group exists for each of them from here on.
  ::setpgid(child.pid, child.pid);
  error.write.reset();
  int failure = 0;
  const ssize_t got = ::read(error.read.get(), &failure, sizeof failure);
  if (got == 0) return child;
  ::waitpid(child.pid, nullptr, 0);
  errno = got > 0 ? failure : EIO;
  Error failed = system_error(Errc::kFailed, "cannot execute " + program.name);
  failed.hint = step_to_execute(directory, program.arguments[0], failure);
  if (!failed.hint.empty()) return failed;
  if (failure == EACCES) failed.hint = "make it executable: chmod +x " + program.name;
  if (failure == ENOENT) failed.hint = step_to_find(program.name);
  return failed;
}

std::string step_to_execute(int folder, const std::string& path, int error) {
  const UniqueFd file(::openat(folder, path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) return "";
  if (S_ISDIR(info.st_mode)) return "it is a folder: name a program in it";
  char head[kFirstLineBytesMax];
  const ssize_t got = ::pread(file.get(), head, sizeof head, 0);
  const std::string_view begin(head, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const std::string_view line = begin.substr(0, begin.find('\n'));
  if (error != ENOENT && error != ENOEXEC) return "";
  const bool is_machine_code = begin.starts_with(
      "\x7f"
      "ELF");
  if (error == ENOEXEC && is_machine_code) return "it is a program for another processor";
  if (error == ENOEXEC) return "add a first line such as #!/bin/sh";
  if (!line.starts_with("#!")) return "";
  if (line.ends_with('\r'))
    return "its first line has a Windows line end: convert the file with sed -i 's/\\r$//'";
  std::string_view interpreter =
      line.substr(std::min(line.find_first_not_of(" \t", 2), line.size()));
  interpreter = interpreter.substr(0, interpreter.find_first_of(" \t"));
  if (::faccessat(folder, std::string(interpreter).c_str(), F_OK, 0) == 0) return "";
  return "its first line names " + escape_control(interpreter) +
         ": install that on the node, or correct the line";
}

Program program_of(const wire::agent::ProcessSpec& spec, const Root& root,
                   std::uint32_t incarnation, const Environment& environment) {
  const auto filled = [&](std::string text) {
    fill_in(text, "{root}", root.path);
    fill_in(text, "{incarnation}", std::to_string(incarnation));
    fill_in(text, "{again}", incarnation > 1 ? "true" : "false");
    return text;
  };
  Program program;
  program.name = spec.program().empty() ? spec.arguments(0) : spec.program();
  std::vector<std::string>& arguments = program.arguments;
  std::vector<std::string>& variables = program.variables;
  if (!spec.program().empty()) arguments.push_back(root.path + "/" + spec.program());
  for (const auto& argument : spec.arguments()) arguments.push_back(filled(argument));
  std::set<std::string> names;
  const auto add = [&](const std::string& name, std::string value,
                       wire::agent::VariableSource source) {
    if (!names.insert(name).second) return;
    if (const auto first = spec.first_folders().find(name); first != spec.first_folders().end())
      value = filled(first->second) + (value.empty() ? "" : ":" + value);
    variables.push_back(name + "=" + value);
    note_gpu_variable(program.gpus, name, value, source);
  };
  for (const auto& [name, value] : spec.environment()) {
    const auto source = spec.sources().find(name);
    add(name, filled(value),
        source == spec.sources().end() ? wire::agent::VARIABLE_FROM_PADDLECTL : source->second);
  }
  for (const auto& variable : environment) {
    const auto equals = variable.find('=');
    if (equals == std::string::npos) continue;
    add(variable.substr(0, equals), variable.substr(equals + 1), wire::agent::VARIABLE_FROM_NODE);
  }
  for (const auto& [name, value] : spec.defaults())
    add(name, filled(value), wire::agent::VARIABLE_FROM_PADDLECTL);
  for (const auto& [name, _] : spec.first_folders())
    add(name, "", wire::agent::VARIABLE_FROM_PADDLECTL);
  variables.push_back(std::string(kProcessVariable) + "=" +
                      process_mark(root, spec.job(), spec.name()));
  program.sends_notices = !spec.program().empty();  // one of our programs
  if (program.sends_notices) {
    variables.push_back("PADDLECTL_NOTICE_FD=" + std::to_string(kNoticeFd));
  }
  if (spec.program().empty()) arguments[0] = find_program(arguments[0], variables);
  return program;
}

Result<UniqueFd> memory_of(const wire::agent::ProcessSpec& spec) {
  if (!spec.keeps_memory()) return UniqueFd();
  UniqueFd memory(::memfd_create(kTrainerMemoryName, MFD_CLOEXEC));
  if (!memory) return system_error(Errc::kResource, "memfd_create");
  return memory;
}

void give_memory(Program& program, int memory) {
  if (memory < 0) return;
  program.memory = memory;
  rlimit limit{};
  // become() needs three numbers above it.
  const bool has_room = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > kMemoryFd + 3;
  program.memory_number = has_room ? kMemoryFd : kLowMemoryFd;
  program.variables.push_back("PADDLECTL_MEMORY_FD=" + std::to_string(program.memory_number));
}

void Notices::open(UniqueFd pipe) {
  *this = {};
  pipe_ = std::move(pipe);
}

void Notices::receive(const Root& root, const SafePath& folder, PulseWatch& watch) {
  bool has_new = false;
  char buffer[PIPE_BUF];
  for (int reads = 0; pipe_ && reads < kReadsMax; ++reads) {
    const ssize_t got = ::read(pipe_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) pipe_.reset();
    if (got <= 0) break;
    pending_.append(buffer, static_cast<std::size_t>(got));
    wire::Notice notice;
    Parsed parsed = Parsed::kNone;
    while ((parsed = parse(pending_, notice)) == Parsed::kNotice) {
      if (notice.has_progress()) note(notice.progress());
      if (notice.has_pulse()) watch.on_pulse(std::chrono::steady_clock::now(), notice.pulse());
      latest_ = notice;
      has_new = true;
    }
    if (parsed == Parsed::kMalformed) pipe_.reset();
  }
  if (!has_new) return;
  latest_->set_received_steady_ms(steady_ms());
  latest_->set_reported_steady_ms(reported_steady_ms_);
  // If the notice cannot be written, the exit record still reports how the process ended.
  (void)write_record(root, folder, "notice", *latest_);
}

void Notices::note(const wire::Progress& progress) {
  if (!first_) first_ = progress;
  // Each notice repeats the latest report, which may be old.
  if (progress.unix_ms() != reported_unix_ms_) reported_steady_ms_ = steady_ms();
  reported_unix_ms_ = progress.unix_ms();
  const auto differs = [&](const wire::Progress& before) {
    return progress.pass() != before.pass() || progress.batch() != before.batch() ||
           progress.updates() != before.updates();
  };
  has_progressed_ = has_progressed_.value_or(false) || differs(*first_);
  if (last_ && differs(*last_)) progressed_at_ = std::chrono::steady_clock::now();
  last_ = progress;
}

}  // namespace paddle::agent

#include "remote/agent/node/proc.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

namespace paddle::agent {
namespace {

constexpr std::size_t kProcFileBytesMax = 8U << 20U;
// A new process may be forked while we wait for the known ones, so find() is repeated at this
// interval.
constexpr int kLookAgainMs = 100;
constexpr std::size_t kPollMax = 256;
// The longest wait for a process in execve(2), and the interval of looks at it.
constexpr Duration kExecPatience = std::chrono::seconds(1);
constexpr int kExecLookMs = 1;
constexpr int kLooksWithout = 3;  // in a row, before a process counts as one without environment

std::string proc_path(pid_t pid, const std::string& name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

UniqueFd open_pidfd(const ProcStat& process) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  // The pid may have been recycled before the descriptor was opened, never after.
  if (fd && !is_alive(process.pid, process.start_ticks)) fd.reset();
  return fd;
}

// Waits until one of the processes ends, but at most until `until` and for kLookAgainMs.
void wait_for_any(const std::vector<ProcStat>& processes, TimePoint until) {
  std::vector<UniqueFd> fds;
  std::vector<pollfd> polls;
  for (const ProcStat& process : processes) {
    if (polls.size() == kPollMax) break;
    UniqueFd fd = open_pidfd(process);
    if (!fd) return;
    polls.push_back({fd.get(), POLLIN, 0});
    fds.push_back(std::move(fd));
  }
  ::poll(polls.data(), polls.size(), std::min(milliseconds_until(until), kLookAgainMs));
}

// Whether the program of a process is set up and has no environment: the fields env_start and
// env_end of /proc/PID/stat, numbers 50 and 51 in proc(5), are equal and not 0.
bool has_no_environment(pid_t pid) {
  constexpr int kFieldsBefore = 47;  // from the state, which is number 3
  const std::string text = text_of(proc_path(pid, "stat"));
  std::istringstream fields(text.substr(std::min(text.rfind(')'), text.size() - 1) + 1));
  std::string passed;
  for (int i = 0; i < kFieldsBefore; ++i) fields >> passed;
  std::uint64_t begin = 0, end = 0;
  return fields >> begin >> end && begin != 0 && begin == end;
}

// The environment of a process. While execve(2) sets up a new program, /proc shows an empty
// environment for a moment; therefore waits until the program is set up. The kernel sets env_end
// first to env_start, so one look that finds them equal proves nothing. A kernel thread and a
// zombie have no program.
std::string whole_environment_of(pid_t pid) {
  std::string text = text_of(proc_path(pid, "environ"));
  const TimePoint until = SteadyClock().now() + kExecPatience;
  for (int looks = 0; text.empty() && !link_of(pid, "exe").empty();) {
    looks = has_no_environment(pid) ? looks + 1 : 0;
    if (looks == kLooksWithout || SteadyClock().now() >= until) break;
    ::poll(nullptr, 0, kExecLookMs);
    text = text_of(proc_path(pid, "environ"));
  }
  return text;
}

}  // namespace

std::string text_of(const std::string& path) {
  auto text = read_file(path, kProcFileBytesMax);
  return text ? std::move(*text) : std::string();
}

std::string value_of(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const auto begin = line.find_first_not_of(" \t\"", key.size());
    const auto end = line.find_last_not_of(" \t\"");
    return begin == std::string::npos ? "" : line.substr(begin, end - begin + 1);
  }
  return "";
}

std::vector<std::string> names_under(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename());
  }
  return names;
}

std::vector<std::uint64_t> sockets_of(pid_t pid) {
  constexpr std::string_view kSocket = "socket:[";
  std::vector<std::uint64_t> inodes;
  for (const std::string& fd : names_under(proc_path(pid, "fd"))) {
    const std::string target = link_of(pid, "fd/" + fd);
    std::uint64_t inode = 0;
    if (!target.starts_with(kSocket)) continue;
    std::from_chars(target.data() + kSocket.size(), target.data() + target.size(), inode);
    inodes.push_back(inode);
  }
  return inodes;
}

std::string boot_id() {
  const std::string text = text_of("/proc/sys/kernel/random/boot_id");
  return text.substr(0, text.find('\n'));
}

bool read_stat(pid_t pid, ProcStat& stat) {
  const auto text = read_file(proc_path(pid, "stat"), kProcFileBytesMax);
  if (!text) return false;
  // "pid (any name) state ppid pgrp session ...", proc(5): start time is field 22, times 14 to 17.
  const auto end = text->rfind(')');
  if (end == std::string::npos || end + 2 >= text->size()) return false;
  std::vector<std::string_view> fields;
  const std::string_view rest = std::string_view(*text).substr(end + 2);
  for (std::size_t at = 0; at < rest.size();) {
    const std::size_t stop = std::min(rest.find(' ', at), rest.size());
    fields.push_back(rest.substr(at, stop - at));
    at = stop + 1;
  }
  if (fields.size() < 22 || fields[0].empty()) return false;
  const auto number = [&](std::size_t index) {
    std::uint64_t value = 0;
    std::from_chars(fields[index].data(), fields[index].data() + fields[index].size(), value);
    return value;
  };
  stat.pid = pid;
  stat.state = fields[0][0];
  std::from_chars(fields[3].data(), fields[3].data() + fields[3].size(), stat.session);
  stat.start_ticks = number(19);
  static const auto ticks_per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  stat.cpu_ms = (number(11) + number(12) + number(13) + number(14)) * 1000 / ticks_per_second;
  stat.resident_bytes = number(21) * page_bytes;
  return true;
}

bool is_alive(pid_t pid, std::uint64_t start_ticks) {
  ProcStat stat;
  return pid > 0 && read_stat(pid, stat) && stat.start_ticks == start_ticks && stat.state != 'Z' &&
         stat.state != 'X';
}

std::vector<ProcStat> own_processes() {
  std::vector<ProcStat> found;
  for (const std::string& name : names_under("/proc")) {
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ptr != name.data() + name.size() || pid == ::getpid()) continue;
    struct stat info {};
    if (::stat(("/proc/" + name).c_str(), &info) != 0 || info.st_uid != ::geteuid()) continue;
    ProcStat stat;
    if (read_stat(pid, stat) && stat.state != 'Z' && stat.state != 'X') found.push_back(stat);
  }
  return found;
}

std::string environment_of(pid_t pid, const std::string& name) {
  const std::string text = whole_environment_of(pid);
  const std::string wanted = name + "=";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    if (text.compare(at, wanted.size(), wanted) == 0) {
      return text.substr(at + wanted.size(), end - at - wanted.size());
    }
    at = end + 1;
  }
  return "";
}

std::string link_of(pid_t pid, const std::string& link) {
  char target[4096];
  const ssize_t size = ::readlink(proc_path(pid, link).c_str(), target, sizeof target);
  return size < 0 ? std::string() : std::string(target, static_cast<std::size_t>(size));
}

std::int64_t unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::int64_t steady_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

TimePoint time_of_steady(std::int64_t ms) {
  return TimePoint(std::chrono::milliseconds(ms));
}

bool send_signal(const ProcStat& process, int signal) {
  const UniqueFd fd = open_pidfd(process);
  return fd && ::syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0) == 0;
}

bool end_processes(const std::function<std::vector<ProcStat>()>& find, Duration grace,
                   std::size_t& ended) {
  const TimePoint start(std::chrono::steady_clock::now());
  std::set<std::pair<pid_t, std::uint64_t>> asked;
  for (;;) {
    const std::vector<ProcStat> left = find();
    if (left.empty()) return true;
    const TimePoint now(std::chrono::steady_clock::now());
    if (now >= start + grace + kKillDeadline) return false;
    for (const ProcStat& process : left) {
      const bool is_new = asked.emplace(process.pid, process.start_ticks).second;
      if (is_new) ++ended;
      if (now >= start + grace) {
        send_signal(process, SIGKILL);
      } else if (is_new) {
        send_signal(process, SIGTERM);
      }
    }
    wait_for_any(left, now < start + grace ? start + grace : start + grace + kKillDeadline);
  }
}

}  // namespace paddle::agent

// Processes as /proc shows them. A pid identifies one only with its start time and boot id.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"

namespace paddle::agent {

struct ProcStat {
  pid_t pid = 0;
  char state = 0;
  pid_t session = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t cpu_ms = 0;  // including children it has waited for
  std::uint64_t resident_bytes = 0;
};

// The content of a system file, or "" when it cannot be read.
std::string text_of(const std::string& path);
// The rest of the first line that starts with `key`, without blanks and quotes around it.
std::string value_of(const std::string& text, const std::string& key);
// The entries of a system folder; none when it cannot be read.
std::vector<std::string> names_under(const std::string& folder);
std::string boot_id();
// False when there is no such process.
bool read_stat(pid_t pid, ProcStat& stat);
// True for a running process (not a zombie) that started at start_ticks.
bool is_alive(pid_t pid, std::uint64_t start_ticks);
// Processes of this user, without zombies and without this one.
std::vector<ProcStat> own_processes();
// The value of name in the environment the process was started with, or "".
std::string environment_of(pid_t pid, const std::string& name);
// Inodes of the sockets that a process has open, as far as this user may see them.
std::vector<std::uint64_t> sockets_of(pid_t pid);
// The target of /proc/<pid>/<link> ("exe"), or "".
std::string link_of(pid_t pid, const std::string& link);

std::int64_t unix_ms();  // by the wall clock, for records that people read
// Milliseconds by the monotonic clock, which is the same in all processes until the machine
// reboots.
std::int64_t steady_ms();
TimePoint time_of_steady(std::int64_t ms);

// Sends the signal through a pidfd, so that a process with a recycled pid never receives it. False
// when the process is gone.
bool send_signal(const ProcStat& process, int signal);

// Ends the processes that find() returns: SIGTERM once, SIGKILL after grace. True when find()
// returns none before grace and kKillDeadline have passed. `ended` counts the processes seen.
constexpr Duration kKillDeadline = std::chrono::seconds(10);
bool end_processes(const std::function<std::vector<ProcStat>()>& find, Duration grace,
                   std::size_t& ended);

}  // namespace paddle::agent

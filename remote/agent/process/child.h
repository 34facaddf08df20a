// The child process that a supervisor watches: its command line and environment, its start, and its
// notices about itself.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "proto/agent.pb.h"
#include "remote/agent/node/root.h"
#include "remote/agent/process/pulse_watch.h"

namespace paddle::agent {

// PADDLECTL_NOTICE_FD and PADDLECTL_MEMORY_FD contain the numbers of the child's descriptors.
constexpr int kNoticeFd = 3;
// Scripts and launchers use the small numbers themselves. Where `ulimit -n` allows no such number,
// the memory gets kLowMemoryFd.
constexpr int kMemoryFd = 120;
constexpr int kLowMemoryFd = 10;

struct Program {
  std::string name;                    // for errors
  std::vector<std::string> arguments;  // [0]: its path
  std::vector<std::string> variables;  // NAME=value
  bool sends_notices = false;          // gets a pipe for them as kNoticeFd
  int memory = -1;                     // -1: none
  int memory_number = kMemoryFd;       // the child's number of `memory`
  wire::agent::GpuVariables gpus;      // GPU variables among `variables`, for `paddlectl status`
};
// For execve(2): valid as long as `texts`.
std::vector<char*> pointers(const std::vector<std::string>& texts);
struct Child {
  pid_t pid = -1;
  UniqueFd output;   // stdout and stderr, non-blocking
  UniqueFd notices;  // non-blocking; empty unless the program sends any
};

// Starts the program in `directory`, as the leader of its own process group, with the caller's
// stdin. The child is killed when the calling thread ends. kFailed when the program cannot be
// executed.
Result<Child> start_child(const Program& program, int directory);

// The next step for a file that exists and still cannot be executed, with execve's error number. ""
// where it does not exist or its mode is the reason. A relative path begins in `folder`.
std::string step_to_execute(int folder, const std::string& path, int error);

// The node's PATH, HOME, ..., as NAME=value, passed to every process.
using Environment = std::vector<std::string>;

// Fills the placeholders {root}, {incarnation} and {again}, and looks up a program without a path
// in the process's own PATH. The variables of the specification replace those of the node.
Program program_of(const wire::agent::ProcessSpec& spec, const Root& root,
                   std::uint32_t incarnation, const Environment& environment);

// Creates a file without a name, in memory, that outlives the process; empty if the process needs
// none.
Result<UniqueFd> memory_of(const wire::agent::ProcessSpec& spec);
void give_memory(Program& program, int memory);

class Notices {
 public:
  // `pipe` is non-blocking, or empty for a process that sends no notices.
  void open(UniqueFd pipe);
  int fd() const { return pipe_ ? pipe_.get() : -1; }
  // Reads the available notices, up to a bound, passes their pulses to `watch` and writes the
  // latest notice to the record `folder`. A malformed notice closes the pipe; the process continues
  // without it.
  void receive(const Root& root, const SafePath& folder, PulseWatch& watch);
  // Whether training has progressed since open(); nothing for a process that reports no progress.
  std::optional<bool> has_progressed() const { return has_progressed_; }
  // When training last progressed.
  std::optional<TimePoint> progressed_at() const { return progressed_at_; }
  // The latest since open().
  const std::optional<wire::Notice>& latest() const { return latest_; }

 private:
  void note(const wire::Progress& progress);

  UniqueFd pipe_;
  std::string pending_;
  std::optional<wire::Notice> latest_;
  std::optional<wire::Progress> first_;
  std::optional<wire::Progress> last_;
  std::optional<bool> has_progressed_;
  std::optional<TimePoint> progressed_at_;
  std::optional<std::int64_t> reported_unix_ms_;  // time in the latest report, which identifies it
  std::int64_t reported_steady_ms_ = 0;           // when that report was first read
};

}  // namespace paddle::agent

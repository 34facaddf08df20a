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
#include "remote/agent/process/pulse_watch.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// In the child, named by PADDLECTL_NOTICE_FD and PADDLECTL_MEMORY_FD.
constexpr int kNoticeFd = 3;
constexpr int kMemoryFd = 4;

struct Program {
  std::string name;                    // in errors
  std::vector<std::string> arguments;  // [0]: its path
  std::vector<std::string> variables;  // NAME=value
  bool sends_notices = false;          // gets a pipe for them as kNoticeFd
  int memory = -1;                     // given to it as kMemoryFd; -1: none
  wire::agent::GpuVariables gpus;      // of `variables`, for `paddlectl status`
};
struct Child {
  pid_t pid = -1;
  UniqueFd output;   // stdout and stderr, non-blocking
  UniqueFd notices;  // non-blocking; empty unless the program sends any
};

// Starts in `directory`, as the leader of its own process group, with the caller's stdin. The child
// is killed when the calling thread ends. kFailed when the program cannot be executed.
Result<Child> start_child(const Program& program, int directory);

// The node's PATH, HOME, ..., as NAME=value, passed to every process.
using Environment = std::vector<std::string>;

// Fills the placeholders {root}, {life} and {again}, and looks up a program without a path in the
// process's own PATH. The variables of the specification replace those of the node.
Program program_of(const wire::agent::ProcessSpec& spec, const Root& root, std::uint32_t life,
                   const Environment& environment);

// A file without a name, in memory, that outlives the process; empty where it needs none.
Result<UniqueFd> memory_of(const wire::agent::ProcessSpec& spec);
void give_memory(Program& program, int memory);

class Notices {
 public:
  // `pipe` is non-blocking, or empty for a process that sends none.
  void open(UniqueFd pipe);
  int fd() const { return pipe_ ? pipe_.get() : -1; }
  // Reads what there is, up to a bound, and shows its pulses to `watch`. A malformed notice closes
  // the pipe: the process goes on without it.
  void take(const Root& root, const SafePath& folder, PulseWatch& watch);
  // Whether training went on since open(); nothing for a process that reports nothing.
  std::optional<bool> has_progressed() const { return has_progressed_; }
  // When it last did.
  std::optional<TimePoint> progressed_at() const { return progressed_at_; }

 private:
  void note(const wire::Progress& progress);

  UniqueFd pipe_;
  std::string pending_;
  std::optional<wire::Progress> first_;
  std::optional<wire::Progress> last_;
  std::optional<bool> has_progressed_;
  std::optional<TimePoint> progressed_at_;
  std::optional<std::int64_t> reported_unix_ms_;  // of the latest report, which this tells apart
  std::int64_t reported_steady_ms_ = 0;           // when it was read
};

}  // namespace paddle::agent

// A program on this machine whose stdin and stdout are a channel.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace paddle::remote {

class ChildProgram {
 public:
  // In a session of its own, the program has no terminal, and Ctrl-C in ours does not reach it. In
  // our session it may ask the user questions on the terminal.
  enum class Session { kOwn, kOurs };

  struct Surroundings {
    std::string folder = {};                              // "": the current directory
    std::map<std::string, std::string> environment = {};  // replaces our variables of these names
    Session session = Session::kOwn;
  };

  // Starts arguments[0], looked up in our PATH. `channel` becomes our end of its stdin and stdout.
  // kResource when it cannot start.
  static Result<std::shared_ptr<ChildProgram>> start(const std::vector<std::string>& arguments,
                                                     UniqueFd& channel,
                                                     const Surroundings& surroundings);
  static Result<std::shared_ptr<ChildProgram>> start(const std::vector<std::string>& arguments,
                                                     UniqueFd& channel,
                                                     Session session = Session::kOwn) {
    return start(arguments, channel, Surroundings{.session = session});
  }
  // Close the channel first: a program that does not end with its input is terminated, with its
  // process group. A program in our session is terminated at once, and alone.
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  // The last 4 KiB of stderr, including everything that was written before the output that the
  // channel has delivered.
  std::string stderr_tail();
  // The status as waitpid(2) reports it; empty when the program still runs after `patience`.
  std::optional<int> wait_status(Duration patience);
  // "podman exited with status 125: Error: no container named node-1", in one line: how the program
  // `name` ended, and its last line on stderr.
  std::string describe_end(const std::string& name);

 private:
  ChildProgram(pid_t pid, UniqueFd errors, Session session);
  void pump();
  bool read_errors();

  pid_t pid_;
  Session session_;
  UniqueFd pidfd_;
  UniqueFd errors_;
  std::mutex mutex_;
  std::string tail_;
  std::thread pump_;
};

}  // namespace paddle::remote

// Programs of this machine that a provider runs, such as kubectl: their output line by line, and
// how they ended.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace paddle::cli {

struct ProgramCall {
  std::vector<std::string> arguments;  // the program first; without '/', looked up in PATH
  std::string folder = {};             // in which it runs; "": the current directory
  std::map<std::string, std::string> environment = {};  // beside this program's own variables
  std::string input = {};                               // its stdin
  Duration timeout = std::chrono::seconds(60);
  // Called for each line of stdout, without the newline; null: the output is only returned.
  std::function<void(std::string_view line)> on_line = {};
  std::function<bool()> interrupted = {};  // null: never
};

struct ProgramEnd {
  int status = 0;      // exit status; 128 + the number of the signal that ended it
  std::string output;  // stdout, at most kProgramOutputMax bytes
  std::string errors;  // the last 4 KiB of stderr, without newlines at the end
  bool ok() const { return status == 0; }
  // The last line of stderr without a leading "error: ", or "PROGRAM exited with status 3".
  std::string cause(std::string_view program) const;
};

constexpr std::size_t kProgramOutputMax = 64U << 20U;

// Runs the program to its end. kUsage: it cannot be started, as one that is not installed.
// kUnreachable: it did not end in time. kInterrupted: Ctrl-C. In the last two cases it is
// terminated, with its process group.
Result<ProgramEnd> run_program(const ProgramCall& call);

}  // namespace paddle::cli

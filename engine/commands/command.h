// The program `paddle` and its commands: one constant per command, listed in program.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/commands/flags.h"

namespace paddle::commands {

struct Command {
  const char* name;
  const char* summary;  // one line of `paddle --help`
  const char* usage;    // the head of `paddle <command> --help`, above the flags
  // Declares the flags; the returned function runs the command with the values they were given.
  std::function<Status()> (*declare)(FlagSet& flags);
};

extern const Command kVersionCommand;
extern const Command kPserverCommand;
extern const Command kTrainCommand;
extern const Command kPlanCommand;
extern const Command kStatisticsCommand;
extern const Command kTestCommand;
extern const Command kPredictCommand;
extern const Command kExportCommand;
extern const Command kNearestCommand;
extern const Command kServeCommand;
extern const Command kVerifyCommand;
extern const Command kClientCommand;

// The exit code of a command. Prints an error and its hint on stderr, and sends the error to the
// supervisor.
int exit_code(const Status& status);

// Finds the command that the arguments name, parses its flags and runs it. Returns the exit code;
// prints an error and its hint on stderr. `environment` is as in environ(7).
int run_program(const std::vector<std::string>& arguments, const char* const* environment);

constexpr std::uint32_t kPortMax = 65535;
constexpr std::uint32_t kPortsMax = 1024;  // of each kind, per pserver
constexpr std::uint32_t kCountMax = 1U << 20U;

constexpr const char* kKeyFileHelp =
    "file with the keys of the job or of this process; needed beyond loopback";
constexpr const char* kTransportHelp =
    "how connections are protected: sealed (between machines, by TLS 1.3), always or clear; the "
    "same "
    "for all processes";
constexpr const char* kRankFromHelp =
    "take ids from the environment of kubernetes, slurm or openmpi; the first ranks are the "
    "pservers";

}  // namespace paddle::commands

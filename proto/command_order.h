// The order of commands on one job: which commands may run at the same time, and what a command
// does that arrives while another one runs.
//
// INVARIANT: nodes order two commands on one job. A command that changes a job holds the job's
// claim on its nodes (remote/agent/process/claims.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace paddle {

// The numbers of JobClaim::command in agent.proto.
enum class JobCommand : std::uint8_t {
  kTrain = 1,       // ends when its processes run
  kResume,          // train --resume; ends when its processes run
  kRestart,         // the whole job
  kRestartProcess,  // one process
  kStop,            // also Ctrl-C in train
  kStopNow,         // also a second Ctrl-C in train
  kFinish,          // train or attach, at the end of the job
  kFetch,           // also train and attach, at the end of the job
  kRm,
  kTeardown
};

enum class Order : std::uint8_t {
  kBeside,  // both continue
  kJoin,    // the newcomer waits for the holder's end, which achieves its aim too
  kWait,    // the newcomer waits for the holder's end, and then begins
  kRefuse,  // the newcomer fails and changes nothing
  kOver     // the newcomer continues; the holder can start no more processes
};

// The order for `newcomer` while `holder` runs.
Order order_of(JobCommand holder, JobCommand newcomer);

std::vector<JobCommand> all_job_commands();
// The command as typed after `paddlectl`: "train --resume".
std::string_view name_of(JobCommand command);
// The verb for the command's effect on a job: "starts", "saves and ends", ...
std::string_view verb_of(JobCommand command);
// Whether the command starts processes. While it holds the claim, the job's keys are not wiped and
// the job has not ended, even if none of its processes runs.
bool starts_processes(JobCommand command);
std::optional<JobCommand> job_command_of(std::uint32_t number);

}  // namespace paddle

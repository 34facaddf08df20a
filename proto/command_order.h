// The order of commands on one job: which may run beside which, and what becomes of one that comes
// while another is at work. It is kept at the job's nodes: a command that changes a job holds that
// job's claim there (remote/agent/process/claims.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace paddle {

// Numbered as in JobClaim of agent.proto.
enum class JobCommand : std::uint8_t {
  kTrain = 1,       // until its processes run
  kResume,          // train --resume, likewise
  kRestart,         // of the whole job
  kRestartProcess,  // of one process
  kStop,            // also by Ctrl-C in train
  kStopNow,         // also by a second Ctrl-C in train
  kFinish,          // train or attach, at the end of the job
  kFetch,           // also by train and attach, at the end of the job
  kRm,
  kTeardown
};

enum class Order : std::uint8_t {
  kBeside,  // both go on
  kJoin,    // the newcomer waits for the holder's end, which is what it wants too
  kWait,    // the newcomer waits for the holder's end, and then begins
  kRefuse,  // the newcomer ends, and nothing is changed
  kOver     // the newcomer goes on; the holder can start nothing more
};

// The way that `newcomer` goes while `holder` is at work.
Order order_of(JobCommand holder, JobCommand newcomer);

std::vector<JobCommand> all_job_commands();
// As typed after `paddlectl`: "train --resume".
std::string_view name_of(JobCommand command);
// "starts", "saves and ends", ...: what it does with a job.
std::string_view verb_of(JobCommand command);
// Whether it starts processes: then the job's keys are not wiped while it holds the claim, and the
// job has not come to its end though nothing of it runs.
bool starts_processes(JobCommand command);
std::optional<JobCommand> job_command_of(std::uint32_t number);

}  // namespace paddle

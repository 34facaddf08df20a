// States and order of a job's processes, and how a command on a node ended.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "remote/client/agent_client.h"

namespace paddle::cli {

bool is_pserver(const remote::ProcessStatus& status);
bool is_running(const remote::ProcessStatus& status);
bool is_running_trainer(const ProcessOnNode& process);
// Whether a trainer is a user's own program, whose exit codes may mean anything.
bool is_own_program(const remote::ProcessStatus& status);
// Exited with 0.
bool ended_well(const remote::ProcessStatus& status);
// Stopped as asked and saved, so that the job can be resumed.
bool is_resumable(const remote::ProcessStatus& status);
// "running", "exited with code 6", "killed by signal 9 (Killed)",
// "hung (no response for 60 s) and was killed", ...
std::string describe_state(const remote::ProcessStatus& status);

// "was killed by signal 9 (Killed); restarted (1 of 2)".
std::string describe(const remote::Restart& restart, std::uint32_t allowed);

// The signal that killed a command, 0 if it exited. A shell on the node reports that signal N has
// killed its program by the exit code 128 + N.
int signal_of(const remote::CommandEnd& end);
// "exited with code 3", "was killed by signal 9 (Killed)", "took longer than --timeout".
std::string describe(const remote::CommandEnd& end);
// "; its last lines:\n<what it printed>", without the line break at the end; "" if it printed
// nothing.
std::string last_lines(std::string_view printed);

// "trainer-0 on n-1 could not save its latest snapshot (...); training continues, ..."; "" if the
// latest snapshot was saved.
std::string describe_save_failure(const remote::ProcessStatus& status, const std::string& node);

// "trainer-0 on n-1 continued from pass-00001, since pass-00002 is damaged: ..."; "" if it
// continued from the newest snapshot.
std::string describe_rollback(const remote::ProcessStatus& status, const std::string& node);

// Pservers before trainers, "pserver-2" before "pserver-10".
bool comes_before(const remote::ProcessStatus& a, const remote::ProcessStatus& b);

}  // namespace paddle::cli

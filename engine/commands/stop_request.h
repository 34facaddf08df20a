// Graceful stop on SIGTERM or SIGINT: the trainer finishes its batch and the job is saved.
#pragma once

namespace paddle::commands {

// From now on the first such signal only sets stop_requested(); the second one ends the process.
void take_stop_signals();
bool stop_requested();

}  // namespace paddle::commands

// SIGTERM and SIGINT as a wish: the trainer comes to the end of its batch and the job is saved.
#pragma once

namespace paddle::commands {

// From now on the first of them is only noted; the next one ends the process.
void take_stop_signals();
bool stop_requested();

}  // namespace paddle::commands

#include "engine/commands/stop_request.h"

#include <atomic>
#include <csignal>

namespace paddle::commands {
namespace {

std::atomic<bool> g_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int) {
  g_requested = true;
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void take_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
}

bool stop_requested() {
  return g_requested;
}

}  // namespace paddle::commands

#include "engine/commands/notice.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>

#include "base/clock.h"
#include "base/fd.h"
#include "engine/commands/inherited.h"

namespace paddle::commands {
namespace {

constexpr const char* kVariable = "PADDLECTL_NOTICE_FD";
// A notice fits PIPE_BUF bytes with its length, so that it is written whole or not at all.
constexpr std::size_t kTextBytesMax = 1500;  // of the message, and of the hint
constexpr int kNamedMax = 100;               // peers that are awaited, or silent

UniqueFd g_pipe;
std::atomic<bool> g_is_stopping = false;
std::mutex g_mutex;
wire::Notice g_latest;  // the supervisor keeps one notice, so each repeats what still holds

void send(const std::function<void(wire::Notice&)>& change) {
  if (!g_pipe) return;
  const std::scoped_lock lock(g_mutex);
  change(g_latest);
  const std::string body = g_latest.SerializeAsString();
  const auto size = static_cast<std::uint32_t>(body.size());
  std::string message(sizeof size, '\0');
  std::memcpy(message.data(), &size, sizeof size);  // little-endian, as both sides are
  message += body;
  // A supervisor that does not read loses the notice; the exit code still tells the end.
  [[maybe_unused]] const ssize_t put = ::write(g_pipe.get(), message.data(), message.size());
}

void send_phase(wire::Phase phase) {
  send([phase](wire::Notice& notice) { notice.set_phase(phase); });
}

}  // namespace

void open_notices() {
  UniqueFd pipe = take_inherited(kVariable, S_IFIFO);
  if (!pipe) return;
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  g_pipe = std::move(pipe);
  g_latest.Clear();
}

void notify_ready() {
  send_phase(wire::PHASE_READY);
}

void notify_stopping() {
  if (!g_is_stopping.exchange(true)) send_phase(wire::PHASE_STOPPING);
}

void notify_failed(const Error& error) {
  send([&error](wire::Notice& notice) {
    notice.set_phase(wire::PHASE_FAILED);
    if (notice.has_progress()) {  // its numbers tell that it has trained; the rest needs room
      notice.mutable_progress()->clear_awaited_trainers();
      notice.mutable_progress()->clear_silent();
      notice.mutable_progress()->clear_save_failure();
      notice.mutable_progress()->clear_went_back();
    }
    notice.mutable_failure()->set_code(static_cast<int>(error.code));
    notice.mutable_failure()->set_message(error.message.substr(0, kTextBytesMax));
    notice.mutable_failure()->set_hint(error.hint.substr(0, kTextBytesMax));
  });
}

void notify_progress(wire::Progress progress) {
  progress.set_unix_ms(unix_milliseconds());
  while (progress.awaited_trainers_size() > kNamedMax) {
    progress.mutable_awaited_trainers()->RemoveLast();
  }
  while (progress.silent_size() > kNamedMax) progress.mutable_silent()->RemoveLast();
  send([&progress](wire::Notice& notice) { notice.mutable_progress()->Swap(&progress); });
}

void notify_silence(std::uint32_t peer, std::chrono::milliseconds lasted) {
  send([&](wire::Notice& notice) {
    if (!notice.has_progress()) return;
    auto& all = *notice.mutable_progress()->mutable_silent();
    auto silent = std::ranges::find(all, peer, &wire::Silent::index);
    if (silent == all.end()) {
      if (all.size() == kNamedMax) return;
      all.Add()->set_index(peer);
      silent = all.end() - 1;
    }
    silent->set_ms(static_cast<std::uint64_t>(lasted.count()));
  });
}

void notify_awaited(std::span<const std::uint32_t> trainers, std::chrono::milliseconds lasted) {
  const std::span<const std::uint32_t> named =
      trainers.first(std::min<std::size_t>(trainers.size(), kNamedMax));
  send([&](wire::Notice& notice) {
    if (!notice.has_progress()) return;
    wire::Progress& progress = *notice.mutable_progress();
    progress.mutable_awaited_trainers()->Assign(named.begin(), named.end());
    progress.set_awaited_since_unix_ms(unix_milliseconds() - lasted.count());
  });
}

void notify_pulse(const wire::Pulse& pulse) {
  send([&pulse](wire::Notice& notice) { *notice.mutable_pulse() = pulse; });
}

}  // namespace paddle::commands

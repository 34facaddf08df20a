#include "engine/commands/supervision.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"

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
  // If the supervisor does not read, the notice is lost; the exit code still reports the end.
  [[maybe_unused]] const ssize_t put = ::write(g_pipe.get(), message.data(), message.size());
}

void send_phase(wire::Phase phase) {
  send([phase](wire::Notice& notice) { notice.set_phase(phase); });
}

constexpr Duration kPeriod = std::chrono::seconds(1);

constexpr const char* kMemoryVariable = "PADDLECTL_MEMORY_FD";
// The link of a memfd that the supervisor has made (remote/agent/process/child.cc).
constexpr std::string_view kMemoryLink = "/memfd:paddlectl-trainer (deleted)";

// The descriptor with this number above 2; -1: the text is no such number.
int descriptor_of(std::string_view text) {
  int fd = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && fd > STDERR_FILENO ? fd : -1;
}

bool is_trainer_memory(int fd) {
  char link[PATH_MAX];
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(path.c_str(), link, sizeof link);
  if (size < 0 || std::string_view(link, static_cast<std::size_t>(size)) != kMemoryLink)
    return false;
  return ::fcntl(fd, F_GET_SEALS) >= 0;  // a file on disk may have that name, but has no seals
}

}  // namespace

UniqueFd take_inherited(const char* variable, mode_t kind) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return {};
  const int fd = descriptor_of(text);
  struct stat status {};
  const bool is_right = fd >= 0 && ::fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == kind;
  ::unsetenv(variable);
  if (!is_right) return {};
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return UniqueFd(fd);
}

// INVARIANT: nothing is ever written to a file that is not the supervisor's.
UniqueFd take_trainer_memory() {
  const char* const number = std::getenv(kMemoryVariable);
  if (number == nullptr) return {};
  if (is_trainer_memory(descriptor_of(number))) return take_inherited(kMemoryVariable, S_IFREG);
  log_warning(
      "{} is not the supervisor's: the launcher must pass descriptor {} on, or a lost trainer "
      "cannot repeat its push",
      kMemoryVariable, escape_control(number));
  ::unsetenv(kMemoryVariable);
  return {};
}

bool take_mark(const char* variable) {
  const bool is_there = std::getenv(variable) != nullptr;
  ::unsetenv(variable);
  return is_there;
}

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
    if (notice.has_progress()) {  // its numbers show that it has trained; the rest needs room
      notice.mutable_progress()->clear_awaited_trainers();
      notice.mutable_progress()->clear_silent();
      notice.mutable_progress()->clear_save_failure();
      notice.mutable_progress()->clear_restored_from();
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

PulseThread::PulseThread(std::function<wire::Pulse()> read) : read_(std::move(read)) {
  thread_ = thread_without_signals([this] { run(); });
}

PulseThread::~PulseThread() {
  {
    const std::scoped_lock lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void PulseThread::run() {
  std::unique_lock lock(mutex_);
  do {
    notify_pulse(read_());
  } while (!ended_.wait_for(lock, kPeriod, [this] { return is_ended_; }));
}

}  // namespace paddle::commands

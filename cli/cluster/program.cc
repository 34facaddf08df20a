#include "cli/cluster/program.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"
#include "remote/launcher/child_program.h"

namespace paddle::cli {
namespace {

constexpr std::string_view kErrorPrefix = "error: ";
constexpr int kLookMs = 100;  // between two looks at Ctrl-C
constexpr Duration kExitPatience = std::chrono::seconds(5);

// One exchange with a program: what it has not read yet, and what it has written.
class Exchange {
 public:
  Exchange(const ProgramCall& call, int channel) : call_(call), channel_(channel) {}

  // Returns at the end of the program's output.
  Result<std::string> run() {
    const TimePoint deadline = std::chrono::steady_clock::now() + call_.timeout;
    if (call_.input.empty()) end_input();
    for (;;) {
      if (call_.interrupted && call_.interrupted()) return Error{Errc::kInterrupted, "interrupted"};
      if (std::chrono::steady_clock::now() >= deadline) {
        return Error{Errc::kUnreachable,
                     fmt::format("did not end within {} s",
                                 std::chrono::ceil<std::chrono::seconds>(call_.timeout).count())};
      }
      const short wanted = is_written() ? POLLIN : POLLIN | POLLOUT;
      pollfd ready{channel_, wanted, 0};
      if (::poll(&ready, 1, kLookMs) <= 0) continue;
      if ((ready.revents & POLLOUT) != 0) write_some();
      if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      PADDLE_TRY(const bool more, read_some());
      if (!more) return std::move(output_);
    }
  }

 private:
  bool is_written() const { return written_ == call_.input.size(); }
  void end_input() const { ::shutdown(channel_, SHUT_WR); }

  // A program that does not read its input to the end is not wrong.
  void write_some() {
    const ssize_t put = ::send(channel_, call_.input.data() + written_,
                               call_.input.size() - written_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
    written_ = put < 0 ? call_.input.size() : written_ + static_cast<std::size_t>(put);
    if (is_written()) end_input();
  }

  // False at the end.
  Result<bool> read_some() {
    std::array<char, 1U << 16U> buffer{};
    const ssize_t got = ::recv(channel_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) {
      if (shown_ < output_.size()) show(output_.size());
      return false;
    }
    output_.append(buffer.data(), static_cast<std::size_t>(got));
    if (output_.size() > kProgramOutputMax) {
      return Error{Errc::kResource, fmt::format("wrote over {}", human_bytes(kProgramOutputMax))};
    }
    for (std::size_t end = 0; (end = output_.find('\n', shown_)) != std::string::npos;) show(end);
    return true;
  }

  void show(std::size_t end) {
    if (call_.on_line) call_.on_line(std::string_view(output_).substr(shown_, end - shown_));
    shown_ = std::min(end + 1, output_.size());
  }

  const ProgramCall& call_;
  int channel_;
  std::size_t written_ = 0;
  std::string output_;
  std::size_t shown_ = 0;  // where the first line begins that on_line has not seen
};

}  // namespace

std::string ProgramEnd::cause(std::string_view program) const {
  std::string line = errors.substr(errors.rfind('\n') + 1);
  if (line.starts_with(kErrorPrefix)) line.erase(0, kErrorPrefix.size());
  return line.empty() ? fmt::format("{} exited with status {}", program, status) : line;
}

Result<ProgramEnd> run_program(const ProgramCall& call) {
  const std::string& name = call.arguments.front();
  UniqueFd opened;
  auto program = remote::ChildProgram::start(
      call.arguments, opened, {.folder = call.folder, .environment = call.environment});
  if (!program) {
    return Error{Errc::kUsage, fmt::format("cannot start {}: {}", name, program.error().message),
                 name.find('/') == std::string::npos
                     ? fmt::format("install {0}, so that `which {0}` finds it", name)
                     : "correct its path in the cluster file, and see that it is executable"};
  }
  // Declared after the program, so that it is closed before the program is waited for.
  const UniqueFd channel = std::move(opened);
  PADDLE_TRY(std::string output, Exchange(call, channel.get()).run().with(name));
  const auto status = (*program)->wait_status(kExitPatience);
  if (!status) {
    return Error{Errc::kUnreachable, fmt::format("{} closed its output and did not end", name)};
  }
  ProgramEnd end;
  end.status = WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
  end.output = std::move(output);
  end.errors = (*program)->stderr_tail();
  while (end.errors.ends_with('\n') || end.errors.ends_with('\r')) end.errors.pop_back();
  return end;
}

}  // namespace paddle::cli

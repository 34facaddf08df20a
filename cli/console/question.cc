#include "cli/console/question.h"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "remote/launcher/login_answers.h"

namespace paddle::cli {
namespace {

// Turns the echo of typed characters off until the end of the scope.
class NoEcho {
 public:
  explicit NoEcho(bool wanted) : off_(wanted && ::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!off_) return;
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    silent.c_lflag |= ECHONL;
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
  }
  ~NoEcho() {
    if (off_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  NoEcho(const NoEcho&) = delete;
  NoEcho& operator=(const NoEcho&) = delete;

 private:
  termios before_{};
  bool off_;
};

}  // namespace

std::optional<std::string> ask_on_terminal(std::string_view question, bool secret, int wake_fd) {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1) return std::nullopt;
  const NoEcho quiet(secret);
  const std::string shown = escape_control(question);
  [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, shown.data(), shown.size());
  std::string line;
  line.reserve(remote::kAnswerBytesMax +
               1);  // growth would leave copies of a secret in freed memory
  while (line.size() <= remote::kAnswerBytesMax) {
    pollfd items[2] = {{STDIN_FILENO, POLLIN, 0}, {wake_fd, POLLIN, 0}};
    if (::poll(items, 2, -1) < 0 && errno != EINTR) return std::nullopt;
    if (items[1].revents != 0) return std::nullopt;
    if (items[0].revents == 0) continue;
    char one = 0;
    const ssize_t got = ::read(STDIN_FILENO, &one, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    if (one == '\n') return line;
    line.push_back(one);
  }
  return std::nullopt;
}

}  // namespace paddle::cli

// paddlectl's main(): makes a Context with the real terminal, clock, files and nodes.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iostream>

#include "base/limits.h"
#include "base/text.h"
#include "cli/cluster/journal.h"
#include "cli/command_line.h"
#include "cli/job/share_folder.h"
#include "remote/launcher/login_answers.h"

namespace {

constexpr paddle::Duration kConnectDeadline = std::chrono::seconds(20);  // for one node

std::atomic<bool> g_interrupted = false;
std::atomic<bool> g_notes_interrupts = true;
std::atomic<bool> g_err_is_terminal = false;
std::atomic<bool> g_reached_nodes = false;
int g_wake_pipe[2] = {-1, -1};  // readable after a signal, which ends a pause

// The first signal asks the command to end cleanly; the second exits at once.
void on_signal(int) {
  if (g_interrupted.exchange(true)) {
    constexpr std::string_view kLeft =
        "\nexited immediately; paddlectl jobs shows what runs on the nodes\n";
    if (g_reached_nodes) {
      [[maybe_unused]] const ssize_t said = ::write(STDERR_FILENO, kLeft.data(), kLeft.size());
    }
    ::_exit(static_cast<int>(paddle::Errc::kInterrupted));
  }
  constexpr std::string_view kNote = "\ninterrupted; press Ctrl-C again to exit immediately\n";
  // On a terminal, at least ends the line that shows "^C".
  const std::string_view note =
      g_notes_interrupts ? kNote : kNote.substr(0, g_err_is_terminal ? 1 : 0);
  [[maybe_unused]] const ssize_t noted = ::write(STDERR_FILENO, note.data(), note.size());
  [[maybe_unused]] const ssize_t ignored = ::write(g_wake_pipe[1], "x", 1);
}

bool handle_signals() {
  if (::pipe2(g_wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
  return true;
}

void pause_at_most(paddle::Duration limit) {
  pollfd item{g_wake_pipe[0], POLLIN, 0};
  ::poll(&item, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(limit).count()));
}

// Empty without a home directory; hashes are then not stored.
std::string hash_cache_file() {
  const char* const cache = ::getenv("XDG_CACHE_HOME");
  const char* const home = ::getenv("HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/paddlectl/hashes";
  return home != nullptr && *home == '/' ? std::string(home) + "/.cache/paddlectl/hashes" : "";
}

void take_interrupt() {
  char taken[16];
  while (::read(g_wake_pipe[0], taken, sizeof taken) > 0) {
  }
  g_interrupted = false;
}

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

// Asks the user at the terminal: prints the question to stderr, escaped, and reads one line from
// stdin. Returns nothing if stdin or stderr is no terminal, at the end of input, after more than
// kAnswerBytesMax, or after Ctrl-C. secret: no echo.
std::optional<std::string> ask_on_terminal(std::string_view question, bool secret) {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1) return std::nullopt;
  const NoEcho quiet(secret);
  const std::string shown = paddle::escape_control(question);
  [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, shown.data(), shown.size());
  std::string line;
  // If the string grew, copies of a secret would stay in freed memory.
  line.reserve(paddle::remote::kAnswerBytesMax + 1);
  while (line.size() <= paddle::remote::kAnswerBytesMax) {
    pollfd items[2] = {{STDIN_FILENO, POLLIN, 0}, {g_wake_pipe[0], POLLIN, 0}};
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

// Whether the locale is UTF-8, by the variables that setlocale reads.
bool speaks_utf8() {
  for (const char* const variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = ::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

void measure_terminal(paddle::cli::ConsoleOptions& options) {
  winsize size{};
  if (::isatty(STDERR_FILENO) == 1 && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0)
    options.live_columns = size.ws_col;
  if (::isatty(STDOUT_FILENO) != 1 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return;
  options.columns = size.ws_col;
  options.rows = size.ws_row;
}

// Opens /dev/null for closed standard files. Otherwise a file or connection opened later could get
// the number of stdout, and results would be written into it.
void open_standard_files() {
  int file = 0;
  do {
    file = ::open("/dev/null", O_RDWR);
  } while (file >= 0 && file <= STDERR_FILENO);
  ::close(file);
}

// The exit code of a command whose results may not all have been written. A closed reader, as after
// `| head`, is no error.
int code_after_output(paddle::cli::Console& console, int code) {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  const bool is_gone =
      ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  if (code != 0 || !console.closed() || is_gone) return code;
  console.error({paddle::Errc::kResource, "not all of the output could be written to stdout",
                 "the disk of its file may be full"});
  return static_cast<int>(paddle::Errc::kResource);
}

// Protects passwords and keys in this process: it leaves no core file, and other programs of this
// user cannot read its memory. Programs that it starts are not restricted. Files that it makes are
// not writable for other users, because such files would not be trusted later.
void protect_process() {
  ::prctl(PR_SET_DUMPABLE, 0);
  ::umask(::umask(0) | S_IWGRP | S_IWOTH);
}

bool has_room_to_run() {
  const paddle::Status limits = paddle::prepare_limits("paddlectl");
  if (!limits)
    std::cerr << "error: " << limits.error().message << "\nhint: " << limits.error().hint << '\n';
  return static_cast<bool>(limits);
}

paddle::Result<std::vector<std::string>> look_beside(paddle::remote::LoginAnswers& answers,
                                                     const std::string& agent,
                                                     const paddle::remote::NodeSpec& node) {
  return paddle::remote::log_in(answers, [&](paddle::remote::Login& login) {
    return paddle::remote::folders_beside(node, {agent, kConnectDeadline, false, &login});
  });
}

paddle::Result<std::string> ask_machine(paddle::remote::LoginAnswers& answers,
                                        const std::string& agent,
                                        const paddle::remote::NodeSpec& node) {
  return paddle::remote::log_in(answers, [&](paddle::remote::Login& login) {
    return paddle::remote::machine_of(node, {agent, kConnectDeadline, false, &login});
  });
}

// Lets commands ask a node's shell where it has no agent.
void add_questions(paddle::cli::Context& context, paddle::remote::LoginAnswers& answers,
                   const std::string& agent) {
  context.folders_beside = [&](const auto& node) { return look_beside(answers, agent, node); };
  context.machine_of = [&](const auto& node) { return ask_machine(answers, agent, node); };
}

void name_program(paddle::cli::Context& context) {
  context.ssh_library = paddle::remote::ssh_library();
  context.who = paddle::cli::user_at_machine() + ", pid " + std::to_string(::getpid());
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_files();
  protect_process();
  if (!has_room_to_run() || !handle_signals()) return static_cast<int>(paddle::Errc::kResource);
  std::error_code error;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const bool err_terminal = ::isatty(STDERR_FILENO) == 1;
  g_err_is_terminal = err_terminal;
  const char* const no_color = ::getenv("NO_COLOR");
  const char* const term = ::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";  // no escape sequences
  paddle::cli::ConsoleOptions console_options;
  console_options.live = err_terminal && !dumb;
  console_options.colour = err_terminal && ::isatty(STDOUT_FILENO) == 1 && !dumb &&
                           (no_color == nullptr || *no_color == '\0');
  console_options.utf8 = speaks_utf8();
  if (!dumb) measure_terminal(console_options);
  paddle::cli::Console console(std::cout, std::cerr, console_options);
  const paddle::SteadyClock clock;
  paddle::remote::LoginAnswers answers([&](std::string_view question, bool secret) {
    console.end_progress();
    return ask_on_terminal(question, secret);
  });
  const std::string agent = (here / "paddlectl-agent").string();
  const paddle::cli::Journal journal(paddle::cli::journal_folder(), [&](const auto& unwritten) {
    console.note("the journal cannot be written: " + unwritten.message);
  });
  const auto keep_action = [&](const auto& node, const auto& action) { journal.add(node, action); };
  paddle::cli::Context context{
      console,
      clock,
      [&](const paddle::remote::NodeSpec& node, bool create) {
        return paddle::remote::log_in(answers, [&](paddle::remote::Login& login) {
          auto client =
              paddle::remote::connect(node, {agent, kConnectDeadline, create, &login, keep_action});
          g_reached_nodes = true;
          return client;
        });
      },
      pause_at_most,
      [] { return g_interrupted.load(); },
      [] {
        return std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
            .count();
      },
      (here / "paddle").string(),
      std::filesystem::current_path(error).string(),
      hash_cache_file(),
      ask_on_terminal,
      [&](const paddle::remote::NodeSpec& node) {
        return paddle::remote::log_in(answers, [&](paddle::remote::Login& login) {
          const paddle::Duration patience =
              node.timeout > paddle::Duration() ? node.timeout : kConnectDeadline;
          return paddle::remote::ask_host_key(node, clock.now() + patience, &login);
        });
      },
      take_interrupt,
      [](bool notes) { g_notes_interrupts = notes; },
      &answers,
      paddle::cli::find_share_folder(here.string()),
      [] {
        return std::chrono::duration_cast<std::chrono::milliseconds>(
                   std::chrono::system_clock::now().time_since_epoch())
            .count();
      }};
  add_questions(context, answers, agent);
  name_program(context);
  return code_after_output(console, paddle::cli::run_app(context, {argv + 1, argv + argc}));
}

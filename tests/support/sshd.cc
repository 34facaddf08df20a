#include "tests/support/sshd.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>

extern char** environ;

namespace paddle::test {
namespace {

constexpr const char* kSshd = "/usr/sbin/sshd";
constexpr const char* kKeygen = "/usr/bin/ssh-keygen";
constexpr const char* kUnshare = "/usr/bin/unshare";
constexpr auto kStartDeadline = std::chrono::seconds(20);

std::vector<char*> to_argv(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  return argv;
}

// stdin from /dev/null, stdout and stderr to `output`.
Result<pid_t> spawn_program(const std::vector<std::string>& arguments, int output) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, 1);
  ::posix_spawn_file_actions_adddup2(&actions, output, 2);
  pid_t pid = -1;
  const int code = ::posix_spawn(&pid, arguments.front().c_str(), &actions, nullptr,
                                 to_argv(arguments).data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (code == 0) return pid;
  errno = code;
  return system_error(Errc::kFailed, "spawn " + arguments.front());
}

// A port that was free a moment ago; start() tries again when someone else was faster.
Result<std::uint16_t> free_port(const std::string& address) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  const bool is_v6 = ::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1;
  ::inet_pton(AF_INET, address.c_str(), &v4.sin_addr);
  auto* const where = is_v6 ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
  socklen_t size = is_v6 ? sizeof v6 : sizeof v4;
  const UniqueFd fd(::socket(where->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || ::bind(fd.get(), where, size) != 0 || ::getsockname(fd.get(), where, &size) != 0) {
    return system_error(Errc::kResource, "bind " + address);
  }
  return ntohs(is_v6 ? v6.sin6_port : v4.sin_port);
}

// Processes whose parent is `parent` and whose program is sshd.
std::vector<pid_t> sshd_children(pid_t parent) {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  while (const dirent* entry = ::readdir(proc.get())) {
    std::ifstream stat(fmt::format("/proc/{}/stat", entry->d_name));
    pid_t pid = 0, owner = 0;
    std::string name;
    char state = 0;
    if (stat >> pid >> name >> state >> owner && owner == parent && name.starts_with("(sshd")) {
      children.push_back(pid);
    }
  }
  return children;
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& arguments, const std::string& output) {
  const UniqueFd file(::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return system_error(Errc::kFailed, "open " + output);
  PADDLE_TRY(const pid_t pid, spawn_program(arguments, file.get()));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return system_error(Errc::kFailed, "waitpid");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Status make_key(const std::string& path, const std::string& passphrase) {
  PADDLE_TRY(const int code, run_program({kKeygen, "-q", "-t", "ed25519", "-N", passphrase, "-C",
                                          "test", "-f", path}));
  if (code != 0) return Error{Errc::kFailed, fmt::format("ssh-keygen ended with {}", code), ""};
  return {};
}

std::string Sshd::missing() {
  if (::access(kSshd, X_OK) != 0) return "sshd is not installed (openssh-server)";
  if (::access(kKeygen, X_OK) != 0) return "ssh-keygen is not installed (openssh-client)";
  return "";
}

std::string Sshd::missing_for_passwords() {
  if (const std::string why = missing(); !why.empty()) return why;
  if (::geteuid() != 0) return "only root can run an sshd that takes passwords";
  const auto code = run_program({kUnshare, "--mount", "/bin/mount", "--version"});
  return code && *code == 0 ? "" : "no mount namespace can be made here";
}

Result<std::unique_ptr<Sshd>> Sshd::start(const std::string& address, SshdLogin login,
                                          const std::vector<std::string>& options) {
  std::unique_ptr<Sshd> sshd(new Sshd(address, login));
  sshd->options_ = options;
  if (sshd->folder().empty()) return Error{Errc::kResource, "no temporary folder", ""};
  PADDLE_TRY_STATUS(make_key(sshd->folder() + "/host_key"));
  PADDLE_TRY_STATUS(make_key(sshd->identity()));
  PADDLE_TRY(const std::string user_key, read_file(sshd->identity() + ".pub"));
  PADDLE_TRY_STATUS(replace_file(sshd->folder() + "/authorized_keys", as_bytes(user_key)));
  if (login != SshdLogin::kKey) PADDLE_TRY_STATUS(sshd->write_accounts());
  if (::geteuid() == 0 && ::mkdir("/run/sshd", 0755) != 0 && errno != EEXIST) {
    return system_error(Errc::kResource, "mkdir /run/sshd");
  }
  constexpr int kAttempts = 5;
  Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    PADDLE_TRY(sshd->port_, free_port(address));
    PADDLE_TRY_STATUS(sshd->spawn());
    if (status = sshd->wait_listening(); status) break;
    ::waitpid(sshd->pid_, nullptr, 0);
    sshd->pid_ = -1;
  }
  if (!status) return std::move(status).error().with(sshd->log_);
  PADDLE_TRY_STATUS(sshd->write_known_hosts());
  sshd->drain_ = std::thread([raw = sshd.get()] { raw->drain(); });
  return sshd;
}

Status Sshd::spawn() {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return system_error(Errc::kResource, "pipe");
  log_fd_ = UniqueFd(pipe[0]);
  const UniqueFd write_end(pipe[1]);
  std::vector<std::string> arguments;
  if (login_ != SshdLogin::kKey) {
    arguments = {kUnshare,
                 "--mount",
                 "/bin/sh",
                 "-c",
                 "mount --bind \"$0/shadow\" /etc/shadow && "
                 "mount --bind \"$0/pam\" /etc/pam.d/sshd && exec \"$@\"",
                 folder()};
  }
  arguments.insert(arguments.end(), {kSshd, "-D", "-e", "-f", "/dev/null"});
  std::vector<std::string> options = login_options();
  options.insert(options.end(), options_.begin(), options_.end());
  for (const std::string& option :
       {fmt::format("ListenAddress=[{}]:{}", address_, port_),
        fmt::format("HostKey={}/host_key", folder()), fmt::format("PidFile=none"),
        fmt::format("AuthorizedKeysFile={}/authorized_keys", folder()),
        std::string("StrictModes=no"), std::string("UseDNS=no"), std::string("PrintMotd=no"),
        // bash would read the start-up files of whoever runs the tests.
        std::string("SetEnv=SHLVL=2"), std::string("MaxStartups=100"),
        std::string("LogLevel=VERBOSE")}) {
    options.push_back(option);
  }
  for (const std::string& option : options) arguments.insert(arguments.end(), {"-o", option});
  PADDLE_TRY(pid_, spawn_program(arguments, write_end.get()));
  return {};
}

std::vector<std::string> Sshd::login_options() const {
  switch (login_) {
    case SshdLogin::kKey:
      return {"PasswordAuthentication=no", "KbdInteractiveAuthentication=no", "UsePAM=no",
              "PermitRootLogin=prohibit-password"};
    case SshdLogin::kPassword:
      return {"PasswordAuthentication=yes", "KbdInteractiveAuthentication=no", "UsePAM=no",
              "PermitRootLogin=yes"};
    case SshdLogin::kKeyboard:
      return {"PasswordAuthentication=no", "KbdInteractiveAuthentication=yes", "UsePAM=yes",
              "PermitRootLogin=yes"};
    case SshdLogin::kKeyAndPassword:
      break;
  }
  return {"PasswordAuthentication=yes", "KbdInteractiveAuthentication=no",
          "AuthenticationMethods=publickey,password", "UsePAM=no", "PermitRootLogin=yes"};
}

Status Sshd::write_accounts() const {
  // openssl passwd -6 of kPassword.
  constexpr const char* kHash =
      "$6$paddletest$gdFUy/ZSBIdWk5H54D2oXcq4JztEjS3qbFWje9wwDqLm7l"
      "ADY.q/.x3RTD9io0Uubw2A.Ns2/7PPBbU/2ZnQi0";
  const std::string shadow = fmt::format("root:{}:19000:0:99999:7:::\n", kHash);
  PADDLE_TRY_STATUS(replace_file(folder() + "/shadow", as_bytes(shadow)));
  constexpr std::string_view kPam =
      "auth required pam_unix.so\naccount required pam_permit.so\nsession required pam_permit.so\n";
  return replace_file(folder() + "/pam", as_bytes(std::string(kPam)));
}

Status Sshd::write_known_hosts() {
  PADDLE_TRY(const std::string host_key, read_file(folder() + "/host_key.pub"));
  const std::string line = fmt::format("[{}]:{} {}", address_, port_, host_key);
  return replace_file(known_hosts(), as_bytes(line));
}

Status Sshd::wait_listening() {
  const TimePoint deadline = SteadyClock().now() + kStartDeadline;
  log_.clear();
  while (log_.find("Server listening on") == log_.npos) {
    std::byte one{};
    PADDLE_TRY_STATUS(read_exact(log_fd_.get(), {&one, 1}, deadline));
    log_.push_back(static_cast<char>(one));
  }
  return {};
}

void Sshd::drain() {
  char chunk[4096];
  for (;;) {
    const ssize_t got = ::read(log_fd_.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    const std::lock_guard lock(mutex_);
    log_.append(chunk, static_cast<std::size_t>(got));
    log_grew_.notify_all();
  }
}

std::string Sshd::log_with(std::string_view text) {
  std::unique_lock lock(mutex_);
  log_grew_.wait_for(lock, kStartDeadline, [&] { return log_.find(text) != log_.npos; });
  return log_;
}

void Sshd::signal_sessions(int signal) {
  std::vector<pid_t> level = sshd_children(pid_);
  while (!level.empty()) {
    std::vector<pid_t> next;
    for (const pid_t pid : level) {
      for (const pid_t child : sshd_children(pid)) next.push_back(child);
    }
    for (const pid_t pid : level) ::kill(pid, signal);
    level = std::move(next);
  }
}

void Sshd::freeze() {
  ::kill(pid_, SIGSTOP);
  signal_sessions(SIGSTOP);
}

void Sshd::thaw() {
  signal_sessions(SIGCONT);
  ::kill(pid_, SIGCONT);
}

Sshd::~Sshd() {
  if (pid_ > 0) {
    signal_sessions(SIGCONT);
    signal_sessions(SIGKILL);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (drain_.joinable()) drain_.join();
}

}  // namespace paddle::test

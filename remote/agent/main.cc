// paddlectl-agent serve <root> <sha256>: serves frames on stdin and stdout until they close, if the
// hash is the program's own.
//
// paddlectl-agent supervise <root> <label>: see supervisor.h.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/limits.h"
#include "base/log.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"
#include "proto/agent_channel.h"
#include "remote/agent/node/proc.h"
#include "remote/agent/process/supervisor.h"
#include "remote/agent/session.h"

namespace paddle::agent {
namespace {

constexpr int kChannelFdMin = 10;
constexpr int kPipeBytes = 1 << 20;  // the default limit for unprivileged users
constexpr int kSpecFd = 3;
constexpr int kStatusFd = 4;

constexpr const char* kProgram = "/proc/self/exe";
constexpr std::size_t kNoteBytesMax = 200;

// Differs in another boot, and for another or a changed program. Empty if there is no boot id.
std::string own_state() {
  struct stat program {};
  const std::string boot = boot_id();
  if (boot.empty() || ::stat(kProgram, &program) != 0) return "";
  const FileStamp stamp = stamp_of(program);
  return fmt::format("{} {} {} {} {} {}", boot, stamp.device, stamp.inode, stamp.size,
                     stamp.modified_ns, stamp.changed_ns);
}

// Returns true if this program has the SHA-256 `hash` (hexadecimal), which paddlectl expects. A
// match is recorded in <program>.verified, so that the program is hashed once per boot.
bool own_program_is(const std::string& hash) {
  std::error_code error;
  const std::string note = std::filesystem::read_symlink(kProgram, error).string() + ".verified";
  const std::string state = own_state();
  const auto noted = read_file(note, kNoteBytesMax);
  if (!error && !state.empty() && noted && *noted == state) return true;
  const auto found = sha256_of_file(kProgram);
  if (!found || to_hex(*found) != hash) return false;
  // If the record cannot be written, the next start hashes again.
  if (!error && !state.empty()) (void)replace_file(note, as_bytes(state));
  return true;
}

// The variables that a process inherits from the node; its specification contains the others.
Environment node_environment() {
  constexpr std::string_view kNames[] = {
      "PATH=", "HOME=", "USER=", "LANG=", "CUDA_VISIBLE_DEVICES=", "NCCL_"};
  Environment environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    for (const std::string_view name : kNames) {
      if (std::string_view(*variable).starts_with(name)) environment.emplace_back(*variable);
    }
  }
  return environment;
}

// Moves the channel to other descriptors, so that a stray print cannot land between two frames.
bool move_channel(UniqueFd& input, UniqueFd& output) {
  input = UniqueFd(::fcntl(0, F_DUPFD_CLOEXEC, kChannelFdMin));
  output = UniqueFd(::fcntl(1, F_DUPFD_CLOEXEC, kChannelFdMin));
  // A full pipe makes sshd buffer the data, so the pipe gets its largest size. For a socket pair
  // this call fails, without harm.
  (void)::fcntl(input.get(), F_SETPIPE_SZ, kPipeBytes);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  return input && output && null && ::dup2(null.get(), 0) == 0 && ::dup2(2, 1) == 1 &&
         set_nonblocking(input.get()) && set_nonblocking(output.get());
}

int fail(const Error& error) {
  log_error("{}", error.message);
  return static_cast<int>(error.code);
}

int serve_root(const std::string& root_path, const std::string& hash) {
  UniqueFd input;
  UniqueFd output;
  if (!move_channel(input, output)) return fail(system_error(Errc::kFailed, "move the channel"));
  if (!own_program_is(hash))
    return fail(Error{Errc::kData, "the agent program is incomplete or was modified", ""});
  const auto root = open_root(root_path);
  if (!root) return fail(root.error());
  const auto deadline = [] { return TimePoint(std::chrono::steady_clock::now()) + kFrameDeadline; };
  // The empty line ends a line that the shell's start-up file may have begun.
  const std::string sentinel = std::string("\nPADDLECTL-AGENT ") + kProgramVersion + "\n";
  if (!write_all(output.get(), as_bytes(sentinel), deadline())) return 4;

  const Status served = serve(*root, input.get(), output.get(), kAgentSilenceMax);
  return served ? 0 : fail(served.error());
}

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  ::umask(077);
  turn_off_cores();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::signal(signal, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  set_log_name("agent");
  if (const Status limits = prepare_limits("paddlectl-agent"); !limits) return fail(limits.error());
  if (command == "serve" && argc == 4) {
    ::signal(SIGCHLD, SIG_IGN);  // supervisors are reaped by the kernel
    return serve_root(argv[2], argv[3]);
  }
  if (command == "supervise" && argc == 4) {
    for (const int fd : {kSpecFd, kStatusFd}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    return supervise(argv[2], kSpecFd, kStatusFd, node_environment());
  }
  if (command == "version" && argc == 3 && std::string_view(argv[2]) == "--libraries") {
    std::fputs(linked_libraries().c_str(), stdout);
    return 0;
  }
  std::fprintf(stderr, "paddlectl-agent %s: paddlectl starts this program; do not run it by hand\n",
               kProgramVersion);
  return command == "version" ? 0 : static_cast<int>(Errc::kUsage);
}

}  // namespace
}  // namespace paddle::agent

int main(int argc, char** argv) {
  return paddle::agent::main(argc, argv);
}

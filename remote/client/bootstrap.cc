#include "remote/client/bootstrap.h"

#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"
#include "remote/launcher/launcher.h"

namespace paddle::remote {
namespace {

constexpr std::size_t kAgentBytesMax = 256U << 20U;
constexpr std::size_t kPathBytesMax = 1024;
constexpr std::size_t kMachineBytesMax = 100;
// An upload has at least this time, counted from its start.
constexpr Duration kUploadDeadline = std::chrono::seconds(20);
constexpr std::size_t kHashCharacters = 16;  // in the agent's file name

constexpr const char* kAgentIs = "PADDLECTL-AGENT-IS ";

// Every command starts with an empty line, to end a line that a start-up file may have begun.
constexpr std::string_view kProbe = "echo; echo PADDLECTL-PROBE $(uname -s) $(uname -m) $HOME'";

constexpr std::string_view kBegin =
    "exec /bin/sh -c 'echo; umask 077; LC_ALL=C; export LC_ALL; p=-p; w=; r=\"R\"; f=\"F\"; ";

// Without ConnectOptions::create: reports a node without root as absent and leaves it unchanged,
// also when a teardown removes root meanwhile. Reports "hidden" when root lies below a folder that
// this user may not enter, since its existence is not known then.
constexpr std::string_view kFind =
    "p=; "
    "[ -d \"$r\" ] || { d=$r; "
    "while [ -n \"$d\" ] && ! [ -d \"$d\" ]; do d=${d%/*}; done; "
    "[ -x \"$d/\" ] || { echo PADDLECTL-AGENT-IS hidden $d; exit; }; "
    "echo PADDLECTL-AGENT-IS absent; exit; }; ";

// t: checks that only this user and root can have written root, its programs and the folders above.
// Each must belong to one of the two and must not be writable by others, except for a sticky
// folder, or by a group other than the owner's private one (its number is the user's). Otherwise $b
// names the first bad path, or reports that the check failed. Links on the path are resolved, and
// $r and $f are set to the resolved paths, so that a link that is changed later has no effect.
// q: with NodeSpec::workdir_shared, v accepts a folder above root that others may write to if a
// file system of its own is mounted there: a volume of the pod.
constexpr std::string_view kTrust =
    "v() { while read -r x x x x m x; do [ \"$m\" != \"${1%/.}\" ] || return 0; done "
    "< /proc/self/mountinfo; return 1; }; "
    "t() { b=\"$r is a link or belongs to another user\"; "
    "[ -e \"$r/bin\" ] || [ -L \"$r\" ] || b=\"$r was removed meanwhile\"; "
    "[ -O \"$r\" ] && ! [ -L \"$r\" ] && [ -O \"$r/bin\" ] && ! [ -L \"$r/bin\" ] || return 1; "
    "c=$(cd -P \"$r\" && pwd); r=$c; f=$c/bin/${f##*/}; d=$c; set -- /. \"$c/bin/.\"; "
    "while [ -n \"$d\" ]; do set -- \"$@\" \"$d/.\"; d=${d%/*}; done; "
    "! [ -e \"$f\" ] || set -- \"$@\" \"$f\"; "
    "b=$(ls -ldn \"$@\" | { k=0; while read -r m l o g x; do n=/${x#* /}; case $m in "
    "l*) w=1;; d????????[tT]*) w=;; ?????w??[-]?|?????w??[-]?.) w=1; [ $o = $g ] && w=;; "
    "?????w*|????????w*) w=1;; *) w=;; esac; "
    "[ -z \"$w\" ] || [ -z \"$q\" ] || ! v \"$n\" || w=; "
    "if [ -n \"$w\" ] || ! [ $o = 0 -o -O \"$n\" ]; then echo \"$n\"; exit; fi; k=$((k+1)); "
    "done; echo $k; }); "
    "[ \"$b\" = $# ] || { case $b in /*) b=\"${b%/.} can be written by another user\";; "
    "*) b=\"$r cannot be checked\";; esac; return 1; }; }; ";

// Creates root (0700; folders created above it get a mark, so that teardown can remove them).
// Refuses a root that contains foreign files, because teardown removes all of it. Root is ours (o)
// if it contains our mark, or anything that only we create there: a user may have removed the agent
// or the mark alone. Otherwise it may contain only an interrupted upload, and the output and logs
// that a teardown kept. Repeats mkdir, because the teardown of a killed paddlectl may still be
// removing folders. The letters R, F and N stand for checked paths and a
// number, which fill_holes() writes.
constexpr std::string_view kPrepare =
    "n=; m() { [ -d \"$r/bin\" ] || mkdir $p \"$r/bin\"; }; "
    "h=[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]; "
    "o() { for e in \"$r/.paddlectl-node\" \"$r/.paddlectl-id\" \"$r\"/bin/paddlectl-agent-* "
    "\"$r\"/bin/paddle-$h* "
    "\"$r/store/objects\" \"$r\"/jobs/*/proc \"$r\"/jobs/*/workspace.pushed; do "
    "[ ! -e \"$e\" ] || return 0; done; return 1; }; "
    "if [ -d \"$r\" ] && ! o; then k=1; "
    "for e in $(ls -A \"$r\"); do case $e in bin|jobs) ;; *) k=;; esac; done; "
    "for e in $(ls -A \"$r/bin\" 2>/dev/null); do case $e in .upload-*) ;; *) k=;; esac; done; "
    "for e in \"$r\"/jobs/*; do [ ! -e \"$e\" ] || [ -d \"$e\" ] || k=; "
    "for e in $(ls -A \"$e\" 2>/dev/null); do case $e in output|node_*) ;; *) k=;; esac; done; "
    "done; "
    "[ -n \"$k\" ] || o || "
    "{ echo PADDLECTL-REFUSED $r contains files that paddlectl did not create; exit 1; }; fi; "
    "for i in 1 2 3 4 5 6 7 8; do d=$r; "
    "[ -n \"$p\" ] || [ -d \"$r\" ] || { echo PADDLECTL-AGENT-IS absent; exit; }; "
    "while [ -n \"$d\" ] && ! [ -e \"$d\" ]; do "
    "[ -n \"$n\" ] && [ ${#n} -lt ${#d} ] || n=$d; d=${d%/*}; done; "
    "m 2>/dev/null && break; done; "
    "e=$(m 2>&1) || { echo PADDLECTL-REFUSED cannot create $r: $e; exit 1; }; "
    "m=0; d=${r%/*}; [ -z \"$n\" ] || "
    "while [ ${#d} -ge ${#n} ]; do m=$((m+1)); d=${d%/*}; done; "
    "for d in \"$r\" \"$r/bin\"; do "
    "[ -e \"$d\" ] || { echo PADDLECTL-REFUSED $d was removed meanwhile; exit 1; }; "
    "if [ -L \"$d\" ] || ! [ -O \"$d\" ]; then "
    "echo PADDLECTL-REFUSED $d is a link or belongs to another user; exit 1; fi; "
    "case $(ls -ld \"$d\") in ?????w*|????????w*) "
    "echo PADDLECTL-REFUSED $d is writable by others; exit 1;; esac; done; "
    "t || { echo PADDLECTL-REFUSED $b; exit 1; }; set -C; d=${r%/*}; "
    "true 2>/dev/null > \"$r/.paddlectl-node\"; "
    "while [ $m -gt 0 ]; do true 2>/dev/null > \"$d/.paddlectl-made\"; d=${d%/*}; m=$((m-1)); "
    "done; set +C; ";

// i: reports the file at $f. One that was not written just now (w) is reported by its SHA-256,
// where the node has sha256sum. The agent checks its own SHA-256 at its first start. A file that
// cannot be executed is removed, and so are root and the folders above that contain nothing but our
// marks.
constexpr std::string_view kReport =
    "i() { if ! [ -f \"$f\" ]; then echo PADDLECTL-AGENT-IS none; return; fi; chmod 700 \"$f\"; "
    "if ! [ -x \"$f\" ]; then rm -f \"$f\"; rmdir \"$r/bin\" 2>/dev/null; "
    "e() { [ \"$(ls -A \"$1\" 2>/dev/null)\" = $2 ] && rm -f \"$1/$2\" && rmdir \"$1\"; }; "
    "if e \"$r\" .paddlectl-node; then d=${r%/*}; "
    "while e \"$d\" .paddlectl-made; do d=${d%/*}; done; fi; "
    "echo PADDLECTL-REFUSED no program can run from $r, which may be mounted noexec; exit 1; "
    "elif [ -n \"$w\" ]; then echo PADDLECTL-AGENT-IS written; "
    "elif command -v sha256sum >/dev/null; then echo PADDLECTL-AGENT-IS $(sha256sum < \"$f\"); "
    "else echo PADDLECTL-AGENT-IS unhashed; fi; }; i; ";

// After an empty line, writes N bytes of stdin to the file F and reports it. It is executable as
// soon as it appears, since another paddlectl may use it. `head` ends after N bytes, so the channel
// needs no half-close.
constexpr std::string_view kUpload =
    "read -r x || exit 0; t || { echo PADDLECTL-REFUSED $b; exit 1; }; u=\"$r/bin/.upload-$$\"; "
    "head -c N > \"$u\" && [ \"$(wc -c 2>/dev/null < \"$u\")\" -eq N ] 2>/dev/null && chmod 700 "
    "\"$u\" && mv \"$u\" \"$f\" && w=1 || rm -f \"$u\"; i'";

constexpr std::string_view kShow =
    "exec /bin/sh -c 'echo; echo PADDLECTL-CONTENT $(wc -c < \"F\"); exec cat \"F\"'";

// Lists the folders beside root that have an agent; each is the folder of a node: "PADDLECTL-BESIDE
// n1 n2". "." is the folder above, where releases before per-node folders had their agent.
constexpr std::string_view kBeside =
    "exec /bin/sh -c 'echo; r=\"R\"; d=${r%/*}; o=; "
    "for e in \"$d\"/bin/paddlectl-agent-* \"$d\"/*/bin/paddlectl-agent-*; do "
    "[ -f \"$e\" ] || continue; e=${e%/bin/*}; "
    "if [ \"$e\" = \"$d\" ]; then o=\"$o .\"; elif [ \"$e\" != \"$r\" ]; then "
    "o=\"$o ${e##*/}\"; fi; done; echo PADDLECTL-BESIDE$o'";

// Prints the machine's part of a NodeIdentity, as the agent has it: the boot id, and the start of
// process 1 in ticks (field 22 of its stat, which is the 20th after the name).
constexpr const char* kMachine =
    "exec /bin/sh -c 'echo; b=; s=; read -r b < /proc/sys/kernel/random/boot_id; "
    "read -r s < /proc/1/stat; set -- ${s##*) }; "
    "[ -n \"$b\" ] && [ $# -ge 20 ] && shift 19 && b=$b:$1 || b=; "
    "echo PADDLECTL-MACHINE $b' 2>/dev/null";

constexpr std::string_view kRefuse = "echo; echo PADDLECTL-REFUSED $b; exit 1'";

std::string trust(const NodeSpec& node) {
  return fmt::format("q={}; {}", node.workdir_shared ? "1" : "", kTrust);
}

// The only command of most connections. Runs the agent only after checking that only this user or
// root can have put it there; the agent checks its own hash. `otherwise` runs in its place if not.
std::string serve(const NodeSpec& node, const std::string& file, const std::string& root,
                  const std::string& hash, std::string_view otherwise) {
  return fmt::format("exec /bin/sh -c 'r=\"{}\"; f=\"{}\"; ", root, file) + trust(node) +
         fmt::format("t && [ -f \"$f\" ] && exec \"$f\" serve \"$r\" {}; {}", hash, otherwise);
}

std::string agent_file(const std::string& root, const std::string& hash) {
  return root + "/bin/paddlectl-agent-" + hash.substr(0, kHashCharacters);
}

// Replaces the placeholders: the letters R, F and N where they stand alone.
std::string fill_holes(std::string_view command, std::string_view root, std::string_view file,
                       std::size_t size = 0) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '$';
  };
  std::string out;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    const bool alone = (i == 0 || !is_word(command[i - 1])) &&
                       (i + 1 == command.size() || !is_word(command[i + 1]));
    if (alone && c == 'R') {
      out += root;
    } else if (alone && c == 'F') {
      out += file;
    } else if (alone && c == 'N') {
      out += std::to_string(size);
    } else {
      out += c;
    }
  }
  return out;
}

// Returns the error of a shell command that failed. If its standard error shows that the node lacks
// a resource, the code becomes kResource: then neither the network nor the folder is to blame.
Error refused_by_shell(Error error, const Channel& channel) {
  error = with_stderr(std::move(error), channel);
  const bool is_vague =
      error.code == Errc::kUnreachable || error.code == Errc::kAuth || error.code == Errc::kFailed;
  const std::string_view hint = hint_for_lack(error.message);
  if (!is_vague || hint.empty()) return error;
  error.code = Errc::kResource;
  error.hint = hint;
  return error;
}

Result<std::string> answer_on(const Channel& channel, const std::string& prefix,
                              TimePoint deadline) {
  auto line = skip_to_line(channel.fd.get(), prefix, deadline);
  if (!line) return refused_by_shell(std::move(line).error(), channel);
  return line;
}

Result<std::string> answer_of(Launcher& launcher, const std::string& command,
                              const std::string& prefix, TimePoint deadline) {
  PADDLE_TRY(const Channel channel, launcher.run(command, deadline));
  return answer_on(channel, prefix, deadline);
}

struct Agent {
  std::string content;
  std::string hash;
};

// Reads and hashes the agent once for all nodes.
Result<std::shared_ptr<const Agent>> read_agent(const std::string& path) {
  struct Read {
    std::string path;
    FileStamp stamp;
    std::shared_ptr<const Agent> agent;
  };
  static std::mutex mutex;
  static Read last;
  const std::lock_guard lock(mutex);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return system_error(Errc::kResource, "read " + path);
  const FileStamp stamp = stamp_of(info);
  if (last.agent && last.path == path && last.stamp == stamp) return last.agent;
  PADDLE_TRY(std::string content, read_file(path, kAgentBytesMax));
  Sha256 sha;
  sha.update(as_bytes(content));
  auto agent = std::make_shared<const Agent>(Agent{std::move(content), to_hex(sha.finish())});
  last = {path, stamp, agent};
  return agent;
}

// `answer` is "written", "<sha256>  -", "none" or "unhashed".
bool is_hash(const std::string& answer, const Agent& agent) {
  return answer.substr(0, answer.find(' ')) == agent.hash;
}

// For a node that cannot hash: fetches the file and compares it.
Result<bool> has_content(Launcher& launcher, const Agent& agent, const std::string& file,
                         TimePoint deadline) {
  PADDLE_TRY(const Channel channel, launcher.run(fill_holes(kShow, {}, file), deadline));
  PADDLE_TRY(const std::string size,
             skip_to_line(channel.fd.get(), "PADDLECTL-CONTENT ", deadline));
  if (size != std::to_string(agent.content.size())) return false;
  std::string content(agent.content.size(), '\0');
  PADDLE_TRY_STATUS(
      read_exact(channel.fd.get(), std::as_writable_bytes(std::span(content)), deadline));
  return content == agent.content;
}

struct Probe {
  std::string architecture;
  std::string home;
};

// The command line of ssh that runs `true` on the node.
std::string ssh_line(const NodeSpec& node) {
  std::string line = "ssh ";
  if (!node.jump.empty()) line += fmt::format("-J {} ", node.jump);
  if (node.ssh_port != 0) line += fmt::format("-p {} ", node.ssh_port);
  return fmt::format("{}{}{} true", line, node.user.empty() ? "" : node.user + "@", node.host);
}

// The error of a node that does not answer the first command. /bin/false and nologin as a login
// shell end with a connection that is whole.
Error without_answer(Error error, const NodeSpec& node) {
  constexpr std::string_view kClosed = "closed by peer";
  const bool is_end = error.code == Errc::kUnreachable && error.message.starts_with(kClosed) &&
                      error.message.find("(connection lost: ") == std::string::npos;
  if (!is_end || node.host.empty()) return error;
  error.message.replace(0, kClosed.size(), "the login shell ended without running a command");
  error.hint = fmt::format(
      "run it by hand: {}; the user's login shell must run commands, and ForceCommand of sshd must "
      "not replace them",
      ssh_line(node));
  return error;
}

// The error of a node whose shell runs no command before the deadline, although the login and the
// start of the command succeeded.
Error without_reply(const Error& error, const NodeSpec& node) {
  return {
      Errc::kUnreachable, "logged in, but the login shell does not answer: " + error.message,
      fmt::format("check the start-up files of the shell there, such as ~/.bashrc: one may wait "
                  "for input or start another shell; run it by hand: {}",
                  ssh_line(node))};
}

// `line` is what kProbe prints.
Result<Probe> read_probe(std::string line, const NodeSpec& node) {
  line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
  const auto first = std::min(line.find(' '), line.size());
  // Without uname, the answer is at most the home folder.
  if (line.empty() || line.starts_with('/')) {
    return Error{Errc::kFailed, "the login shell does not find the program uname",
                 fmt::format("check PATH in the start-up files of the shell there, such as "
                             "~/.bashrc; run it by hand: {}",
                             ssh_line(node))};
  }
  const std::string system = line.substr(0, first);
  if (system != "Linux") {
    return Error{Errc::kVersion,
                 "the node runs " + escape_control(system) + ", but paddlectl needs Linux", ""};
  }
  // A service account's shell may have no HOME, which only a workdir below ~/ needs.
  const auto begin = std::min(first + 1, line.size());
  const auto second = std::min(line.find(' ', begin), line.size());
  return Probe{line.substr(begin, second - begin),
               second == line.size() ? "" : line.substr(second + 1)};
}

Result<Probe> probe(Launcher& launcher, const NodeSpec& node, TimePoint deadline) {
  auto answer =
      answer_of(launcher, fmt::format("exec /bin/sh -c '{}", kProbe), "PADDLECTL-PROBE", deadline);
  if (!answer) return without_answer(std::move(answer).error(), node);
  return read_probe(*std::move(answer), node);
}

Status check_architecture(const std::string& theirs) {
  utsname here{};
  ::uname(&here);
  if (theirs == here.machine) return {};
  return Error{Errc::kVersion,
               fmt::format("the node is {}, but this paddlectl has an agent for {}",
                           escape_control(theirs), here.machine),
               "build paddlectl for that architecture"};
}

// True as well if the node cannot say.
bool is_hashed_there(Launcher& launcher, const std::string& prepare, const Agent& agent,
                     TimePoint deadline) {
  const auto answer = answer_of(launcher, prepare, kAgentIs, deadline);
  return !answer || *answer == "unhashed" || is_hash(*answer, agent);
}

Error incomplete(const std::string& file, const Channel& channel) {
  Error error = with_stderr(Error{Errc::kResource, "the agent is incomplete at " + file,
                                  "check whether the disk is full; make room there, or set another "
                                  "`workdir` in the cluster file"},
                            channel);
  const std::string_view lack = hint_for_lack(error.message);
  if (lack.find("ulimit") != lack.npos) error.hint = fmt::format("{}, on the node", lack);
  return error;
}

// `channel` is that of the command which ends with kUpload.
Status upload(const Channel& channel, const Agent& agent, const std::string& file,
              TimePoint deadline) {
  PADDLE_TRY_STATUS(set_nonblocking(channel.fd.get()));
  Status written = write_all(channel.fd.get(), as_bytes(std::string_view("\n")), deadline);
  if (written) written = write_all(channel.fd.get(), as_bytes(agent.content), deadline);
  // If the shell answers although writing failed, the answer says why only a part was written.
  auto answer = skip_to_line(channel.fd.get(), kAgentIs, deadline);
  if (!answer) {
    Error error = written ? std::move(answer).error() : std::move(written).error();
    return refused_by_shell(std::move(error), channel).with("push the agent");
  }
  if (*answer == "written" || is_hash(*answer, agent)) return {};
  return incomplete(file, channel);
}

// Returns the path as the node's shell needs it inside double quotes.
std::string in_shell(const std::string& path) {
  std::string root = path.starts_with("~/") ? "$HOME" + path.substr(1) : path;
  while (root.ends_with('/')) root.pop_back();
  return root;
}

// The agent, or what the node is without one.
struct Found {
  Channel agent;
  std::optional<Probe> probe;
};

// Starts the agent if it is there already, and asks what the machine is if it is not. Returns
// neither on a failure, which bootstrap() then reports, except for a login shell that does not
// answer.
Result<Found> find_agent(Launcher& launcher, const NodeSpec& node, const Agent& agent,
                         TimePoint deadline) {
  const std::string root = in_shell(node.root);
  PADDLE_TRY(
      Channel channel,
      launcher.run(serve(node, agent_file(root, agent.hash), root, agent.hash, kProbe), deadline));
  PADDLE_TRY_STATUS(set_nonblocking(channel.fd.get()));
  const auto answer = skip_to_line(channel.fd.get(), "PADDLECTL-", deadline);
  if (answer && *answer == fmt::format("AGENT {}", kProgramVersion)) {
    return Found{std::move(channel), {}};
  }
  if (!answer && !node.host.empty() && TimePoint(std::chrono::steady_clock::now()) >= deadline)
    return without_reply(answer.error(), node);
  constexpr std::string_view kProbed = "PROBE";
  if (!answer || !answer->starts_with(kProbed)) return Found{};
  PADDLE_TRY(Probe probe, read_probe(answer->substr(kProbed.size()), node));
  return Found{{}, std::move(probe)};
}

}  // namespace

Status check_shell_path(const std::string& path) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '/' || c == '~' || c == '-';
  };
  const bool good = !path.empty() && path.size() <= kPathBytesMax && path[0] != '-' &&
                    path.find("..") == std::string::npos &&
                    std::all_of(path.begin(), path.end(), allowed);
  if (good) return {};
  return Error{Errc::kUsage, "unsafe folder '" + escape_control(path.substr(0, 200)) + "'",
               "use letters, digits, '.', '_', '-' and '/' only"};
}

Result<std::vector<std::string>> list_folders_beside(Launcher& launcher, const NodeSpec& node,
                                                     TimePoint deadline) {
  PADDLE_TRY_STATUS(check_shell_path(node.root));
  PADDLE_TRY(const std::string line,
             answer_of(launcher, fill_holes(kBeside, in_shell(node.root), {}), "PADDLECTL-BESIDE",
                       deadline));
  std::set<std::string> names;  // a node may have several agents
  std::istringstream words(line);
  for (std::string word; words >> word;) names.insert(escape_control(word));
  return std::vector<std::string>(names.begin(), names.end());
}

Result<std::string> ask_machine(Launcher& launcher, const NodeSpec&, TimePoint deadline) {
  PADDLE_TRY(const std::string line, answer_of(launcher, kMachine, "PADDLECTL-MACHINE", deadline));
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  return escape_control(std::string_view(line).substr(begin, kMachineBytesMax));
}

Result<Channel> bootstrap(Launcher& launcher, const NodeSpec& node, const ConnectOptions& options,
                          TimePoint deadline) {
  PADDLE_TRY_STATUS(check_shell_path(node.root));
  PADDLE_TRY(const std::shared_ptr<const Agent> shared, read_agent(options.agent_binary));
  const Agent& agent = *shared;
  PADDLE_TRY(Found ready, find_agent(launcher, node, agent, deadline));
  if (ready.agent.fd) return std::move(ready.agent);
  if (!ready.probe) {
    PADDLE_TRY(ready.probe, probe(launcher, node, deadline));
  }
  const Probe& found = *ready.probe;
  PADDLE_TRY_STATUS(check_architecture(found.architecture));
  std::string root = node.root;
  if (root.starts_with("~/") && found.home.empty()) {
    return Error{Errc::kUsage, "workdir '" + root + "': HOME is not set in the shell of the node",
                 "set an absolute workdir in the cluster file"};
  }
  if (root.starts_with("~/")) root = found.home + root.substr(1);
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  PADDLE_TRY_STATUS(check_shell_path(root));
  if (root[0] != '/' || root.size() < 2 || root.find("//") != std::string::npos ||
      root.find('~') != std::string::npos) {
    return Error{Errc::kUsage, "workdir '" + root + "' must be absolute or start with ~/", ""};
  }
  const std::string file = agent_file(root, agent.hash);
  const std::string prepare = fmt::format(
      "{}{}{}{}{}{}", fill_holes(kBegin, root, file), trust(node), options.create ? "" : kFind,
      kPrepare, kReport, fill_holes(kUpload, {}, {}, agent.content.size()));
  PADDLE_TRY(Channel prepared, launcher.run(prepare, deadline));
  PADDLE_TRY(std::string answer, answer_on(prepared, kAgentIs, deadline));
  if (answer == "absent") return Channel{};
  if (answer.starts_with("hidden ")) {
    return Error{Errc::kAuth, escape_control(answer.substr(7)) + " cannot be read by this user",
                 "run this as the owner of the folder, or name a cluster of your own with "
                 "--cluster"};
  }
  bool is_there = is_hash(answer, agent);
  if (answer == "unhashed") {
    prepared = Channel{};  // a server may allow one session at a time
    PADDLE_TRY(is_there, has_content(launcher, agent, file, deadline));
    if (!is_there) {
      PADDLE_TRY(prepared, launcher.run(prepare, deadline));
      PADDLE_TRY(answer, answer_on(prepared, kAgentIs, deadline));
    }
  }
  if (!is_there) {
    deadline = std::max(deadline, TimePoint(std::chrono::steady_clock::now()) + kUploadDeadline);
    PADDLE_TRY_STATUS(upload(prepared, agent, file, deadline));
  }
  prepared = Channel{};
  PADDLE_TRY(Channel channel, launcher.run(serve(node, file, root, agent.hash, kRefuse), deadline));
  PADDLE_TRY_STATUS(set_nonblocking(channel.fd.get()));
  auto version = skip_to_line(channel.fd.get(), "PADDLECTL-AGENT ", deadline);
  if (!version) {
    Error error = refused_by_shell(std::move(version).error(), channel);
    channel.fd = UniqueFd();
    if (!is_there && !is_hashed_there(launcher, prepare, agent, deadline)) {
      return incomplete(file, channel);
    }
    return std::move(error).with("start the agent");
  }
  if (*version != kProgramVersion) {
    return Error{Errc::kVersion,
                 fmt::format("paddlectl-agent is {}, paddlectl is {}", escape_control(*version),
                             kProgramVersion),
                 "put paddlectl and paddlectl-agent of one release into one folder: " +
                     options.agent_binary + " is the agent that was pushed"};
  }
  return channel;
}

}  // namespace paddle::remote

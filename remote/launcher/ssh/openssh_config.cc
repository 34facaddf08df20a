#include "remote/launcher/ssh/openssh_config.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "remote/launcher/child_program.h"
#include "remote/launcher/ssh/tokens.h"
#include "remote/launcher/trusted_file.h"

namespace paddle::remote {
namespace {

constexpr const char* kSystemConfig = "/etc/ssh/ssh_config";
// Makes ssh refuse every `Match exec`, in files that it includes too, before anything is started.
constexpr const char* kNoShell = "SHELL=/dev/null";
constexpr std::string_view kNoShellRefusal = "Shell \"/dev/null\" is not executable";
constexpr const char* kForeign = "only ~/.ssh/config may start programs on this machine";
constexpr const char* kForeignHint =
    "put it into ~/.ssh/config; or pass --allow-proxy-command if you trust this file";
constexpr std::size_t kAnswerBytesMax = 1U << 20U;
constexpr Duration kDefaultsPatience = std::chrono::seconds(10);
constexpr Duration kExitPatience = std::chrono::seconds(1);  // after the end of its output

// Options with a space on either side. These are read by target.cc and config.cc.
constexpr std::string_view kHonoured =
    " addressfamily batchmode ciphers compression connecttimeout globalknownhostsfile host "
    "hostkeyalgorithms hostkeyalias hostname identitiesonly identityagent identityfile "
    "kbdinteractiveauthentication kexalgorithms macs passwordauthentication port "
    "preferredauthentications proxycommand proxyjump pubkeyacceptedalgorithms "
    "pubkeyauthentication rekeylimit requiredrsasize user userknownhostsfile ";

// With these a node is reached in the same way, or more strictly: forwarding, terminals,
// environment, messages, connection sharing, canonical names (done by `ssh -G`), kinds of login
// that paddlectl lacks (one attempt less), and the checks of host keys, which are always on.
constexpr std::string_view kWithoutEffect =
    " addkeystoagent canonicaldomains canonicalizefallbacklocal canonicalizehostname "
    "canonicalizemaxdots canonicalizepermittedcnames casignaturealgorithms channeltimeout "
    "checkhostip clearallforwardings connectionattempts controlmaster controlpath "
    "controlpersist dynamicforward enableescapecommandline enablesshkeysign escapechar "
    "exitonforwardfailure fingerprinthash forkafterauthentication forwardagent forwardx11 "
    "forwardx11timeout forwardx11trusted gatewayports hashknownhosts "
    "hostbasedacceptedalgorithms hostbasedauthentication ignoreunknown ipqos "
    "kbdinteractivedevices localcommand localforward loglevel logverbose "
    "nohostauthenticationforlocalhost numberofpasswordprompts obscurekeystroketiming "
    "permitlocalcommand permitremoteopen remotecommand remoteforward requesttty sendenv "
    "serveralivecountmax serveraliveinterval sessiontype setenv stdinnull "
    "streamlocalbindmask streamlocalbindunlink stricthostkeychecking syslogfacility tag "
    "tcpkeepalive tunnel tunneldevice updatehostkeys verifyhostkeydns versionaddendum "
    "visualhostkey warnweakcrypto xauthlocation ";

bool is_among(std::string_view option, std::string_view options) {
  return options.find(fmt::format(" {} ", option)) != options.npos;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return lower;
}

bool exists(const std::string& file) {
  return ::access(file.c_str(), F_OK) == 0;
}

// Everything until its end.
Result<std::string> read_output(int fd, TimePoint deadline) {
  std::string text;
  char buffer[4096];
  while (text.size() < kAnswerBytesMax) {
    PADDLE_TRY_STATUS(wait_ready(fd, POLLIN, deadline));
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got == 0 || (got < 0 && errno != EINTR)) break;
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

// The lines of ssh's stderr as one.
std::string complaints(const std::string& messages) {
  std::istringstream lines(messages);
  std::vector<std::string> kept;
  for (std::string line; std::getline(lines, line);) {
    while (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) kept.push_back(escape_control(line));
  }
  return fmt::format("{}", fmt::join(kept, "; "));
}

struct SshOutput {
  std::string answer;
  std::string messages;  // the last 4 KiB
};

Result<SshOutput> run_ssh(const std::vector<std::string>& arguments, TimePoint deadline,
                          bool starts_programs = true) {
  UniqueFd channel;
  std::vector<std::string> command = arguments;
  if (!starts_programs)
    command.insert(command.begin(), std::initializer_list<std::string>{"env", kNoShell});
  auto program = ChildProgram::start(command, channel);
  if (!program) {
    return Error{Errc::kUsage,
                 fmt::format("OpenSSH's `ssh -G` reads it, and it does not start here ({})",
                             program.error().message),
                 "install OpenSSH's client (openssh-client or openssh-clients)"};
  }
  // Declared after the program, so that it is closed before the program is waited for.
  const UniqueFd output = std::move(channel);
  const std::string by_hand = fmt::format("try {}", fmt::join(arguments, " "));
  auto answer = read_output(output.get(), deadline);
  if (!answer) {
    return Error{Errc::kUnreachable, "`ssh -G` does not end before the deadline",
                 by_hand + "; check whether a `Match exec` hangs"};
  }
  const auto status = (*program)->wait_status(kExitPatience);
  std::string messages = (*program)->stderr_tail();
  if (status && *status == 0) return SshOutput{*std::move(answer), std::move(messages)};
  return Error{Errc::kUsage, "ssh refuses it: " + complaints(messages), by_hand};
}

std::map<std::string, std::vector<std::string>, std::less<>> parse_answer(const std::string& text) {
  std::map<std::string, std::vector<std::string>, std::less<>> answer;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = std::min(line.find(' '), line.size());
    answer[line.substr(0, space)].push_back(line.substr(std::min(space + 1, line.size())));
  }
  return answer;
}

// "option" and what follows it of a line of a config, "Option value" or "Option = value".
std::pair<std::string, std::string> split_line(const std::string& line) {
  constexpr std::string_view kBetween = " \t\r=";
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == line.npos) return {};
  const std::size_t end = std::min(line.find_first_of(kBetween, begin), line.size());
  const std::size_t rest = std::min(line.find_first_not_of(kBetween, end), line.size());
  const std::size_t last = line.find_last_not_of(" \t\r\"");
  return {line.substr(begin, end - begin),
          line.substr(rest, last == line.npos || last < rest ? 0 : last + 1 - rest)};
}

}  // namespace

std::string ssh_directory(const NodeSpec& node) {
  return node.ssh_directory.empty() ? home_directory() + "/.ssh" : expand_home(node.ssh_directory);
}

Result<OpensshConfig> OpensshConfig::ask(const NodeSpec& node, TimePoint deadline) {
  OpensshConfig config;
  const std::string directory = ssh_directory(node);
  const bool usual = directory == home_directory() + "/.ssh";
  config.file_ = directory + "/config";
  // Of ~/.ssh/config, ssh itself checks the owner.
  for (const char* const name : {"", "/config", "/known_hosts"}) {
    if (!usual) PADDLE_TRY_STATUS(check_trusted(directory + name));
  }
  if (!exists(config.file_)) {
    // Another folder stands for `ssh -F <folder>/config`, which leaves out the system's file.
    if (!usual || !exists(kSystemConfig)) return config;
    config.file_ = kSystemConfig;
  }
  config.arguments_ = {"ssh", "-T", "-G"};
  const auto add = [&](std::initializer_list<std::string> more) {
    config.arguments_.insert(config.arguments_.end(), more);
  };
  if (!usual) add({"-F", config.file_});
  if (!node.user.empty()) add({"-l", node.user});
  if (node.ssh_port != 0) add({"-p", fmt::format("{}", node.ssh_port)});
  add({"--", node.host});
  config.starts_programs_ = usual || node.allow_proxy_command;
  PADDLE_TRY(config.answer_, config.read(deadline));
  if (!defaults()) return defaults().error();
  PADDLE_TRY_STATUS(config.refuse_unsupported());
  return config;
}

Result<OpensshConfig::Answer> OpensshConfig::read(TimePoint deadline) const {
  const auto output = run_ssh(arguments_, deadline, starts_programs_);
  if (output) return parse_answer(output->answer);
  if (output.error().message.find(kNoShellRefusal) == std::string::npos)
    return Error(output.error()).with(file_);
  Error error = refusal("match", "exec", kForeign);
  error.hint = kForeignHint;
  return error;
}

// Asked once: what differs from them was configured.
const Result<OpensshConfig::Answer>& OpensshConfig::defaults() {
  static const Result<Answer> kDefaults = []() -> Result<Answer> {
    PADDLE_TRY(const SshOutput output, run_ssh({"ssh", "-T", "-G", "-F", "none", "localhost"},
                                               SteadyClock().now() + kDefaultsPatience));
    return parse_answer(output.answer);
  }();
  return kDefaults;
}

bool OpensshConfig::is_set(std::string_view option) const {
  const auto found = answer_.find(option);
  if (found == answer_.end()) return false;
  const auto usual = defaults()->find(option);
  return usual == defaults()->end() || usual->second != found->second;
}

std::string OpensshConfig::value(std::string_view option) const {
  const auto found = answer_.find(option);
  return found == answer_.end() ? "" : found->second.front();
}

std::vector<std::string> OpensshConfig::values(std::string_view option) const {
  const auto found = answer_.find(option);
  return found == answer_.end() ? std::vector<std::string>() : found->second;
}

Status OpensshConfig::refuse_unsupported() const {
  for (const auto& [option, values] : answer_) {
    const bool harmless = is_among(option, kHonoured) || is_among(option, kWithoutEffect) ||
                          option.starts_with("gssapi");
    if (!harmless && is_set(option) && values.front() != "none")
      return refusal(option, values.front(), "not supported");
  }
  if (!starts_programs_ && is_set("proxycommand")) {
    Error error = refusal("proxycommand", value("proxycommand"), kForeign);
    error.hint = kForeignHint;
    return error;
  }
  return {};
}

// The file and line that sets the option. `ssh -G` does not tell, but `ssh -v` names the files that
// it reads: the first line with the option and its value there, or else with the option.
std::string OpensshConfig::location(const std::string& option, const std::string& value) const {
  constexpr std::string_view kReading = "debug1: Reading configuration data ";
  std::vector<std::string> arguments = arguments_;
  arguments.insert(arguments.begin() + 1, "-v");
  const auto output = run_ssh(arguments, SteadyClock().now() + kDefaultsPatience, starts_programs_);
  // It ends at a `Match exec` that it may not run, so only the first file is known.
  std::istringstream said(output ? output->messages : std::string(kReading) + file_);
  std::string place;
  for (std::string message; std::getline(said, message);) {
    while (message.ends_with('\r')) message.pop_back();
    if (!message.starts_with(kReading)) continue;
    const std::string file = message.substr(kReading.size());
    const auto text = read_file(file);
    std::istringstream lines(text ? *text : "");
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const auto [name, rest] = split_line(line);
      if (lower_case(name) != option) continue;
      std::string here = fmt::format("{}:{}", file, number);
      if (rest == value || (option == "match" && rest.find(value) != rest.npos)) return here;
      if (place.empty()) place = here;
    }
  }
  return place.empty() ? file_ : place;
}

Error OpensshConfig::refusal(const std::string& option, const std::string& value,
                             std::string_view why) const {
  return Error{
      Errc::kUsage,
      fmt::format("{}: {} {}: {}", location(option, value), option, escape_control(value), why),
      fmt::format("leave it out for this host, or reach the node by ssh itself: launcher = "
                  "[\"ssh\", \"-o\", \"BatchMode=yes\", \"{}\"]",
                  arguments_.back())};
}

}  // namespace paddle::remote

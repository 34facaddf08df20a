#include "remote/launcher/ssh_target.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <glob.h>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "remote/launcher/child_program.h"
#include "remote/launcher/ssh_tokens.h"
#include "remote/launcher/trusted_file.h"

namespace paddle::remote {
namespace {

// The answers of `ssh -G`.

constexpr const char* kSystemConfig = "/etc/ssh/ssh_config";
// Makes ssh refuse every `Match exec`, also in included files, before it starts a program.
constexpr const char* kNoShell = "SHELL=/dev/null";
constexpr std::string_view kNoShellRefusal = "Shell \"/dev/null\" is not executable";
constexpr const char* kForeign = "only ~/.ssh/config may start programs on this machine";
constexpr const char* kForeignHint =
    "put it into ~/.ssh/config; or pass --allow-proxy-command if you trust this file";
constexpr std::size_t kSshOutputBytesMax = 1U << 20U;
constexpr Duration kDefaultsPatience = std::chrono::seconds(10);
constexpr Duration kOutputPatience = std::chrono::seconds(1);  // after the end of its output

// The options that are read below and by ssh_config.cc, with a space on either side of each.
constexpr std::string_view kHonoured =
    " addressfamily batchmode ciphers compression connecttimeout globalknownhostsfile host "
    "hostkeyalgorithms hostkeyalias hostname identitiesonly identityagent identityfile "
    "kbdinteractiveauthentication kexalgorithms macs passwordauthentication port "
    "preferredauthentications proxycommand proxyjump pubkeyacceptedalgorithms "
    "pubkeyauthentication rekeylimit requiredrsasize user userknownhostsfile ";

// Options that do not change how a node is reached, or only make it stricter: forwarding,
// terminals, environment, messages, connection sharing, canonical names (done by `ssh -G`), kinds
// of login that paddlectl lacks (one attempt less), and the checks of host keys, which are always
// on.
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

bool exists(const std::string& file) {
  return ::access(file.c_str(), F_OK) == 0;
}

// Reads the output until its end.
Result<std::string> read_output(int fd, TimePoint deadline) {
  std::string text;
  char buffer[4096];
  while (text.size() < kSshOutputBytesMax) {
    PADDLE_TRY_STATUS(wait_ready(fd, POLLIN, deadline));
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got == 0 || (got < 0 && errno != EINTR)) break;
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

// Joins the lines of ssh's stderr.
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
                 fmt::format("the SSH configuration is read with OpenSSH's `ssh -G`, which cannot "
                             "be started here ({})",
                             program.error().message),
                 "install OpenSSH's client (openssh-client or openssh-clients)"};
  }
  // Declared after the program, so that it is closed before the program is waited for.
  const UniqueFd output = std::move(channel);
  const std::string by_hand = fmt::format("try {}", fmt::join(arguments, " "));
  auto answer = read_output(output.get(), deadline);
  if (!answer) {
    return Error{Errc::kUnreachable, "`ssh -G` did not end before the deadline",
                 by_hand + "; check whether a `Match exec` hangs"};
  }
  const auto status = (*program)->wait_status(kOutputPatience);
  std::string messages = (*program)->stderr_tail();
  if (status && *status == 0) return SshOutput{*std::move(answer), std::move(messages)};
  return Error{Errc::kUsage, "ssh refuses the configuration: " + complaints(messages), by_hand};
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

// Splits a line of a config, "Option value" or "Option = value", into the option and its value.
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

// Reads the files of a configuration, to find which hosts ssh gives the same answer but for the
// name: those for which the same Host lines hold. Says nothing where it is not sure.
class HostScan {
 public:
  // `include_folder`: where relative names of included files begin.
  HostScan(std::string host, std::string include_folder)
      : host_(std::move(host)), include_folder_(std::move(include_folder)) {}

  // Whether the answer depends on no more of the host than on the Host lines that hold. No file
  // gives all hosts the same.
  bool is_clear(const std::string& file) {
    holds_ = true;
    return is_clear(file, 0);
  }
  // The files that were read, one a line, in ssh's order.
  const std::string& files() const { return files_; }
  // Differs after a change of one of them, and for a host for which other Host lines hold.
  const std::string& version() const { return version_; }

 private:
  bool is_clear(const std::string& file, int depth) {
    constexpr int kDepthMax = 16;  // as ssh
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) return errno == ENOENT;
    files_ += file + "\n";
    version_ += fmt::format("{}:{}:{}:{}:{}.{:09};", file, info.st_dev, info.st_ino, info.st_size,
                            info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    if (depth > kDepthMax || !S_ISREG(info.st_mode)) return false;
    const auto text = read_file(file);
    if (!text) return false;
    // Nothing holds in a file that a block without this host includes.
    const bool can_hold = holds_;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      if (!is_clear_line(line, depth, can_hold)) return false;
    }
    return true;
  }

  bool is_clear_line(const std::string& line, int depth, bool can_hold) {
    const auto [name, value] = split_line(line);
    const std::string option = lower_case(name);
    if (option.starts_with('#') || line.find_first_not_of(" \t\r\f") == line.npos) return true;
    // ssh skips some characters before an option.
    if (option.empty() || option == "match" || option.find('"') != option.npos) return false;
    // ssh takes a second '=' for a part of a pattern, and refuses empty patterns.
    if (option == "host") {
      return std::ranges::count(line, '=') < 2 && line.find('"') == line.npos &&
             take_host_line(value, can_hold);
    }
    if (option == "include") return is_clear_included(value, depth);
    // ssh itself replaces tokens in a HostName, and refuses a ProxyJump through the host itself.
    // Other values with tokens differ by its version.
    return !holds_ ||
           (option != "hostname" && option != "proxyjump" && !option.starts_with("canonical") &&
            (value.find('%') == value.npos || is_among(option, kWithoutEffect)));
  }

  // False for patterns with comments, quotes or characters that are not understood here.
  bool take_host_line(const std::string& patterns, bool can_hold) {
    constexpr std::string_view kPlain = "-._:*?! \t";
    const bool is_plain = std::ranges::all_of(patterns, [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             kPlain.find(c) != kPlain.npos;
    });
    if (!is_plain || patterns.empty()) return false;
    bool is_named = false;
    bool is_excluded = false;
    std::istringstream words(patterns);
    for (std::string word; words >> word;) {
      const bool negates = word.starts_with('!');
      if (::fnmatch(word.c_str() + (negates ? 1 : 0), host_.c_str(), 0) != 0) continue;
      (negates ? is_excluded : is_named) = true;
    }
    holds_ = can_hold && is_named && !is_excluded;
    version_ += holds_ ? "+" : "-";
    return true;
  }

  bool is_clear_included(const std::string& patterns, int depth) {
    if (patterns.find_first_of("~\"'\\$%{") != patterns.npos) return false;
    std::istringstream words(patterns);
    for (std::string pattern; words >> pattern;) {
      if (!pattern.starts_with('/')) pattern = include_folder_ + "/" + pattern;
      ::glob_t found{};
      const int code = ::glob(pattern.c_str(), 0, nullptr, &found);
      bool good = code == 0 || code == GLOB_NOMATCH;
      for (std::size_t i = 0; good && i < found.gl_pathc; ++i) {
        const bool held = holds_;
        good = is_clear(found.gl_pathv[i], depth + 1);
        holds_ = held;
      }
      ::globfree(&found);
      if (!good) return false;
    }
    return true;
  }

  std::string host_;
  std::string include_folder_;
  bool holds_ = true;  // the block of the current line
  std::string files_;
  std::string version_;
};

// A name or address that ssh prints as it is: no capitals, and no short form of an address.
bool is_plain_host(const std::string& host) {
  const bool is_plain = std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
  });
  in_addr address{};
  if (!is_plain || ::inet_aton(host.c_str(), &address) == 0) return is_plain;
  std::array<char, INET_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET, &address, text.data(), text.size()) != nullptr && host == text.data();
}

// The configuration files that `ssh -v` says it reads.
std::vector<std::string> files_read(const std::string& messages) {
  constexpr std::string_view kReading = "debug1: Reading configuration data ";
  std::vector<std::string> files;
  std::istringstream lines(messages);
  for (std::string line; std::getline(lines, line);) {
    while (line.ends_with('\r')) line.pop_back();
    if (line.starts_with(kReading)) files.push_back(line.substr(kReading.size()));
  }
  return files;
}

// The folder that contains config, known_hosts and the default keys.
std::string ssh_directory(const NodeSpec& node) {
  return node.ssh_directory.empty() ? home_directory() + "/.ssh" : expand_home(node.ssh_directory);
}

}  // namespace

Result<OpensshConfig> OpensshConfig::ask(const NodeSpec& node, TimePoint deadline) {
  OpensshConfig config;
  const std::string directory = ssh_directory(node);
  const bool usual = directory == home_directory() + "/.ssh";
  config.file_ = directory + "/config";
  // For ~/.ssh/config, ssh itself checks the owner.
  for (const char* const name : {"", "/config", "/known_hosts"}) {
    if (!usual) PADDLE_TRY_STATUS(check_trusted(directory + name));
  }
  if (!exists(config.file_)) {
    // Another folder corresponds to `ssh -F <folder>/config`, which ignores the system's file.
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
  PADDLE_TRY(config.answer_, config.read_or_share(node.host, usual, deadline));
  if (!defaults()) return defaults().error();
  PADDLE_TRY_STATUS(config.refuse_unsupported());
  return config;
}

// One `ssh -G` takes as much CPU as a fifth of a handshake, and most configurations give all nodes
// of a cluster the same options, by one Host line. The first node asks for all; the others wait for
// its answer.
Result<OpensshConfig::Answer> OpensshConfig::read_or_share(const std::string& host, bool usual,
                                                           TimePoint deadline) const {
  HostScan user_files(host, home_directory() + "/.ssh");
  HostScan system_files(host, "/etc/ssh");
  if (!is_plain_host(host) ||
      !user_files.is_clear(usual ? home_directory() + "/.ssh/config" : file_) ||
      (usual && !system_files.is_clear(kSystemConfig))) {
    return read(deadline);
  }
  const std::vector<std::string> but_host(arguments_.begin(), arguments_.end() - 1);
  const std::string key = fmt::format("{} {}{}{}", fmt::join(but_host, " "), starts_programs_,
                                      user_files.version(), system_files.version());
  struct Shared {
    bool is_asked = false;
    std::optional<Answer> answer;  // none: each host asks itself
  };
  static std::mutex mutex;
  static std::condition_variable asked;
  static std::map<std::string, Shared> all;
  std::unique_lock lock(mutex);
  const auto [at, is_first] = all.try_emplace(key);
  Shared& shared = at->second;
  if (is_first) {
    lock.unlock();
    auto answer = read_files(user_files.files() + system_files.files(), deadline);
    lock.lock();
    shared = {true, std::move(answer)};
    asked.notify_all();
  } else {
    asked.wait_until(lock, deadline, [&] { return shared.is_asked; });
  }
  if (!shared.answer) {
    lock.unlock();
    return read(deadline);
  }
  Answer answer = *shared.answer;
  for (const char* const option : {"host", "hostname"}) {
    if (answer.contains(option)) answer[option] = {host};
  }
  return answer;
}

std::optional<OpensshConfig::Answer> OpensshConfig::read_files(const std::string& files,
                                                               TimePoint deadline) const {
  std::vector<std::string> arguments = arguments_;
  arguments.insert(arguments.begin() + 1, "-v");
  const auto output = run_ssh(arguments, deadline, starts_programs_);
  if (!output) return std::nullopt;
  std::string read;
  for (const std::string& file : files_read(output->messages)) read += file + "\n";
  if (read != files) return std::nullopt;  // ssh has another home, or another system's folder
  return parse_answer(output->answer);
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

// The defaults of ssh, read once: an option with another value was configured.
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

// Finds the file and line that set the option. `ssh -G` does not report them, but `ssh -v` names
// the files that it reads: returns the first line there with the option and its value, or else with
// the option.
std::string OpensshConfig::location(const std::string& option, const std::string& value) const {
  std::vector<std::string> arguments = arguments_;
  arguments.insert(arguments.begin() + 1, "-v");
  const auto output = run_ssh(arguments, SteadyClock().now() + kDefaultsPatience, starts_programs_);
  std::string place;
  // ssh fails at a `Match exec` that it may not run; then only the first file is known.
  for (const std::string& file : output ? files_read(output->messages) : std::vector{file_}) {
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
      fmt::format("remove it for this host, or connect with ssh itself: launcher = "
                  "[\"ssh\", \"-o\", \"BatchMode=yes\", \"{}\"]",
                  arguments_.back())};
}

// The target.

namespace {

constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kMaxUserBytes = 64;
constexpr std::string_view kJumpScheme = "ssh://";

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

Status check_name(const char* what, std::string_view name, std::string_view extra,
                  std::size_t max_bytes, std::string_view not_first) {
  const auto allowed = [&](char c) { return is_plain(c) || extra.find(c) != extra.npos; };
  if (name.empty() || name.size() > max_bytes || !std::all_of(name.begin(), name.end(), allowed) ||
      not_first.find(name.front()) != not_first.npos) {
    return Error{Errc::kUsage,
                 fmt::format("{} \"{}\" is refused", what,
                             escape_control(name.substr(0, std::min(name.size(), max_bytes)))),
                 fmt::format("use letters, digits and \"{}\" only, not starting with '-'", extra)};
  }
  return {};
}

Result<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (code != std::errc{} || end != text.data() + text.size() || port == 0) {
    return Error{Errc::kUsage, fmt::format("port \"{}\" is not in 1..65535", escape_control(text)),
                 ""};
  }
  return port;
}

// True if the bastion would be reached through itself; a ProxyJump under "Host *" causes this.
bool leads_to_itself(const SshTarget& target, const std::string& alias) {
  const auto jump = parse_jump(target.jump);
  return jump && (jump->host == alias || jump->host == target.host) &&
         (jump->user.empty() || jump->user == target.user) &&
         (jump->port == 0 || jump->port == target.port);
}

// A list of files as `ssh -G` prints it, unquoted: every path begins with '/' or '~', so a word
// that does not belongs to a name with a space in it.
std::vector<std::string> files_of(const std::string& value) {
  if (value == "none") return {"/dev/null"};
  std::vector<std::string> files;
  std::istringstream words(value);
  for (std::string word; std::getline(words, word, ' ');) {
    if (files.empty() || word.starts_with('/') || word.starts_with('~')) {
      files.push_back(word);
    } else {
      files.back() += " " + word;
    }
  }
  return files;
}

// The socket of ssh-agent that IdentityAgent names; "" for no agent.
std::string agent_socket(const OpensshConfig& config) {
  std::string value = config.value("identityagent");
  if (value == "none") return "";
  if (!value.empty() && value != "SSH_AUTH_SOCK" && !value.starts_with('$')) return value;
  const char* const socket =
      std::getenv(value.starts_with('$') ? value.c_str() + 1 : "SSH_AUTH_SOCK");
  return socket == nullptr ? "" : socket;
}

// The methods that PreferredAuthentications lists and no other option switches off.
std::vector<std::string> login_methods(const OpensshConfig& config) {
  std::string preferred = config.value("preferredauthentications");
  if (preferred.empty()) preferred = fmt::format("{}", fmt::join(kLoginMethods, ","));
  const bool asks = config.value("batchmode") != "yes";
  const std::map<std::string_view, bool> allowed = {
      {"publickey", config.value("pubkeyauthentication") != "no" &&
                        config.value("pubkeyauthentication") != "false"},
      {"keyboard-interactive", asks && config.value("kbdinteractiveauthentication") != "no"},
      {"password", asks && config.value("passwordauthentication") != "no"}};
  std::vector<std::string> methods;
  std::istringstream names(preferred);
  for (std::string name; std::getline(names, name, ',');) {
    const auto found = allowed.find(name);
    if (found != allowed.end() && found->second) methods.push_back(name);
  }
  return methods;
}

Tokens proxy_tokens(const SshTarget& target, const NodeSpec& node) {
  return {{'h', target.host},
          {'k', target.key_alias.empty() ? node.host : target.key_alias},
          {'n', node.host},
          {'p', fmt::format("{}", target.port)},
          {'r', target.user}};
}

// The tokens of an IdentityFile; %C differs between versions of ssh and is not among them.
Tokens file_tokens(const SshTarget& target, const NodeSpec& node) {
  Tokens tokens = proxy_tokens(target, node);
  std::array<char, HOST_NAME_MAX + 1> machine{};
  ::gethostname(machine.data(), machine.size() - 1);
  const std::string name = machine.data();
  tokens.insert({{'d', home_directory()},
                 {'i', fmt::format("{}", ::getuid())},
                 {'l', name},
                 {'L', name.substr(0, name.find('.'))},
                 {'u', local_user()}});
  return tokens;
}

Status read_identities(const NodeSpec& node, const std::string& directory, SshTarget& target) {
  if (!node.identity.empty()) target.identities.push_back(expand_home(node.identity));
  if (!target.config.is_set("identityfile")) {
    for (const char* name : {"/id_ed25519", "/id_ecdsa", "/id_rsa"}) {
      target.default_identities.push_back(directory + name);
    }
    return {};
  }
  for (const std::string& file : target.config.values("identityfile")) {
    if (::strcasecmp(file.c_str(), "none") == 0) continue;
    auto path = expand_tokens(expand_home(file), file_tokens(target, node));
    if (path) path = expand_variables(*path);
    if (!path) return target.config.refusal("identityfile", file, path.error().message);
    if (std::ranges::find(target.identities, *path) == target.identities.end()) {
      target.identities.push_back(*path);
    }
  }
  return {};
}

void read_known_hosts(const NodeSpec& node, const std::string& directory, SshTarget& target) {
  target.host_key = node.host_key;
  if (!node.known_hosts.empty()) {
    target.known_hosts = {expand_home(node.known_hosts)};
  } else if (target.config.is_set("userknownhostsfile")) {
    target.known_hosts = files_of(target.config.value("userknownhostsfile"));
  } else {
    target.known_hosts = {directory + "/known_hosts", directory + "/known_hosts2"};
  }
  target.system_known_hosts = files_of(target.config.is_set("globalknownhostsfile")
                                           ? target.config.value("globalknownhostsfile")
                                           : "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2");
}

bool is_null_device(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3);
}

// These files decide to which server a password is sent and which host key is trusted. Where a
// cluster file, or a config that came with it, names them, no other user may have been able to
// write them.
Status check_trust(const NodeSpec& node, const SshTarget& target) {
  const bool foreign = ssh_directory(node) != home_directory() + "/.ssh";
  const auto check = [&](const std::vector<std::string>& files, bool by_file,
                         const char* key) -> Status {
    for (const std::string& file : files) {
      if ((!by_file && !foreign) || is_null_device(file)) continue;
      const std::string what = by_file ? fmt::format("`{}` of node {}", key, node.name)
                                       : fmt::format("a file that {} names", target.config.file());
      PADDLE_TRY_STATUS(check_trusted(file).with(what));
    }
    return {};
  };
  PADDLE_TRY_STATUS(check(target.known_hosts, !node.known_hosts.empty(), "known_hosts"));
  PADDLE_TRY_STATUS(check(target.system_known_hosts, false, ""));
  const std::size_t named = node.identity.empty() || target.identities.empty() ? 0 : 1;
  PADDLE_TRY_STATUS(check({target.identities.begin(), target.identities.begin() + long(named)},
                          true, "identity"));
  return check({target.identities.begin() + long(named), target.identities.end()}, false, "");
}

// libssh opens these files by name, and would wait without end for the content of a pipe.
Status check_files(const NodeSpec& node, const SshTarget& target) {
  // The key of the cluster file that names `file`; "" if ~/.ssh/config or ssh's defaults do.
  const auto key_of = [&](const std::vector<std::string>& files, const std::string& file) {
    if (&files == &target.known_hosts) return node.known_hosts.empty() ? "" : "known_hosts";
    const bool is_identity = !node.identity.empty() && file == expand_home(node.identity);
    return &files == &target.identities && is_identity ? "identity" : "";
  };
  for (const auto* const files : {&target.known_hosts, &target.system_known_hosts,
                                  &target.identities, &target.default_identities}) {
    for (const std::string& file : *files) {
      for (const std::string& path : {file, file + ".pub"}) {  // the public key of an identity
        struct stat info {};
        if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) continue;
        if (is_null_device(path)) continue;
        const std::string key = key_of(*files, file);
        const std::string place =
            key.empty() ? target.config.file() : fmt::format("`{}` of the cluster file", key);
        return Error{
            Errc::kUsage,
            fmt::format("{}: {}", escape_control(path),
                        S_ISDIR(info.st_mode) ? "a folder, not a file" : "not a regular file"),
            "put a file in its place, or name another in " + place};
      }
    }
  }
  return {};
}

// Reads how the connection is made: directly, through jump hosts, or by a ProxyCommand.
Status read_connection_method(const NodeSpec& node, SshTarget& target) {
  const OpensshConfig& config = target.config;
  const std::string family = config.value("addressfamily");
  target.address_family = family == "inet" ? AF_INET : family == "inet6" ? AF_INET6 : AF_UNSPEC;
  const std::string seconds = config.value("connecttimeout");
  if (config.is_set("connecttimeout") && node.timeout == Duration()) {
    target.connect_timeout = std::chrono::seconds(std::strtol(seconds.c_str(), nullptr, 10));
  }
  target.jump = node.jump.empty() ? config.value("proxyjump") : node.jump;
  if (node.jump.empty() && leads_to_itself(target, node.host)) target.jump.clear();
  if (!node.jump.empty() || !config.is_set("proxycommand")) return {};
  const std::string proxy = config.value("proxycommand");
  auto command = expand_tokens(proxy, proxy_tokens(target, node));
  if (!command) return config.refusal("proxycommand", proxy, command.error().message);
  target.proxy_command = *std::move(command);
  return {};
}

}  // namespace

Status check_host_name(std::string_view host) {
  // "fe80::1%eth0": an address with a zone.
  const bool is_ipv6 = std::ranges::count(host, ':') > 1;
  return check_name("host name", host, is_ipv6 ? "._:%-" : "._:-", kMaxHostBytes,
                    is_ipv6 ? "-.%" : "-.");
}

Status check_user_name(std::string_view user) {
  // A backslash at the end would escape what follows the name in a command.
  const bool ends_well = !user.ends_with('\\');
  return check_name("user name", ends_well ? user : "\\", "._@+\\-", kMaxUserBytes, "-\\");
}

Result<JumpHost> parse_jump(std::string_view text) {
  JumpHost jump;
  if (text.starts_with(kJumpScheme)) text.remove_prefix(kJumpScheme.size());
  if (const auto at = text.rfind('@'); at != text.npos) {
    jump.user = text.substr(0, at);
    PADDLE_TRY_STATUS(check_user_name(jump.user));
    text.remove_prefix(at + 1);
  }
  std::string_view port;
  if (const auto bracket = text.find(']'); text.starts_with('[') && bracket != text.npos) {
    if (bracket + 1 < text.size() && text[bracket + 1] == ':') port = text.substr(bracket + 2);
    text = text.substr(1, bracket - 1);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    port = text.substr(text.find(':') + 1);
    text = text.substr(0, text.find(':'));
  }
  jump.host = text;
  PADDLE_TRY_STATUS(check_host_name(jump.host));
  if (!port.empty()) {
    PADDLE_TRY(jump.port, parse_port(port));
  }
  return jump;
}

std::string SshTarget::label() const {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

std::string SshTarget::known_name() const {
  std::string name = !key_alias.empty() ? key_alias
                     : port == 22       ? host
                                        : fmt::format("[{}]:{}", host, port);
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return name;
}

std::string SshTarget::known_name_without_port() const {
  if (!key_alias.empty() || port == 22) return "";
  const std::string name = known_name();
  return name.substr(1, host.size());
}

Result<SshTarget> resolve(const NodeSpec& node, TimePoint deadline) {
  PADDLE_TRY_STATUS(check_host_name(node.host));
  if (!node.user.empty()) PADDLE_TRY_STATUS(check_user_name(node.user));
  SshTarget target;
  PADDLE_TRY(target.config, OpensshConfig::ask(node, deadline));
  const OpensshConfig& config = target.config;
  const std::string directory = ssh_directory(node);
  const auto first = [](const std::string& a, const std::string& b) { return a.empty() ? b : a; };
  target.host = first(config.value("hostname"), node.host);
  PADDLE_TRY_STATUS(check_host_name(target.host));
  if (target.host != node.host) target.asked_host = node.host;
  target.user = first(node.user, first(config.value("user"), local_user()));
  PADDLE_TRY_STATUS(check_user_name(target.user));
  PADDLE_TRY(target.port, parse_port(first(config.value("port"), "22")));
  if (node.ssh_port != 0) target.port = node.ssh_port;
  target.key_alias = config.value("hostkeyalias");
  if (!target.key_alias.empty()) PADDLE_TRY_STATUS(check_host_name(target.key_alias));
  read_known_hosts(node, directory, target);
  PADDLE_TRY_STATUS(read_identities(node, directory, target));
  PADDLE_TRY_STATUS(check_files(node, target));
  PADDLE_TRY_STATUS(check_trust(node, target));
  target.identities_only = config.value("identitiesonly") == "yes";
  target.agent = agent_socket(config);
  target.methods = login_methods(config);
  PADDLE_TRY_STATUS(read_connection_method(node, target));
  return target;
}

}  // namespace paddle::remote

#include "remote/launcher/ssh/target.h"

#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "remote/launcher/ssh/tokens.h"
#include "remote/launcher/trusted_file.h"

namespace paddle::remote {
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

// True for a bastion that is its own bastion, as "Host *" in the config makes it.
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

// The socket that IdentityAgent stands for; "" for no agent.
std::string agent_socket(const OpensshConfig& config) {
  std::string value = config.value("identityagent");
  if (value == "none") return "";
  if (!value.empty() && value != "SSH_AUTH_SOCK" && !value.starts_with('$')) return value;
  const char* const socket =
      std::getenv(value.starts_with('$') ? value.c_str() + 1 : "SSH_AUTH_SOCK");
  return socket == nullptr ? "" : socket;
}

// The methods that PreferredAuthentications lists and nothing switches off.
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

// Those of an IdentityFile; %C differs between versions of ssh and is not among them.
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

// A password is sent, and a key is believed, on the word of these files: where a cluster file or a
// config that came with it names them, nobody else may have written them.
Status check_trust(const NodeSpec& node, const SshTarget& target) {
  const bool foreign = ssh_directory(node) != home_directory() + "/.ssh";
  const auto check = [&](const std::vector<std::string>& files, bool by_file,
                         const char* key) -> Status {
    for (const std::string& file : files) {
      if ((!by_file && !foreign) || is_null_device(file)) continue;
      const std::string what = by_file ? fmt::format("`{}` of node {}", key, node.name)
                                       : fmt::format("{} names it", target.config.file());
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

// libssh opens these by name, and would wait for ever for what a pipe brings.
Status check_files(const SshTarget& target) {
  for (const auto* const files : {&target.known_hosts, &target.system_known_hosts,
                                  &target.identities, &target.default_identities}) {
    for (const std::string& file : *files) {
      for (const std::string& path : {file, file + ".pub"}) {  // of an identity
        struct stat info {};
        if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) continue;
        if (is_null_device(path)) continue;
        return Error{Errc::kUsage, escape_control(path) + ": not a regular file",
                     "put a file in its place, or name another in " + target.config.file()};
      }
    }
  }
  return {};
}

// How a direct connection is made, or what stands for it.
Status read_way(const NodeSpec& node, SshTarget& target) {
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
  PADDLE_TRY_STATUS(check_files(target));
  PADDLE_TRY_STATUS(check_trust(node, target));
  target.identities_only = config.value("identitiesonly") == "yes";
  target.agent = agent_socket(config);
  target.methods = login_methods(config);
  PADDLE_TRY_STATUS(read_way(node, target));
  return target;
}

}  // namespace paddle::remote

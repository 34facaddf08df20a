#include "remote/launcher/ssh/config.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::remote {
namespace {

constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kMaxUserBytes = 64;
constexpr long kMicrosecondsPerSecond = 1000000;
// libssh's default ciphers, the cheapest for the CPU first.
constexpr const char* kCiphers =
    "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,"
    "aes128-ctr,aes192-ctr,aes256-ctr";
// Likewise: sshd's curve25519 is code of its own that takes 2 ms, its P-256 is libcrypto's.
constexpr const char* kKeyExchanges =
    "ecdh-sha2-nistp256,curve25519-sha256,curve25519-sha256@libssh.org,"
    "ecdh-sha2-nistp384,ecdh-sha2-nistp521,diffie-hellman-group18-sha512,"
    "diffie-hellman-group16-sha512,diffie-hellman-group-exchange-sha256,"
    "diffie-hellman-group14-sha256";

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

std::string home_directory() {
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || !found) {
    return "/";
  }
  return entry.pw_dir;
}

std::string expand_home(const std::string& path) {
  return path.starts_with("~/") ? home_directory() + path.substr(1) : path;
}

std::string get_option(ssh_session session, ssh_options_e option) {
  char* value = nullptr;
  if (ssh_options_get(session, option, &value) != SSH_OK || value == nullptr) return "";
  std::string text = value;
  ssh_string_free_char(value);
  return text;
}

Status set_option(ssh_session session, ssh_options_e option, const void* value) {
  if (ssh_options_set(session, option, value) == SSH_OK) return {};
  return Error{Errc::kUsage, fmt::format("libssh: {}", ssh_get_error(session)), ""};
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

// libssh expands %d and ~ itself, but only when it connects; the target must know them before.
std::string expand_path(std::string path, const std::string& directory) {
  if (const auto at = path.find("%d"); at != path.npos) path.replace(at, 2, directory);
  return expand_home(path);
}

// The jump hosts of a ProxyCommand that libssh made of ProxyJump, "ssh [-l USER] [-p PORT] [-J
// MORE] -W '[%h]:%p' HOST" where MORE are the hosts after HOST; "" for any other command.
std::string proxy_jump_of(const std::string& command) {
  std::istringstream words(command);
  std::string word, user, port, more, host;
  if (!(words >> word) || word != "ssh") return "";
  while (words >> word && word != "-W") {
    std::string* const value = word == "-l"   ? &user
                               : word == "-p" ? &port
                               : word == "-J" ? &more
                                              : nullptr;
    if (value == nullptr || !(words >> *value)) return "";
  }
  if (!(words >> word) || word != "'[%h]:%p'" || !(words >> host) || words >> word) return "";
  const bool bracketed = !port.empty() && host.find(':') != host.npos;
  return fmt::format("{}{}{}{}{}{}", user, user.empty() ? "" : "@",
                     bracketed ? fmt::format("[{}]", host) : host, port.empty() ? "" : ":" + port,
                     more.empty() ? "" : ",", more);
}

// True for a bastion that is its own bastion, as "Host *" in the config makes it.
bool leads_to_itself(const SshTarget& target, const std::string& alias) {
  const auto jump = parse_jump(target.jump);
  return jump && (jump->host == alias || jump->host == target.host) &&
         (jump->user.empty() || jump->user == target.user) &&
         (jump->port == 0 || jump->port == target.port);
}

}  // namespace

Status check_host_name(std::string_view host) {
  return check_name("host name", host, "._:-", kMaxHostBytes, "-.");
}

Status check_user_name(std::string_view user) {
  return check_name("user name", user, "._-", kMaxUserBytes, "-");
}

Result<JumpHost> parse_jump(std::string_view text) {
  JumpHost jump;
  if (const auto at = text.find('@'); at != text.npos) {
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

Result<SshTarget> apply_options(ssh_session session, const NodeSpec& node) {
  PADDLE_TRY_STATUS(check_host_name(node.host));
  if (!node.user.empty()) PADDLE_TRY_STATUS(check_user_name(node.user));

  SshTarget target;
  target.directory =
      node.ssh_directory.empty() ? home_directory() + "/.ssh" : expand_home(node.ssh_directory);
  const int off = 0;
  const int on = 1;
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_SSH_DIR, target.directory.c_str()));
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_HOST, node.host.c_str()));
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_NODELAY, &on));
  // Set before the files are read, which may name others.
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_CIPHERS_C_S, kCiphers));
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_CIPHERS_S_C, kCiphers));
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_KEY_EXCHANGE, kKeyExchanges));
  if (ssh_options_parse_config(session, nullptr) != 0) {
    return Error{Errc::kUsage,
                 fmt::format("reading {}/config: {}", target.directory, ssh_get_error(session)),
                 ""};
  }
  // Else ssh_connect would parse the files again and override the options below.
  const bool process_config = false;
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_PROCESS_CONFIG, &process_config));
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_GSSAPI_AUTH, &off));
  // The files must not relax this: libssh would then accept unknown and changed keys.
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_STRICTHOSTKEYCHECK, &on));
  if (!node.user.empty()) {
    PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_USER, node.user.c_str()));
  }
  if (node.ssh_port != 0) {
    const unsigned port = node.ssh_port;
    PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_PORT, &port));
  }
  if (!node.known_hosts.empty()) {
    const std::string path = expand_home(node.known_hosts);
    PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_KNOWNHOSTS, path.c_str()));
  }

  target.host = get_option(session, SSH_OPTIONS_HOST);
  PADDLE_TRY_STATUS(check_host_name(target.host));
  unsigned port = 0;
  ssh_options_get_port(session, &port);
  target.port = static_cast<std::uint16_t>(port);
  target.user = get_option(session, SSH_OPTIONS_USER);
  if (target.user.empty()) {
    PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_USER, nullptr));  // the local user
    target.user = get_option(session, SSH_OPTIONS_USER);
  }
  PADDLE_TRY_STATUS(check_user_name(target.user));
  target.known_hosts = get_option(session, SSH_OPTIONS_KNOWNHOSTS);
  if (target.known_hosts.empty()) target.known_hosts = "%d/known_hosts";
  target.known_hosts = expand_path(target.known_hosts, target.directory);
  target.identity = expand_home(node.identity);
  if (target.identity.empty()) {
    // libssh puts a configured IdentityFile in front of its defaults, which start with id_ed25519.
    const std::string first =
        expand_path(get_option(session, SSH_OPTIONS_IDENTITY), target.directory);
    if (first != target.directory + "/id_ed25519") target.identity = first;
  }
  const std::string proxy = get_option(session, SSH_OPTIONS_PROXYCOMMAND);
  target.jump = node.jump.empty() ? proxy_jump_of(proxy) : node.jump;
  target.proxy_command = !proxy.empty() && target.jump.empty();
  if (node.jump.empty() && leads_to_itself(target, node.host)) target.jump.clear();
  return target;
}

Status set_deadline(ssh_session session, TimePoint deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::microseconds>(deadline - SteadyClock().now());
  if (left.count() <= 0) return Error{Errc::kUnreachable, "deadline passed", ""};
  const long seconds = static_cast<long>(left.count() / kMicrosecondsPerSecond);
  const long microseconds = static_cast<long>(left.count() % kMicrosecondsPerSecond);
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_TIMEOUT, &seconds));
  return set_option(session, SSH_OPTIONS_TIMEOUT_USEC, &microseconds);
}

}  // namespace paddle::remote

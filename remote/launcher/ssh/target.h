// The target of an SSH session, from NodeSpec and ~/.ssh/config. Names are checked against an
// allow-list.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/launcher.h"

namespace paddle::remote {

// Letters, digits and "._:-", at most 255, not starting with '-' or '.': nothing that a
// shell or an option parser would interpret. An IPv6 address may have a zone: "fe80::1%eth0".
Status check_host_name(std::string_view host);
// Letters, digits and "._-+@\", at most 64, not starting with '-' or '\', nor ending with that:
// users of a directory are called "CORP\alice" or "alice@corp.example".
Status check_user_name(std::string_view user);

// "[user@]host[:port]" as in ProxyJump, the user up to the last '@'; an IPv6 address with a port is
// written "[address]:port".
struct JumpHost {
  std::string user;
  std::string host;
  std::uint16_t port = 0;
};
Result<JumpHost> parse_jump(std::string_view text);

// The options of a host in ~/.ssh/config and /etc/ssh/ssh_config, as OpenSSH's own `ssh -G` reads
// them. Host, Match, Include, lists, quotes and defaults are left to it, so they mean what they
// mean to the user's ssh, whatever its version. A config elsewhere, which may have come with a
// cluster file, starts no program (ProxyCommand, Match exec) unless NodeSpec allows it.
class OpensshConfig {
 public:
  // Nothing is set when there is no such file; then ssh need not be installed. kUsage with file and
  // line for what ssh refuses, and for an option that would change where or how ssh connects and is
  // not supported here. `node` has a host and user that were checked.
  static Result<OpensshConfig> ask(const NodeSpec& node, TimePoint deadline);

  // True when the value is not the default of the installed ssh. Options are in lower case.
  bool is_set(std::string_view option) const;
  const std::string& file() const { return file_; }  // the user's, or that of the system
  // As ssh prints it; "" when it prints none.
  std::string value(std::string_view option) const;
  // Of an option that may be given several times.
  std::vector<std::string> values(std::string_view option) const;

  // "<file>:<line>: <option> <value>: <why>".
  Error refusal(const std::string& option, const std::string& value, std::string_view why) const;

 private:
  using Answer = std::map<std::string, std::vector<std::string>, std::less<>>;

  static const Result<Answer>& defaults();
  Status refuse_unsupported() const;
  Result<Answer> read(TimePoint deadline) const;
  std::string location(const std::string& option, const std::string& value) const;

  std::vector<std::string> arguments_;  // of ssh
  bool starts_programs_ = true;
  std::string file_;
  Answer answer_;
};

// The target of a session: NodeSpec, and for what it leaves open ~/.ssh/config and ssh's defaults.
struct SshTarget {
  std::string host;
  std::string asked_host;  // as the cluster file names it, where ssh's configuration has another
  std::uint16_t port = 22;
  std::string user;
  std::string key_alias;  // HostKeyAlias: stands in known_hosts instead of host and port; "": none
  std::vector<std::string> known_hosts;  // at least one; the first takes new keys
  std::vector<std::string> system_known_hosts;
  std::vector<std::string> identities;          // named private keys, offered first
  std::vector<std::string> default_identities;  // offered last; none where the config names keys
  bool identities_only = false;                 // of ssh-agent's keys only those of the two lists
  std::string agent;                            // the socket of ssh-agent, "": none
  std::vector<std::string> methods;             // kLoginMethods that may be used, in this order
  std::string jump;            // bastions on the way, in NodeSpec::jump's format; "": none
  std::string proxy_command;   // a shell command that stands for the connection; "": none
  int address_family = 0;      // of a direct connection, as for socket(2)
  Duration connect_timeout{};  // to the end of the handshake; zero: none
  OpensshConfig config;

  std::string label() const;       // "host:port"
  std::string known_name() const;  // in known_hosts, in lower case
  // The name that a line without a port has; "" where known_name() has none either.
  std::string known_name_without_port() const;
};

inline constexpr std::array<std::string_view, 3> kLoginMethods = {
    "publickey", "keyboard-interactive", "password"};

// kUsage for an invalid name, and for a configuration that is not supported.
Result<SshTarget> resolve(const NodeSpec& node, TimePoint deadline);

}  // namespace paddle::remote

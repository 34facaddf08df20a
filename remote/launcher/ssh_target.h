// The target of an SSH session, from NodeSpec and ~/.ssh/config. Names are checked against an
// allow-list.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
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
// Letters, digits and "._-+@\", at most 64, not starting with '-' or '\' and not ending with '\':
// users in a directory service have names like "CORP\alice" or "alice@corp.example".
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
// them. ssh interprets Host, Match, Include, lists, quotes and defaults, so they mean the same as
// to the user's ssh, whatever its version. A config elsewhere, which may have come with a cluster
// file, starts no program (ProxyCommand, Match exec) unless NodeSpec allows it.
class OpensshConfig {
 public:
  // No option is set when there is no such file; then ssh need not be installed. kUsage with file
  // and line for what ssh refuses, and for an option that is not supported here but would change
  // where or how ssh connects. REQUIRES: the host and user of `node` were checked.
  static Result<OpensshConfig> ask(const NodeSpec& node, TimePoint deadline);

  // True when the value is not the default of the installed ssh. Options are in lower case.
  bool is_set(std::string_view option) const;
  const std::string& file() const { return file_; }  // the user's file, or the system's
  // The value as ssh prints it; "" when ssh prints none.
  std::string value(std::string_view option) const;
  // The values of an option that may be given several times.
  std::vector<std::string> values(std::string_view option) const;

  // "<file>:<line>: <option> <value>: <why>".
  Error refusal(const std::string& option, const std::string& value, std::string_view why) const;

 private:
  using Answer = std::map<std::string, std::vector<std::string>, std::less<>>;

  static const Result<Answer>& defaults();
  Status refuse_unsupported() const;
  Result<Answer> read(TimePoint deadline) const;
  // As read(), or the answer for another host where the files give all hosts the same one. `usual`:
  // the files are those of the user and the system.
  Result<Answer> read_or_share(const std::string& host, bool usual, TimePoint deadline) const;
  // As read(); nothing if ssh fails, or reads others than these files (one a line).
  std::optional<Answer> read_files(const std::string& files, TimePoint deadline) const;
  std::string location(const std::string& option, const std::string& value) const;

  std::vector<std::string> arguments_;  // for ssh
  bool starts_programs_ = true;
  std::string file_;
  Answer answer_;
};

// The target of a session, from NodeSpec and, for what it leaves open, from ~/.ssh/config and ssh's
// defaults.
struct SshTarget {
  std::string host;
  std::string asked_host;  // the host in the cluster file if HostName replaces it; else ""
  std::uint16_t port = 22;
  std::string user;
  std::string key_alias;  // HostKeyAlias, in known_hosts in place of host and port; "": none
  std::vector<std::string> known_hosts;  // at least one; new keys are added to the first
  std::vector<std::string> system_known_hosts;
  std::string host_key;                         // as in NodeSpec
  std::vector<std::string> identities;          // named private keys, offered first
  std::vector<std::string> default_identities;  // offered last; none where the config names keys
  bool identities_only = false;      // offer only those keys of ssh-agent that are in the two lists
  std::string agent;                 // the socket of ssh-agent, "": none
  std::vector<std::string> methods;  // the allowed ones of kLoginMethods, in this order
  std::string jump;                  // bastions on the way, in NodeSpec::jump's format; "": none
  std::string proxy_command;         // a shell command that makes the connection; "": none
  int address_family = 0;            // for a direct connection, as in socket(2)
  Duration connect_timeout{};        // until the end of the handshake; zero: none
  OpensshConfig config;

  std::string label() const;       // "host:port"
  std::string known_name() const;  // in known_hosts, in lower case
  // The name in a known_hosts line without a port; "" where known_name() has no port either.
  std::string known_name_without_port() const;
};

inline constexpr std::array<std::string_view, 3> kLoginMethods = {
    "publickey", "keyboard-interactive", "password"};

// Reads the configuration for a node. kUsage for an invalid name, and for a configuration that is
// not supported.
Result<SshTarget> resolve(const NodeSpec& node, TimePoint deadline);

}  // namespace paddle::remote

// Launchers, the ways to reach a node. A launcher starts programs on it and returns their channels;
// all code above this interface is the same for every launcher.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "remote/launcher/login_answers.h"

namespace paddle::remote {

// A node as its launcher needs to know it; the CLI fills it from cluster.toml.
struct NodeSpec {
  std::string name;                  // unique in the cluster; the prefix of its messages
  std::string launcher = "ssh";      // a name in the table of launcher.cc
  std::vector<std::string> command;  // for "command": argv that opens a shell on the node
  std::string host;  // as the user wrote it, looked up in ~/.ssh/config; "": reached without SSH
  std::uint16_t ssh_port = 0;  // 0: ~/.ssh/config or 22
  std::string user;            // "": ~/.ssh/config or $USER
  std::string identity;        // private key file, "": agent and defaults
  std::string jump;            // bastion, "": none
  unsigned bastion = 0;        // for a bastion: how many hops it is before the node; 0: the node
  std::string known_hosts;     // "": ~/.ssh/known_hosts
  std::string ssh_directory;   // "": ~/.ssh; holds config, known_hosts and the default keys
  // "ssh-ed25519 AAAA...": the only key that the node may show, whatever known_hosts says; "":
  // none.
  std::string host_key;
  std::string address = {};     // IPv4 or IPv6, for the other nodes; "": own_address() of the node
  std::uint16_t push_port = 0;  // for other nodes during a push; if 0 or taken, any free port
  std::string root;             // our folder on the node, "~/" allowed: <workdir>/<cluster>, and
                                // /<node> where nodes share a machine
  // Whether a folder above `root` that other users may write to is accepted where it is the root of
  // a mount of its own, as the volume of a pod is.
  bool workdir_shared = false;
  // Whether the config in ssh_directory may start programs on this machine.
  bool allow_proxy_command = false;
  Duration timeout{};  // for connecting and for each answer; zero: the defaults

  bool is_local() const { return launcher == "local"; }
};

// Stdin and stdout of a running remote command as one socket. Closing it ends the command's input.
struct Channel {
  std::shared_ptr<void> keep_alive;          // owns the thread or process that moves the bytes
  std::function<std::string()> stderr_tail;  // the last 4 KiB that the command wrote to stderr
  UniqueFd fd;  // last, so that it closes first: the command ends with its input
};

// Adds the command's last line on stderr, which often contains the reason.
Error with_stderr(Error error, const Channel& channel);

class Launcher {
 public:
  virtual ~Launcher() = default;
  // Runs one of bootstrap's constant command lines in the node's shell.
  virtual Result<Channel> run(const std::string& constant_command, TimePoint deadline) = 0;
};

struct LauncherKind {
  std::string_view name;  // NodeSpec::launcher
  Result<std::unique_ptr<Launcher>> (*make)(const NodeSpec& node, TimePoint deadline, Login* login);
};
// All launchers, the default first.
std::span<const LauncherKind> launcher_kinds();
// If `login` is null, no launcher asks the user anything. kUsage for a launcher that is not in the
// table.
Result<std::unique_ptr<Launcher>> make_launcher(const NodeSpec& node, TimePoint deadline,
                                                Login* login);

// Runs commands in this machine's shell.
Result<std::unique_ptr<Launcher>> make_local_launcher(const NodeSpec& node, TimePoint deadline = {},
                                                      Login* login = nullptr);
// Runs commands in a shell on the node that the program NodeSpec::command opens. When it opens
// none, run() fails with the program's name, exit status and last line of stderr.
Result<std::unique_ptr<Launcher>> make_command_launcher(const NodeSpec& node, TimePoint deadline,
                                                        Login* login);
// Connects and authenticates; kAuth with the fingerprint and the next step when the host key is
// unknown or changed. If `login` is null, only keys are tried.
Result<std::unique_ptr<Launcher>> make_ssh_launcher(const NodeSpec& node, TimePoint deadline,
                                                    Login* login = nullptr);
// Name and version of the SSH launcher's library: "libssh 0.10.6/openssl/zlib".
std::string ssh_library();

// The longest noise (banners, motd) before a sentinel line.
constexpr std::size_t kNoiseBytesMax = 64U << 10U;
// Reads lines until one starts with `prefix`; returns the rest of it. kData after kNoiseBytesMax.
// When bootstrap's shell code refuses our folder: kResource if the node lacks something, such as
// room on its disk; kFailed if the check failed; else kAuth, such as for another user's folder.
Result<std::string> skip_to_line(int fd, const std::string& prefix, TimePoint deadline);

}  // namespace paddle::remote

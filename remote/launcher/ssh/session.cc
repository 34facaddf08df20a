#include "remote/launcher/ssh/session.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include <fmt/format.h>

#include "base/text.h"
#include "remote/launcher/ssh/config.h"
#include "remote/launcher/ssh/host_key_check.h"
#include "remote/launcher/ssh/login.h"

namespace paddle::remote {
namespace {

constexpr Duration kConfigPatience = std::chrono::seconds(20);
constexpr int kPeerLostSeconds = 30;
constexpr int kKeepIdleSeconds = 15;
constexpr int kKeepIntervalSeconds = 5;
constexpr int kKeepProbes = (kPeerLostSeconds - kKeepIdleSeconds) / kKeepIntervalSeconds;

void tune(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value,
                 sizeof value);  // best effort: a slower socket works too
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(IPPROTO_TCP, TCP_QUICKACK, 1);  // the handshake is small messages both ways
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kPeerLostSeconds * 1000);
}

Status wait_connected(int fd, TimePoint deadline) {
  for (;;) {
    const int timeout = milliseconds_until(deadline);
    if (timeout == 0) return Error{Errc::kUnreachable, "no answer before the deadline", ""};
    pollfd item{fd, POLLOUT, 0};
    const int ready = ::poll(&item, 1, timeout);
    if (ready < 0 && errno != EINTR) return system_error(Errc::kUnreachable, "poll");
    if (ready <= 0) continue;
    int code = 0;
    socklen_t size = sizeof code;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) code = errno;
    if (code == 0) return {};
    errno = code;
    return system_error(Errc::kUnreachable, "connect");
  }
}

Result<UniqueFd> connect_one(const addrinfo& address, TimePoint deadline) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(Errc::kResource, "socket");
  tune(fd.get());
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return system_error(Errc::kUnreachable, "connect");
    PADDLE_TRY_STATUS(wait_connected(fd.get(), deadline));
  }
  tune(fd.get());  // the kernel drops quick acknowledgement when the connection opens
  return fd;
}

// Non-blocking, TCP_NODELAY, keep-alive: a vanished peer is detected within kPeerLostSeconds.
// Tries every address of the target's family.
Result<UniqueFd> connect_tcp(const SshTarget& target, TimePoint deadline) {
  addrinfo wanted{};
  wanted.ai_family = target.address_family;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_ADDRCONFIG;
  addrinfo* raw = nullptr;
  // The resolver keeps its own deadlines (resolv.conf timeout and attempts).
  if (const int code =
          ::getaddrinfo(target.host.c_str(), fmt::format("{}", target.port).c_str(), &wanted, &raw);
      code != 0) {
    return Error{Errc::kUnreachable, fmt::format("{}: {}", target.label(), ::gai_strerror(code)),
                 "check the host name, and that it resolves on this machine"};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  Error last{Errc::kUnreachable, "no address", ""};
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    auto fd = connect_one(*one, deadline);
    if (fd) return fd;
    last = std::move(fd).error();
  }
  last.hint =
      "check that the machine is up and that sshd listens on that port; another one is `port` "
      "below [ssh] in the cluster file, or `ssh_port` of the node";
  return std::move(last).with(target.label());
}

// A TCP connection made by the jump host, carried in a channel of our session to it.
Result<Channel> connect_through(const NodeSpec& node, const SshTarget& target, TimePoint deadline,
                                Login* login) {
  PADDLE_TRY(const NodeSpec bastion, bastion_of(node, target.jump));
  PADDLE_TRY(SshConnection connection, open_session(bastion, deadline, login));
  PADDLE_TRY(const std::shared_ptr<SshPump> pump, SshPump::start(std::move(connection)));
  return pump->open({"", target.host, target.port}, deadline);
}

Result<Channel> connect_transport(const NodeSpec& node, const SshTarget& target, TimePoint deadline,
                                  Login* login) {
  if (!target.jump.empty()) {
    return connect_through(node, target, deadline, login).with("jump host " + target.jump);
  }
  Channel direct;
  PADDLE_TRY(direct.fd, connect_tcp(target, deadline));
  return direct;
}

Status handshake(ssh_session session, const SshTarget& target) {
  const int code = ssh_connect(session);
  if (code == SSH_OK) return {};
  return Error{Errc::kUnreachable,
               fmt::format("{}: {}", target.label(),
                           code == SSH_AGAIN ? "no answer before the deadline"
                                             : escape_control(ssh_get_error(session))),
               "check that it is an SSH server"};
}

}  // namespace

Result<NodeSpec> bastion_of(const NodeSpec& node, const std::string& jumps) {
  const std::size_t comma = jumps.rfind(',');
  const bool last = comma == jumps.npos;
  if (node.bastion == kBastionsMax) {
    return Error{Errc::kUsage, fmt::format("over {} jump hosts", kBastionsMax),
                 "check whether the way to one leads through itself in ~/.ssh/config"};
  }
  PADDLE_TRY(const JumpHost jump, parse_jump(last ? jumps : jumps.substr(comma + 1)));
  NodeSpec bastion = node;
  bastion.name = jump.host;
  ++bastion.bastion;
  bastion.jump = last ? "" : jumps.substr(0, comma);
  bastion.host = jump.host;
  bastion.user = jump.user;
  bastion.ssh_port = jump.port;
  return bastion;
}

Result<std::string> jumps_to(const NodeSpec& node) {
  if (!node.jump.empty()) return node.jump;
  const Duration patience = node.timeout > Duration() ? node.timeout : kConfigPatience;
  PADDLE_TRY(SshTarget target, resolve(node, SteadyClock().now() + patience).with(node.name));
  return std::move(target.jump);
}

Result<UnverifiedConnection> shake_hands(const NodeSpec& node, TimePoint deadline, Login* login) {
  UnverifiedConnection made;
  made.connection.session.reset(ssh_new());
  ssh_session session = made.connection.session.get();
  if (session == nullptr) return Error{Errc::kResource, "libssh: out of memory", ""};
  PADDLE_TRY(made.target, resolve(node, deadline));
  const SshTarget& target = made.target;
  PADDLE_TRY_STATUS(apply_options(session, target));
  choose_known_hosts(session, target);
  if (target.connect_timeout > Duration()) {
    deadline = std::min(deadline, SteadyClock().now() + target.connect_timeout);
  }
  made.connection.label = target.label();
  PADDLE_TRY_STATUS(set_deadline(session, deadline));
  if (target.proxy_command.empty()) {
    PADDLE_TRY(Channel transport, connect_transport(node, target, deadline, login));
    if (::fcntl(transport.fd.get(), F_SETFL, O_NONBLOCK) != 0) {
      return system_error(Errc::kResource, "fcntl");
    }
    made.connection.transport = std::move(transport.keep_alive);
    PADDLE_TRY_STATUS(set_deadline(session, deadline));
    const socket_t fd = transport.fd.release();  // ssh_connect, called next, takes ownership
    ssh_options_set(session, SSH_OPTIONS_FD, &fd);
  }
  if (Status status = handshake(session, target); !status) {
    if (target.proxy_command.empty()) return std::move(status).error();
    return std::move(status).error().with("ProxyCommand of " + target.config.file());
  }
  return made;
}

Result<SshConnection> open_session(const NodeSpec& node, TimePoint deadline, Login* login) {
  PADDLE_TRY(UnverifiedConnection made, shake_hands(node, deadline, login));
  ssh_session session = made.connection.session.get();
  PADDLE_TRY_STATUS(check_host_key(session, made.target));
  PADDLE_TRY_STATUS(authenticate(session, made.target, node.bastion > 0, login, deadline)
                        .with(made.target.label()));
  return std::move(made.connection);
}

}  // namespace paddle::remote

#include "remote/launcher/ssh/session.h"

#include <fcntl.h>

#include <fmt/format.h>

#include "base/text.h"
#include "remote/launcher/ssh/config.h"
#include "remote/launcher/ssh/host_key_check.h"
#include "remote/launcher/ssh/login.h"
#include "remote/launcher/ssh/socket.h"

namespace paddle::remote {
namespace {

struct Transport {
  UniqueFd fd;
  std::shared_ptr<void> keep_alive;
};

// A TCP connection made by the jump host, carried in a channel of our session to it.
Result<Transport> connect_through(const NodeSpec& node, const SshTarget& target, TimePoint deadline,
                                  Login* login) {
  PADDLE_TRY(const NodeSpec bastion, bastion_of(node, target.jump));
  PADDLE_TRY(SshConnection connection, open_session(bastion, deadline, login));
  PADDLE_TRY(const std::shared_ptr<SshPump> pump, SshPump::start(std::move(connection)));
  PADDLE_TRY(Channel channel, pump->open({"", target.host, target.port}, deadline));
  return Transport{std::move(channel.fd), std::move(channel.keep_alive)};
}

Result<Transport> connect_transport(const NodeSpec& node, const SshTarget& target,
                                    TimePoint deadline, Login* login) {
  if (!target.jump.empty()) {
    auto transport = connect_through(node, target, deadline, login);
    if (!transport) return std::move(transport).error().with("jump host " + target.jump);
    return transport;
  }
  PADDLE_TRY(UniqueFd fd, connect_tcp(target.host, target.port, deadline));
  return Transport{std::move(fd), nullptr};
}

Status handshake(ssh_session session, const SshTarget& target) {
  const int code = ssh_connect(session);
  if (code == SSH_OK) return {};
  return Error{Errc::kUnreachable,
               fmt::format("{}: {}", target.label(),
                           code == SSH_AGAIN ? "no answer before the deadline"
                                             : escape_control(ssh_get_error(session))),
               "is it an SSH server?"};
}

}  // namespace

Result<NodeSpec> bastion_of(const NodeSpec& node, const std::string& jumps) {
  const std::size_t comma = jumps.rfind(',');
  const bool last = comma == jumps.npos;
  if (node.bastion == kBastionsMax) {
    return Error{Errc::kUsage, fmt::format("over {} jump hosts", kBastionsMax),
                 "does the way to one lead through itself, in ~/.ssh/config?"};
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
  const SshHandle session(ssh_new());
  if (!session) return Error{Errc::kResource, "libssh: out of memory", ""};
  PADDLE_TRY(SshTarget target, apply_options(session.get(), node));
  return std::move(target.jump);
}

Result<UnverifiedConnection> shake_hands(const NodeSpec& node, TimePoint deadline, Login* login) {
  UnverifiedConnection made;
  made.connection.session.reset(ssh_new());
  ssh_session session = made.connection.session.get();
  if (session == nullptr) return Error{Errc::kResource, "libssh: out of memory", ""};
  PADDLE_TRY(made.target, apply_options(session, node));
  const SshTarget& target = made.target;
  made.connection.label = target.label();
  PADDLE_TRY_STATUS(set_deadline(session, deadline));
  if (!target.proxy_command) {
    PADDLE_TRY(Transport transport, connect_transport(node, target, deadline, login));
    if (::fcntl(transport.fd.get(), F_SETFL, O_NONBLOCK) != 0) {
      return system_error(Errc::kResource, "fcntl");
    }
    made.connection.transport = std::move(transport.keep_alive);
    PADDLE_TRY_STATUS(set_deadline(session, deadline));
    const socket_t fd = transport.fd.release();  // ssh_connect, called next, takes ownership
    ssh_options_set(session, SSH_OPTIONS_FD, &fd);
  }
  if (Status status = handshake(session, target); !status) {
    if (!target.proxy_command) return std::move(status).error();
    return std::move(status).error().with("ProxyCommand of " + target.directory + "/config");
  }
  return made;
}

Result<SshConnection> open_session(const NodeSpec& node, TimePoint deadline, Login* login) {
  PADDLE_TRY(UnverifiedConnection made, shake_hands(node, deadline, login));
  ssh_session session = made.connection.session.get();
  PADDLE_TRY_STATUS(check_host_key(session, made.target));
  if (Status status = authenticate(session, made.target, node.bastion > 0, login, deadline);
      !status) {
    return std::move(status).error().with(made.target.label());
  }
  return std::move(made.connection);
}

}  // namespace paddle::remote

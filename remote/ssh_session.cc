#include "remote/ssh_session.h"

#include <fcntl.h>

#include <fmt/format.h>

#include "engine/base/text.h"
#include "remote/ssh_config.h"
#include "remote/ssh_socket.h"
#include "remote/ssh_trust.h"

namespace paddle::remote {
namespace {

struct Transport {
  UniqueFd fd;
  std::shared_ptr<void> keep_alive;
};

// A TCP connection that the jump host makes for us, carried in a channel of our own session to it.
Result<Transport> connect_through(const NodeSpec& node, const SshTarget& target,
                                  TimePoint deadline) {
  PADDLE_TRY(const JumpHost jump, parse_jump(node.jump));
  NodeSpec bastion = node;
  bastion.jump.clear();
  bastion.host = jump.host;
  bastion.user = jump.user;
  bastion.ssh_port = jump.port;
  PADDLE_TRY(SshConnection connection, open_session(bastion, deadline));
  PADDLE_TRY(const std::shared_ptr<SshPump> pump, SshPump::start(std::move(connection)));
  PADDLE_TRY(Channel channel, pump->open({"", target.host, target.port}, deadline));
  return Transport{std::move(channel.fd), std::move(channel.keep_alive)};
}

Result<Transport> connect_transport(const NodeSpec& node, const SshTarget& target,
                                    TimePoint deadline) {
  if (!node.jump.empty()) {
    auto transport = connect_through(node, target, deadline);
    if (!transport) return std::move(transport).error().with("jump host " + node.jump);
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

Result<SshConnection> open_session(const NodeSpec& node, TimePoint deadline) {
  SshConnection connection;
  connection.session.reset(ssh_new());
  ssh_session session = connection.session.get();
  if (session == nullptr) return Error{Errc::kResource, "libssh: out of memory", ""};
  PADDLE_TRY(const SshTarget target, apply_options(session, node));
  connection.label = target.label();
  PADDLE_TRY_STATUS(set_deadline(session, deadline));
  if (!target.proxy_command || !node.jump.empty()) {
    PADDLE_TRY(Transport transport, connect_transport(node, target, deadline));
    if (::fcntl(transport.fd.get(), F_SETFL, O_NONBLOCK) != 0) {
      return system_error(Errc::kResource, "fcntl");
    }
    connection.transport = std::move(transport.keep_alive);
    PADDLE_TRY_STATUS(set_deadline(session, deadline));
    const socket_t fd = transport.fd.release();  // of libssh once ssh_connect has it, which is next
    ssh_options_set(session, SSH_OPTIONS_FD, &fd);
  }
  if (Status status = handshake(session, target); !status) {
    if (!target.proxy_command || !node.jump.empty()) return std::move(status).error();
    return std::move(status).error().with("ProxyCommand or ProxyJump of " + target.directory +
                                          "/config");
  }
  PADDLE_TRY_STATUS(check_host_key(session, target));
  if (Status status = authenticate(session, target, deadline); !status) {
    return std::move(status).error().with(target.label());
  }
  return connection;
}

}  // namespace paddle::remote

#include "remote/launcher/ssh_session.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "remote/launcher/child_program.h"
#include "remote/launcher/host_key_check.h"
#include "remote/launcher/ssh_config.h"
#include "remote/launcher/ssh_login.h"

namespace paddle::remote {
namespace {

constexpr Duration kPauseMin = std::chrono::milliseconds(100);
constexpr Duration kPauseMax = std::chrono::seconds(2);

class LoginSlots {
 public:
  Result<LoginSlot> acquire(const std::string& server, TimePoint deadline) {
    std::unique_lock lock(mutex_);
    const auto is_free = [&] {
      const auto found = in_use_.find(server);
      return found == in_use_.end() || found->second < kLoginsAtOnce;
    };
    if (!freed_.wait_until(lock, deadline, is_free)) {
      return Error{
          Errc::kUnreachable,
          fmt::format("the deadline passed while waiting for {} other logins there", kLoginsAtOnce),
          "set a longer deadline with --timeout"};
    }
    ++in_use_[server];
    return LoginSlot(static_cast<void*>(this), [this, server](void*) { release(server); });
  }

 private:
  void release(const std::string& server) {
    const std::lock_guard lock(mutex_);
    const auto found = in_use_.find(server);
    if (--found->second == 0) in_use_.erase(found);
    freed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable freed_;
  std::map<std::string, int> in_use_;  // by server
};

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
    // A server may accept a connection and reset it at once; wait_for_greeting() detects that.
    if (code == 0 || code == ECONNRESET) return {};
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

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// Returns every address of the target in its address family.
Result<Addresses> resolve_host(const SshTarget& target) {
  addrinfo wanted{};
  wanted.ai_family = target.address_family;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICHOST;
  const std::string port = fmt::format("{}", target.port);
  addrinfo* raw = nullptr;
  // A literal address is accepted even where this machine has no address of that family.
  int code = ::getaddrinfo(target.host.c_str(), port.c_str(), &wanted, &raw);
  if (code != 0) {
    wanted.ai_flags = AI_ADDRCONFIG;
    // The resolver keeps its own deadlines (resolv.conf timeout and attempts).
    code = ::getaddrinfo(target.host.c_str(), port.c_str(), &wanted, &raw);
  }
  if (code == 0) return Addresses(raw);
  return Error{Errc::kUnreachable, fmt::format("{}: {}", target.label(), ::gai_strerror(code)),
               "check the host name, and that it resolves on this machine"};
}

// The address and its port as text, as the name for acquire_login_slot().
std::string server_name(const addrinfo& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  ::getnameinfo(address.ai_addr, address.ai_addrlen, host.data(), host.size(), port.data(),
                port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  return fmt::format("{} {}", host.data(), port.data());
}

// Connects with TCP_NODELAY and keep-alive, non-blocking: a vanished peer is detected within
// kPeerLostSeconds.
Result<UniqueFd> connect_tcp(const SshTarget& target, const addrinfo* addresses,
                             TimePoint deadline) {
  Error last{Errc::kUnreachable, "the host name has no address", ""};
  for (const addrinfo* one = addresses; one != nullptr; one = one->ai_next) {
    auto fd = connect_one(*one, deadline);
    if (fd) return fd;
    last = std::move(fd).error();
  }
  last.hint =
      "check that the machine is up and that sshd listens on that port; to use another port, set "
      "`port` below [ssh] in the cluster file, or `ssh_port` of the node";
  return std::move(last).with(target.label());
}

// The part between `begin` and `end`; "" where there is none.
std::string between(const std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t first = text.find(begin);
  if (first == text.npos) return "";
  const std::size_t from = first + begin.size();
  return text.substr(from, std::min(text.find(end, from), text.size()) - from);
}

// The error for a server that shares no algorithm with libssh, from libssh's message: "kex error :
// no match for method server host key algo: server [ssh-rsa], client [ssh-ed25519,...]".
Error no_common_algorithm(const SshTarget& target, const std::string& why) {
  return {
      Errc::kUnreachable,
      fmt::format("{}: the server and paddlectl have no algorithm in common for the {}; the "
                  "server offers {}",
                  target.label(), between(why, "no match for method ", ":"),
                  between(why, "server [", "]")),
      fmt::format("let ssh make the connection, which has more algorithms: launcher = [\"ssh\", "
                  "\"-o\", \"BatchMode=yes\", \"{}\"]; or allow newer ones in the sshd_config "
                  "there",
                  target.host)};
}

// One try to connect and to agree on keys. Acquires a slot at the server only when the
// connections to its bastions are open, so that no thread holds one slot while it waits for
// another.
class HandshakeTry {
 public:
  HandshakeTry(const NodeSpec& node, const SshTarget& target, TimePoint deadline, Login* login)
      : node_(node), target_(target), deadline_(deadline), login_(login) {}

  Result<UnverifiedConnection> run() {
    UnverifiedConnection made;
    made.target = target_;
    made.connection.label = target_.label();
    made.connection.session.reset(ssh_new());
    ssh_session session = made.connection.session.get();
    if (session == nullptr) return Error{Errc::kResource, "libssh: out of memory", ""};
    PADDLE_TRY_STATUS(apply_options(session, target_));
    PADDLE_TRY_STATUS(prefer_known_keys(session, target_));
    PADDLE_TRY(Channel transport, connect(made.slot));
    if (::fcntl(transport.fd.get(), F_SETFL, O_NONBLOCK) != 0) {
      return system_error(Errc::kResource, "fcntl");
    }
    PADDLE_TRY_STATUS(wait_for_greeting(transport.fd.get()));
    made.connection.transport = std::move(transport.keep_alive);
    const socket_t fd = transport.fd.release();  // ssh_connect, called next, takes ownership
    ssh_options_set(session, SSH_OPTIONS_FD, &fd);
    PADDLE_TRY_STATUS(set_deadline(session, deadline_));
    PADDLE_TRY_STATUS(handshake(session));
    return made;
  }

  // True if the server, or a machine before it, ended the connection before the login began.
  bool was_dropped() const { return was_dropped_; }

 private:
  Result<LoginSlot> slot_at(const std::string& server) {
    PADDLE_TRY(LoginSlot slot, acquire_login_slot(server, deadline_).with(target_.label()));
    if (target_.connect_timeout > Duration())
      deadline_ = std::min(deadline_, SteadyClock().now() + target_.connect_timeout);
    return slot;
  }

  Result<Channel> connect(LoginSlot& slot) {
    if (!target_.proxy_command.empty()) return connect_by_command(slot);
    if (!target_.jump.empty()) {
      return connect_through(slot).with("jump host " + target_.jump);
    }
    PADDLE_TRY(const Addresses addresses, resolve_host(target_));
    PADDLE_TRY(slot, slot_at(server_name(*addresses)));
    Channel direct;
    PADDLE_TRY(direct.fd, connect_tcp(target_, addresses.get(), deadline_));
    return direct;
  }

  // A TCP connection made by the jump host, carried in a channel of our session to it.
  Result<Channel> connect_through(LoginSlot& slot) {
    PADDLE_TRY(const NodeSpec bastion, bastion_of(node_, target_.jump));
    PADDLE_TRY(SshConnection connection, open_session(bastion, deadline_, login_));
    PADDLE_TRY(const std::shared_ptr<SshPump> pump, SshPump::start(std::move(connection)));
    PADDLE_TRY(slot, slot_at(target_.jump + " " + target_.label()));
    return pump->open({"", target_.host, target_.port}, deadline_);
  }

  Result<Channel> connect_by_command(LoginSlot& slot) {
    // The command with its tokens unexpanded: it is the same for all nodes that it reaches through
    // one bastion.
    PADDLE_TRY(slot, slot_at("command " + target_.config.value("proxycommand")));
    const char* const shell = std::getenv("SHELL");  // as ssh does
    UniqueFd fd;
    PADDLE_TRY(proxy_, ChildProgram::start({shell != nullptr && *shell == '/' ? shell : "/bin/sh",
                                            "-c", "exec " + target_.proxy_command},
                                           fd, ChildProgram::Session::kOurs)
                           .with("ProxyCommand of " + target_.config.file()));
    return Channel{proxy_, {}, std::move(fd)};
  }

  // The error of a connection that ended. A command that failed is not tried again, unless it is an
  // ssh that a bastion did not let log in.
  Error of_proxy(Error error) {
    const std::string words = escape_control(proxy_->describe_end("the command"));
    error.message += fmt::format(" ({})", words);
    const bool has_failed = !words.starts_with("the command exited with status 0");
    const bool is_ssh = proxy_->stderr_tail().find("kex_exchange_identification: ") != words.npos;
    if (has_failed && !is_ssh) {
      was_dropped_ = false;
      error.hint = "run the command by hand, and check its program, host and port";
    }
    return std::move(error).with("ProxyCommand of " + target_.config.file());
  }

  Error dropped(const std::string& how) {
    was_dropped_ = true;
    Error error{Errc::kUnreachable, fmt::format("{} {}", target_.label(), how),
                "its sshd may have too many logins at a time (MaxStartups): try --parallel 4; or "
                "check whether a firewall or a list of denied hosts there ends connections"};
    return proxy_ ? of_proxy(std::move(error)) : error;
  }

  // sshd from OpenSSH 9.8 on refuses an address for some time after failed logins
  // (PerSourcePenalties), and each further try may prolong that time.
  Error penalized(std::string_view words) const {
    return {Errc::kUnreachable,
            fmt::format("{} answers \"{}\": its sshd refuses this address for some time after "
                        "failed logins (PerSourcePenalties)",
                        target_.label(), words),
            "wait some minutes, and check user and key before the next try; or let its "
            "administrator exempt this address: PerSourcePenaltyExemptList in sshd_config"};
  }

  // An SSH server sends first; a server that drops the connection sends nothing, or its reason.
  Status wait_for_greeting(int fd) {
    if (const Status ready = wait_ready(fd, POLLIN, deadline_); !ready) {
      Error error{Errc::kUnreachable, target_.label() + ": no answer before the deadline",
                  "check that it is an SSH server"};
      return proxy_ ? of_proxy(std::move(error)) : error;
    }
    std::array<char, 64> head{};
    const ssize_t got = ::recv(fd, head.data(), head.size(), MSG_PEEK);
    if (got == 0) return dropped("closed the connection at once");
    if (got < 0 && errno != EAGAIN) {
      return dropped(fmt::format("ended the connection at once: {}", std::strerror(errno)));
    }
    const std::string_view text(head.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    constexpr std::string_view kFull = "Exceeded MaxStartups";
    constexpr std::string_view kPenalty = "Not allowed at this time";
    if (text.starts_with(kFull)) return dropped(fmt::format("answers \"{}\"", kFull));
    if (text.starts_with(kPenalty)) return penalized(kPenalty);
    return {};
  }

  Status handshake(ssh_session session) {
    const int code = ssh_connect(session);
    if (code == SSH_OK) return {};
    const std::string why = escape_control(ssh_get_error(session));
    if (code != SSH_AGAIN && why.find("no match for method") != why.npos)
      return no_common_algorithm(target_, why);
    Error error{Errc::kUnreachable,
                fmt::format("{}: {}", target_.label(),
                            code == SSH_AGAIN ? "no answer before the deadline" : why),
                "check that it is an SSH server"};
    // libssh's message when the other side has ended the connection.
    if (code != SSH_AGAIN && why.starts_with("Socket error")) {
      was_dropped_ = true;
      error.hint += ", and that its sshd allows more logins at a time (MaxStartups)";
    }
    return proxy_ ? of_proxy(std::move(error)) : error;
  }

  const NodeSpec& node_;
  const SshTarget& target_;
  TimePoint deadline_;
  Login* const login_;
  std::shared_ptr<ChildProgram> proxy_;  // of a ProxyCommand
  bool was_dropped_ = false;
};

}  // namespace

Result<LoginSlot> acquire_login_slot(const std::string& server, TimePoint deadline) {
  static LoginSlots slots;
  return slots.acquire(server, deadline);
}

Duration pause_before_login_try(int tries) {
  thread_local std::minstd_rand random(std::random_device{}());
  Duration longest = kPauseMin;
  for (int i = 1; i < tries && longest < kPauseMax; ++i) longest *= 2;
  longest = std::min(longest, kPauseMax);
  std::uniform_int_distribution<Duration::rep> part(longest.count() / 2, longest.count());
  return Duration(part(random));
}

Result<NodeSpec> bastion_of(const NodeSpec& node, const std::string& jumps) {
  const std::size_t comma = jumps.rfind(',');
  const bool last = comma == jumps.npos;
  if (node.bastion == kBastionsMax) {
    return Error{Errc::kUsage, fmt::format("the connection needs over {} jump hosts", kBastionsMax),
                 "check whether a jump host is reached through itself in ~/.ssh/config"};
  }
  PADDLE_TRY(const JumpHost jump, parse_jump(last ? jumps : jumps.substr(comma + 1)));
  NodeSpec bastion = node;
  bastion.name = jump.host;
  ++bastion.bastion;
  bastion.jump = last ? "" : jumps.substr(0, comma);
  bastion.host = jump.host;
  bastion.user = jump.user;
  bastion.ssh_port = jump.port;
  bastion.host_key.clear();
  return bastion;
}

Result<std::string> jumps_to(const NodeSpec& node) {
  if (!node.jump.empty()) return node.jump;
  const Duration patience = node.timeout > Duration() ? node.timeout : kConfigPatience;
  PADDLE_TRY(SshTarget target, resolve(node, SteadyClock().now() + patience).with(node.name));
  return std::move(target.jump);
}

Result<UnverifiedConnection> shake_hands(const NodeSpec& node, TimePoint deadline, Login* login) {
  PADDLE_TRY(const SshTarget target, resolve(node, deadline));
  for (int tries = 1;; ++tries) {
    HandshakeTry attempt(node, target, deadline, login);
    auto made = attempt.run();
    if (made || !attempt.was_dropped()) return made;
    const Duration pause = pause_before_login_try(tries);
    if (tries == kLoginTriesMax || SteadyClock().now() + pause >= deadline) {
      if (tries == 1) return made;
      Error error = std::move(made).error();
      error.message += fmt::format(" (tried {} times)", tries);
      return error;
    }
    ::poll(nullptr, 0, milliseconds_until(SteadyClock().now() + pause));
  }
}

Result<SshConnection> open_session(const NodeSpec& node, TimePoint deadline, Login* login) {
  PADDLE_TRY(UnverifiedConnection made, shake_hands(node, deadline, login));
  ssh_session session = made.connection.session.get();
  PADDLE_TRY_STATUS(check_host_key(session, made.target));
  PADDLE_TRY_STATUS(
      authenticate(session, made.target, node, login, deadline).with(made.target.label()));
  return std::move(made.connection);
}

}  // namespace paddle::remote

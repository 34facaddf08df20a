#include "remote/launcher/ssh/agent_relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "remote/launcher/ssh/base64.h"

namespace paddle::remote {
namespace {

constexpr std::size_t kRelayChunkBytes = 4096;
constexpr std::size_t kAgentAnswerBytesMax = 256U << 10U;  // as in OpenSSH's authfd.c
constexpr auto kIdentitiesAnswer = std::byte{12};

Result<UniqueFd> connect_agent(const std::string& path) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  if (path.size() >= sizeof where.sun_path)
    return Error{Errc::kUsage, "SSH_AUTH_SOCK is too long", ""};
  path.copy(where.sun_path, path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) != 0)
    return system_error(Errc::kUnreachable, path);
  return fd;
}

// Forwards available bytes; false at the end.
bool pass_on(int from, int to, TimePoint deadline) {
  std::array<std::byte, kRelayChunkBytes> chunk;
  const ssize_t got = ::recv(from, chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) return false;
  const auto size = static_cast<std::size_t>(got);
  return static_cast<bool>(write_all(to, std::span(chunk).first(size), deadline));
}

// A big-endian length and as many bytes, which are cut off `rest`; nullopt when it is too short.
std::optional<ByteSpan> take_string(ByteSpan& rest) {
  if (rest.size() < 4) return std::nullopt;
  std::size_t size = 0;
  for (const std::byte byte : rest.first(4)) size = size << 8U | std::to_integer<unsigned>(byte);
  if (rest.size() - 4 < size) return std::nullopt;
  const ByteSpan text = rest.subspan(4, size);
  rest = rest.subspan(4 + size);
  return text;
}

void append_number(Bytes& bytes, std::size_t number) {
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    bytes.push_back(static_cast<std::byte>(number >> shift & 0xffU));
  }
}

// The answer to a request for the list of keys, a type, a number and pairs of key and comment, with
// no other keys than `only`.
Bytes filtered(const Bytes& answer, const std::set<std::string>& only) {
  Bytes kept;
  std::size_t keys = 0;
  for (ByteSpan rest = ByteSpan(answer).subspan(std::min<std::size_t>(5, answer.size()));;) {
    const ByteSpan before = rest;
    const auto key = take_string(rest);
    if (!key || !take_string(rest)) break;
    if (!only.contains(base64({reinterpret_cast<const unsigned char*>(key->data()), key->size()})))
      continue;
    const ByteSpan pair = before.first(before.size() - rest.size());
    kept.insert(kept.end(), pair.begin(), pair.end());
    ++keys;
  }
  Bytes result = {kIdentitiesAnswer};
  append_number(result, keys);
  result.insert(result.end(), kept.begin(), kept.end());
  return result;
}

}  // namespace

bool agent_answers(const std::string& path, TimePoint deadline) {
  constexpr std::byte kRequestIdentities[] = {std::byte{0}, std::byte{0}, std::byte{0},
                                              std::byte{1}, std::byte{11}};
  const auto fd = connect_agent(path);
  std::byte first{};
  return fd && write_all(fd->get(), kRequestIdentities, deadline) &&
         read_exact(fd->get(), std::span(&first, 1), deadline);
}

Result<std::unique_ptr<SshAgentRelay>> SshAgentRelay::start(
    const std::string& path, TimePoint deadline, std::optional<std::set<std::string>> only) {
  PADDLE_TRY(UniqueFd agent, connect_agent(path));
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return system_error(Errc::kResource, "socketpair");
  return std::unique_ptr<SshAgentRelay>(new SshAgentRelay(
      UniqueFd(pair[0]), UniqueFd(pair[1]), std::move(agent), deadline, std::move(only)));
}

SshAgentRelay::SshAgentRelay(UniqueFd of_libssh, UniqueFd session, UniqueFd agent,
                             TimePoint deadline, std::optional<std::set<std::string>> only)
    : of_libssh_(std::move(of_libssh)),
      session_(std::move(session)),
      agent_(std::move(agent)),
      only_(std::move(only)),
      thread_([this, deadline] { run(deadline); }) {}

SshAgentRelay::~SshAgentRelay() {
  ::shutdown(session_.get(), SHUT_RDWR);
  thread_.join();
}

// False when the agent hangs up or answers no whole message before the deadline.
bool SshAgentRelay::relay_answer(TimePoint deadline) {
  std::array<std::byte, 4> head{};
  if (!read_exact(agent_.get(), head, deadline)) return false;
  std::size_t size = 0;
  for (const std::byte byte : head) size = size << 8U | std::to_integer<unsigned>(byte);
  if (size == 0 || size > kAgentAnswerBytesMax) return false;
  Bytes answer(size);
  if (!read_exact(agent_.get(), answer, deadline)) return false;
  if (only_ && answer[0] == kIdentitiesAnswer) answer = filtered(answer, *only_);
  Bytes message;
  append_number(message, answer.size());
  message.insert(message.end(), answer.begin(), answer.end());
  return static_cast<bool>(write_all(session_.get(), message, deadline));
}

void SshAgentRelay::run(TimePoint deadline) {
  bool owed = false;  // an answer by the agent
  for (bool open = true; open;) {
    const int timeout = milliseconds_until(deadline);
    if (timeout == 0) break;
    pollfd items[2] = {{session_.get(), POLLIN, 0}, {agent_.get(), POLLIN, 0}};
    if (::poll(items, 2, timeout) < 0 && errno != EINTR) break;
    if (items[0].revents != 0) {
      owed = true;
      open = pass_on(session_.get(), agent_.get(), deadline);
    }
    if (open && items[1].revents != 0) {
      open = relay_answer(deadline);
      owed = !open;
    }
  }
  gave_up_ = owed && SteadyClock().now() >= deadline;
  ::shutdown(session_.get(), SHUT_RDWR);
  ::shutdown(agent_.get(), SHUT_RDWR);
}

}  // namespace paddle::remote

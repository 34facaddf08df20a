#include "remote/launcher/ssh_login.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/text.h"

namespace paddle::remote {
namespace {

// The relay between libssh and ssh-agent, which adds a deadline.

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

// Cuts a big-endian length and as many bytes off `rest` and returns the bytes; nullopt when `rest`
// is too short.
std::optional<ByteSpan> read_string(ByteSpan& rest) {
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

// Reduces the agent's list of keys to those in `only`. The answer consists of a type, a number, and
// pairs of key and comment.
Bytes filtered(const Bytes& answer, const std::set<std::string>& only) {
  Bytes kept;
  std::size_t keys = 0;
  for (ByteSpan rest = ByteSpan(answer).subspan(std::min<std::size_t>(5, answer.size()));;) {
    const ByteSpan before = rest;
    const auto key = read_string(rest);
    if (!key || !read_string(rest)) break;
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

// True when the agent at the socket answers a request for its list of keys.
bool agent_answers(const std::string& path, TimePoint deadline) {
  constexpr std::byte kRequestIdentities[] = {std::byte{0}, std::byte{0}, std::byte{0},
                                              std::byte{1}, std::byte{11}};
  const auto fd = connect_agent(path);
  std::byte first{};
  return fd && write_all(fd->get(), kRequestIdentities, deadline) &&
         read_exact(fd->get(), std::span(&first, 1), deadline);
}

// Relays libssh's requests and the agent's answers until the deadline, then closes both sockets.
class SshAgentRelay {
 public:
  // only: public keys in base64; other keys of the agent are hidden from libssh.
  static Result<std::unique_ptr<SshAgentRelay>> start(const std::string& path, TimePoint deadline,
                                                      std::optional<std::set<std::string>> only);
  ~SshAgentRelay();  // closes both sockets
  SshAgentRelay(const SshAgentRelay&) = delete;
  SshAgentRelay& operator=(const SshAgentRelay&) = delete;

  // For ssh_set_agent_socket, which takes ownership.
  int release_socket() { return of_libssh_.release(); }
  // True when the deadline passed while an answer of the agent was pending.
  bool gave_up() const { return gave_up_; }

 private:
  SshAgentRelay(UniqueFd of_libssh, UniqueFd session, UniqueFd agent, TimePoint deadline,
                std::optional<std::set<std::string>> only);
  void run(TimePoint deadline);
  bool relay_answer(TimePoint deadline);

  UniqueFd of_libssh_, session_, agent_;
  std::optional<std::set<std::string>> only_;
  std::atomic<bool> gave_up_ = false;
  std::thread thread_;
};

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

// Relays one answer. False when the agent hangs up or sends no whole message before the deadline.
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
  bool is_pending = false;  // the agent has not answered the last request
  for (bool open = true; open;) {
    const int timeout = milliseconds_until(deadline);
    if (timeout == 0) break;
    pollfd items[2] = {{session_.get(), POLLIN, 0}, {agent_.get(), POLLIN, 0}};
    if (::poll(items, 2, timeout) < 0 && errno != EINTR) break;
    if (items[0].revents != 0) {
      is_pending = true;
      open = pass_on(session_.get(), agent_.get(), deadline);
    }
    if (open && items[1].revents != 0) {
      open = relay_answer(deadline);
      is_pending = !open;
    }
  }
  gave_up_ = is_pending && SteadyClock().now() >= deadline;
  ::shutdown(session_.get(), SHUT_RDWR);
  ::shutdown(agent_.get(), SHUT_RDWR);
}

// The login.

constexpr Duration kAgentPatience = std::chrono::seconds(2);      // for its list of keys
constexpr Duration kSignaturePatience = std::chrono::seconds(8);  // a key may need a touch
constexpr int kPromptRoundsMax = 16;  // in one keyboard-interactive login
constexpr int kMethodsMax = 4;        // methods that a server requires in succession

// Called only for an encrypted key: paddlectl does not ask for passphrases, but an agent can.
int note_passphrase(const char*, char*, std::size_t, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

// kPartly: accepted, and the server wants something else as well.
enum class Attempt { kAccepted, kPartly, kRefused };

Error lost(ssh_session session) {
  return Error{Errc::kUnreachable,
               fmt::format("connection lost while authenticating: {}",
                           escape_control(ssh_get_error(session))),
               "check the log of its sshd; a Banner of over 256 KiB also ends a connection"};
}

Result<KeyHandle> read_key(const std::string& path) {
  bool asked = false;
  ssh_key raw = nullptr;
  if (ssh_pki_import_privkey_file(path.c_str(), nullptr, note_passphrase, &asked, &raw) == SSH_OK) {
    return KeyHandle(raw);
  }
  if (asked) return Error{Errc::kAuth, "encrypted: add it to ssh-agent", ""};
  if (::access(path.c_str(), R_OK) != 0) return Error{Errc::kAuth, std::strerror(errno), ""};
  return Error{Errc::kAuth, "not a private key", ""};
}

// "path", or "path (why it cannot be used)".
std::string described(const std::string& path) {
  const auto key = read_key(path);
  return key ? path : fmt::format("{} ({})", path, key.error().message);
}

Result<Attempt> outcome(ssh_session session, int answer) {
  if (answer == SSH_AUTH_SUCCESS) return Attempt::kAccepted;
  if (answer == SSH_AUTH_PARTIAL) return Attempt::kPartly;
  if (!ssh_is_connected(session)) return lost(session);
  if (answer == SSH_AUTH_AGAIN) return Error{Errc::kUnreachable, "deadline passed", ""};
  return Attempt::kRefused;
}

// Makes a request to log in, and repeats it whenever the server has sent something, until it has an
// answer, or SSH_AUTH_AGAIN at the deadline. A request that blocks would wait for all of the
// deadline if the server has ended the session meanwhile.
template <class Request>
int answer_to(const Request& request, ssh_session session, TimePoint deadline) {
  ssh_set_blocking(session, 0);
  int answer = request();
  while (answer == SSH_AUTH_AGAIN && ssh_is_connected(session) != 0) {
    pollfd server{ssh_get_fd(session), POLLIN, 0};
    const int ready = ::poll(&server, 1, milliseconds_until(deadline));
    if (ready == 0 || (ready < 0 && errno != EINTR)) break;
    answer = request();
  }
  ssh_set_blocking(session, 1);
  return answer;
}

Result<Attempt> try_file(ssh_session session, const SshTarget& target, const std::string& path,
                         TimePoint deadline) {
  const auto key = read_key(path);
  if (!key) return Attempt::kRefused;
  PADDLE_TRY_STATUS(set_deadline(session, deadline));
  const auto request = [&] {
    return ssh_userauth_publickey(session, target.user.c_str(), key->get());
  };
  return outcome(session, answer_to(request, session, deadline));
}

// The public key of a key file, from the .pub file beside it if there is one, in base64; "" when
// there is none.
std::string public_key(const std::string& path) {
  ssh_key raw = nullptr;
  if (ssh_pki_import_pubkey_file((path + ".pub").c_str(), &raw) != SSH_OK &&
      ssh_pki_import_pubkey_file(path.c_str(), &raw) != SSH_OK) {
    const auto key = read_key(path);
    if (!key || ssh_pki_export_privkey_to_pubkey(key->get(), &raw) != SSH_OK) return "";
  }
  const KeyHandle key(raw);
  char* encoded = nullptr;
  if (ssh_pki_export_pubkey_base64(key.get(), &encoded) != SSH_OK) return "";
  std::string text = encoded;
  ssh_string_free_char(encoded);
  return text;
}

// The keys of ssh-agent that ssh would offer; nullopt: all.
std::optional<std::set<std::string>> wanted_of_agent(const SshTarget& target) {
  if (!target.identities_only) return std::nullopt;
  std::set<std::string> keys;
  for (const auto* list : {&target.identities, &target.default_identities}) {
    for (const std::string& path : *list) keys.insert(public_key(path));
  }
  return keys;
}

Result<Attempt> try_agent(ssh_session session, const SshTarget& target, TimePoint deadline,
                          std::vector<std::string>& tried) {
  if (target.agent.empty()) return Attempt::kRefused;
  if (!agent_answers(target.agent, std::min(deadline, SteadyClock().now() + kAgentPatience))) {
    tried.push_back(fmt::format("ssh-agent (no answer at {})", escape_control(target.agent)));
    return Attempt::kRefused;
  }
  PADDLE_TRY(const auto relay,
             SshAgentRelay::start(target.agent,
                                  std::min(deadline, SteadyClock().now() + kSignaturePatience),
                                  wanted_of_agent(target)));
  ssh_set_agent_socket(session, relay->release_socket());
  PADDLE_TRY_STATUS(set_deadline(session, deadline));
  const auto request = [&] { return ssh_userauth_agent(session, target.user.c_str()); };
  const int answer = answer_to(request, session, deadline);
  tried.emplace_back(relay->gave_up()
                         ? "ssh-agent (it lists keys, but sent no signature before the deadline)"
                     : target.identities_only ? "the keys of ssh-agent that IdentitiesOnly allows"
                                              : "the keys of ssh-agent");
  return outcome(session, answer);
}

// Tries the named keys, those of ssh-agent, then the default keys. `tried` collects them for an
// error message.
Result<Attempt> try_keys(ssh_session session, const SshTarget& target, TimePoint deadline,
                         std::vector<std::string>& tried) {
  for (const std::string& path : target.identities) {
    tried.push_back(described(path));
    PADDLE_TRY(const Attempt attempt, try_file(session, target, path, deadline));
    if (attempt != Attempt::kRefused) return attempt;
  }
  PADDLE_TRY(const Attempt attempt, try_agent(session, target, deadline, tried));
  if (attempt != Attempt::kRefused) return attempt;
  for (const std::string& path : target.default_identities) {
    const bool named = std::ranges::find(target.identities, path) != target.identities.end();
    if (named || ::access(path.c_str(), F_OK) != 0) continue;
    tried.push_back(described(path));
    PADDLE_TRY(const Attempt last, try_file(session, target, path, deadline));
    if (last != Attempt::kRefused) return last;
  }
  return Attempt::kRefused;
}

// Only a plain "Password:" asks for the password that other nodes may share; any other prompt gets
// an answer of its own.
bool is_password_prompt(std::string_view prompt, bool echo) {
  if (echo) return false;
  if (prompt.starts_with('(')) {  // OpenSSH puts "(user@host) " in front
    const auto close = prompt.find(") ");
    if (close != prompt.npos) prompt.remove_prefix(close + 2);
  }
  constexpr std::string_view kWord = "assword";
  if (prompt.size() <= kWord.size() || (prompt[0] != 'P' && prompt[0] != 'p')) return false;
  if (prompt.substr(1, kWord.size()) != kWord) return false;
  const std::string_view rest = prompt.substr(1 + kWord.size());
  return rest.starts_with(" for ") || rest.find_first_not_of(": ") == rest.npos;
}

struct Person {
  Login& login;
  LoginQuestion password;  // the question for the password

  LoginQuestion question(const char* prompt, bool echo) const {
    LoginQuestion asked = password;
    if (is_password_prompt(prompt, echo)) return asked;
    asked.prompt = prompt;
    asked.echo = echo;
    return asked;
  }
};

// Logs in by keyboard-interactive. Refused also when an answer is not known yet.
Result<Attempt> try_prompts(ssh_session session, const Person& person, TimePoint deadline) {
  Answer password, other;
  LoginQuestion last;
  for (int round = 0; round < kPromptRoundsMax; ++round) {
    PADDLE_TRY_STATUS(set_deadline(session, deadline));
    const int state = ssh_userauth_kbdint(session, person.password.user.c_str(), nullptr);
    if (state != SSH_AUTH_INFO) {
      PADDLE_TRY(const Attempt attempt, outcome(session, state));
      if (attempt != Attempt::kRefused) {
        if (password) person.login.answers().accepted(person.password, password);
        return attempt;
      }
      const bool right = password && person.login.answers().is_proven(person.password, password);
      if (other && (right || !password)) {
        person.login.refuse(last, other);
      } else if (password) {
        person.login.refuse(person.password, password);
      }
      return attempt;
    }
    const int prompts = ssh_userauth_kbdint_getnprompts(session);
    for (int i = 0; i < prompts; ++i) {
      char echo = 0;
      const char* const prompt =
          ssh_userauth_kbdint_getprompt(session, static_cast<unsigned>(i), &echo);
      const LoginQuestion question =
          person.question(prompt == nullptr || *prompt == '\0' ? "?" : prompt, echo != 0);
      const Answer answer = person.login.answer(question);
      if (!answer) return Attempt::kRefused;
      if (question.prompt.empty()) {
        password = answer;
      } else {
        other = answer;
        last = question;
      }
      if (ssh_userauth_kbdint_setanswer(session, static_cast<unsigned>(i), answer->reveal()) != 0)
        return Error{Errc::kResource, "libssh: out of memory", ""};
    }
  }
  return Error{Errc::kAuth,
               fmt::format("the server asked over {} rounds of questions", kPromptRoundsMax), ""};
}

Result<Attempt> try_password(ssh_session session, const Person& person, TimePoint deadline) {
  const Answer answer = person.login.answer(person.password);
  if (!answer) return Attempt::kRefused;
  PADDLE_TRY_STATUS(set_deadline(session, deadline));
  PADDLE_TRY(const Attempt attempt,
             outcome(session, ssh_userauth_password(session, person.password.user.c_str(),
                                                    answer->reveal())));
  if (attempt == Attempt::kRefused) {
    person.login.refuse(person.password, answer);
  } else {
    person.login.answers().accepted(person.password, answer);
  }
  return attempt;
}

// "publickey, password"; "" when the server has not listed any.
std::string describe_methods(int methods) {
  std::vector<const char*> names;
  const auto has = [methods](unsigned method) {
    return (static_cast<unsigned>(methods) & method) != 0;
  };
  if (has(SSH_AUTH_METHOD_PUBLICKEY)) names.push_back("publickey");
  if (has(SSH_AUTH_METHOD_PASSWORD)) names.push_back("password");
  if (has(SSH_AUTH_METHOD_INTERACTIVE)) names.push_back("keyboard-interactive");
  if (has(SSH_AUTH_METHOD_HOSTBASED)) names.push_back("hostbased");
  if (has(SSH_AUTH_METHOD_GSSAPI_MIC)) names.push_back("gssapi-with-mic");
  return fmt::format("{}", fmt::join(names, ", "));
}

// Counts the packets that a session sends while this object lives. It is made before the first
// request for a login: the first packet asks for the service, and each key that is offered is one
// more.
class SentPackets {
 public:
  explicit SentPackets(ssh_session session) : session_(session) {
    ssh_set_counters(session, nullptr, &packets_);
  }
  ~SentPackets() { ssh_set_counters(session_, nullptr, nullptr); }
  SentPackets(const SentPackets&) = delete;
  SentPackets& operator=(const SentPackets&) = delete;

  std::uint64_t requests() const { return std::max<std::uint64_t>(packets_.out_packets, 1) - 1; }

 private:
  ssh_session session_;
  ssh_counter_struct packets_{};
};

struct Attempts {
  const SentPackets& sent;
  std::vector<std::string> keys = {};  // the keys that were tried, for an error message
  bool key_accepted = false;           // but the server wants something else as well
};

// The error of a session that ended after `offered` keys. sshd ends a login after MaxAuthTries
// refusals, and often resets the connection before its reason is read. An end at the first key may
// have other reasons, such as a Banner that is too large, and libssh may then have sent a second
// one.
Error ended_by_keys(ssh_session session, Error error, std::uint64_t offered,
                    const std::vector<std::string>& tried) {
  constexpr std::uint64_t kKeysMin = 3;
  constexpr std::string_view kReason = "Too many authentication failures";
  const bool is_lost = error.code == Errc::kUnreachable && ssh_is_connected(session) == 0;
  if (!is_lost || (offered < kKeysMin && error.message.find(kReason) == std::string::npos))
    return error;
  return Error{Errc::kAuth,
               fmt::format("the server accepted none of {} keys, then ended the login "
                           "(MaxAuthTries); tried {}",
                           offered, fmt::join(tried, ", ")),
               "name the right key with `identity` in the cluster file, or set `IdentitiesOnly "
               "yes` and `IdentityFile` for that host in ~/.ssh/config"};
}

// Tries one method, unless the server is known not to accept it. Without a person only keys are
// tried.
Result<Attempt> try_method(ssh_session session, const SshTarget& target, const std::string& method,
                           const std::optional<Person>& person, TimePoint deadline,
                           Attempts& attempts) {
  const bool by_key = method == "publickey";
  const int bit = by_key                 ? SSH_AUTH_METHOD_PUBLICKEY
                  : method == "password" ? SSH_AUTH_METHOD_PASSWORD
                                         : SSH_AUTH_METHOD_INTERACTIVE;
  if (!by_key && !person) return Attempt::kRefused;
  if (!by_key && ssh_userauth_list(session, nullptr) == 0) {
    PADDLE_TRY_STATUS(set_deadline(session, deadline));
    PADDLE_TRY(const Attempt none,
               outcome(session, ssh_userauth_none(session, target.user.c_str())));
    if (none != Attempt::kRefused) return none;
  }
  const int allowed = ssh_userauth_list(session, nullptr);  // 0 before the first refusal
  if (allowed != 0 && (allowed & bit) == 0) return Attempt::kRefused;
  if (!by_key) {
    return method == "password" ? try_password(session, *person, deadline)
                                : try_prompts(session, *person, deadline);
  }
  attempts.keys.clear();  // from an earlier round
  const std::uint64_t before = attempts.sent.requests();
  auto attempt = try_keys(session, target, deadline, attempts.keys);
  if (!attempt) {
    return ended_by_keys(session, std::move(attempt).error(), attempts.sent.requests() - before,
                         attempts.keys);
  }
  attempts.key_accepted = attempts.key_accepted || *attempt == Attempt::kPartly;
  return attempt;
}

Error refused(ssh_session session, const SshTarget& target, const Attempts& attempts) {
  const bool keys_allowed = std::ranges::find(target.methods, "publickey") != target.methods.end();
  std::string text;
  if (attempts.key_accepted) {
    text = "the key is accepted, but the server requires another method";
  } else if (keys_allowed) {
    text = attempts.keys.empty() ? fmt::format("there is no key to try for user {}", target.user)
                                 : fmt::format("no key is accepted for user {}; tried {}",
                                               target.user, fmt::join(attempts.keys, ", "));
  } else {
    text = fmt::format("the login of user {} failed", target.user);
  }
  text += "; the server accepts " + describe_methods(ssh_userauth_list(session, nullptr));
  if (target.methods.size() < kLoginMethods.size()) {
    text +=
        fmt::format("; {} allows {}", target.config.file(),
                    target.methods.empty() ? "no method that paddlectl supports"
                                           : fmt::format("{}", fmt::join(target.methods, ", ")));
  }
  return Error{Errc::kAuth, text,
               keys_allowed ? "name the key with `identity`, load it with ssh-add, or install it "
                              "with ssh-copy-id"
                            : "allow keys in PubkeyAuthentication and PreferredAuthentications"};
}

}  // namespace

std::string known_name(const NodeSpec& node, const SshTarget& target) {
  const std::string& name = node.bastion > 0 ? target.asked_host : node.name;
  return name == target.host ? "" : name;
}

Status authenticate(ssh_session session, const SshTarget& target, const NodeSpec& node,
                    Login* login, TimePoint deadline) {
  const SentPackets sent(session);
  Attempts attempts{sent};
  std::optional<Person> person;
  if (login != nullptr) {
    person.emplace(Person{*login, LoginQuestion{target.user, target.label(), node.bastion > 0, "",
                                                false, known_name(node, target)}});
  }
  for (int i = 0; i < kMethodsMax; ++i) {
    Attempt attempt = Attempt::kRefused;
    for (const std::string& method : target.methods) {
      PADDLE_TRY(attempt, try_method(session, target, method, person, deadline, attempts));
      if (attempt != Attempt::kRefused || (login != nullptr && login->lacks_answer())) break;
    }
    if (attempt == Attempt::kAccepted) return {};
    if (attempt == Attempt::kRefused) break;
  }
  if (ssh_userauth_list(session, nullptr) == 0) {  // no method was tried: ask for the list
    PADDLE_TRY_STATUS(set_deadline(session, deadline));
    PADDLE_TRY(const Attempt none,
               outcome(session, ssh_userauth_none(session, target.user.c_str())));
    if (none == Attempt::kAccepted) return {};
  }
  return refused(session, target, attempts);
}

}  // namespace paddle::remote

#include "remote/launcher/ssh/login.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "remote/launcher/ssh/agent_relay.h"

namespace paddle::remote {
namespace {

constexpr Duration kAgentPatience = std::chrono::seconds(2);      // for its list of keys
constexpr Duration kSignaturePatience = std::chrono::seconds(8);  // someone may have to touch a key
constexpr const char* kNoAgent = "/dev/null";  // not a socket: libssh finds no agent
constexpr int kPromptRoundsMax = 16;           // of one keyboard-interactive login
constexpr int kPersonMethods = 2;  // a server may require keyboard-interactive and password

// Called only for an encrypted key: paddlectl asks for no passphrase, an agent can.
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
               "the log of its sshd says why; a Banner of over 256 KiB ends a connection too"};
}

Result<KeyHandle> read_key(const std::string& path) {
  bool asked = false;
  ssh_key raw = nullptr;
  if (ssh_pki_import_privkey_file(path.c_str(), nullptr, note_passphrase, &asked, &raw) == SSH_OK) {
    return KeyHandle(raw);
  }
  return Error{Errc::kAuth, asked ? "encrypted: add it to ssh-agent" : "not a readable key", ""};
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

Result<Attempt> try_file(ssh_session session, const std::string& path, TimePoint deadline) {
  const auto key = read_key(path);
  if (!key) return Attempt::kRefused;
  PADDLE_TRY_STATUS(set_deadline(session, deadline));
  return outcome(session, ssh_userauth_publickey(session, nullptr, key->get()));
}

// Tries every key of ssh-agent, every IdentityFile of the config, then the default keys. `tried`
// collects them for an error message.
Result<Attempt> try_all(ssh_session session, const SshTarget& target, TimePoint deadline,
                        std::vector<std::string>& tried) {
  std::unique_ptr<SshAgentRelay> relay;
  if (const char* const agent = std::getenv("SSH_AUTH_SOCK"); agent != nullptr && *agent != '\0') {
    if (agent_answers(agent, std::min(deadline, SteadyClock().now() + kAgentPatience))) {
      PADDLE_TRY(relay, SshAgentRelay::start(
                            agent, std::min(deadline, SteadyClock().now() + kSignaturePatience)));
      ssh_set_agent_socket(session, relay->release_socket());
    } else {
      tried.push_back(fmt::format("ssh-agent (no answer at {})", escape_control(agent)));
      ssh_options_set(session, SSH_OPTIONS_IDENTITY_AGENT, kNoAgent);
    }
  }
  PADDLE_TRY_STATUS(set_deadline(session, deadline));
  const int answer = ssh_userauth_publickey_auto(session, nullptr, nullptr);
  if (relay) {
    tried.emplace_back(relay->gave_up() ? "ssh-agent (it lists keys and signs with none)"
                                        : "the keys of ssh-agent");
  }
  if (::access((target.directory + "/config").c_str(), R_OK) == 0) {
    tried.push_back(fmt::format("every IdentityFile of {}/config", target.directory));
  }
  for (const char* name : {"/id_ed25519", "/id_ecdsa", "/id_rsa"}) {
    const std::string path = target.directory + name;
    if (path != target.identity && ::access(path.c_str(), F_OK) == 0) {
      tried.push_back(described(path));
    }
  }
  return outcome(session, answer);
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
  LoginQuestion password;  // the question for it

  LoginQuestion question(const char* prompt, bool echo) const {
    LoginQuestion asked = password;
    if (is_password_prompt(prompt, echo)) return asked;
    asked.prompt = prompt;
    asked.echo = echo;
    return asked;
  }
};

// Empty when an answer is not known yet.
Result<Attempt> try_prompts(ssh_session session, const Person& person, TimePoint deadline) {
  Answer password, other;
  LoginQuestion last;
  for (int round = 0; round < kPromptRoundsMax; ++round) {
    PADDLE_TRY_STATUS(set_deadline(session, deadline));
    const int state = ssh_userauth_kbdint(session, nullptr, nullptr);
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
  return Error{Errc::kAuth, fmt::format("over {} rounds of questions", kPromptRoundsMax), ""};
}

Result<Attempt> try_password(ssh_session session, const Person& person, TimePoint deadline) {
  const Answer answer = person.login.answer(person.password);
  if (!answer) return Attempt::kRefused;
  PADDLE_TRY_STATUS(set_deadline(session, deadline));
  PADDLE_TRY(const Attempt attempt,
             outcome(session, ssh_userauth_password(session, nullptr, answer->reveal())));
  if (attempt == Attempt::kRefused) {
    person.login.refuse(person.password, answer);
  } else {
    person.login.answers().accepted(person.password, answer);
  }
  return attempt;
}

// Keyboard-interactive comes first, as in ssh: it can ask for more than a password.
Result<Attempt> try_person(ssh_session session, const Person& person, TimePoint deadline) {
  const int methods = ssh_userauth_list(session, nullptr);
  if ((methods & SSH_AUTH_METHOD_INTERACTIVE) != 0) {
    PADDLE_TRY(const Attempt attempt, try_prompts(session, person, deadline));
    if (attempt != Attempt::kRefused || person.login.lacks_answer()) return attempt;
  }
  if ((methods & SSH_AUTH_METHOD_PASSWORD) == 0) return Attempt::kRefused;
  return try_password(session, person, deadline);
}

// "publickey, password"; "" when the server has not said.
std::string describe_methods(int methods) {
  std::vector<const char*> names;
  if ((methods & SSH_AUTH_METHOD_PUBLICKEY) != 0) names.push_back("publickey");
  if ((methods & SSH_AUTH_METHOD_PASSWORD) != 0) names.push_back("password");
  if ((methods & SSH_AUTH_METHOD_INTERACTIVE) != 0) names.push_back("keyboard-interactive");
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Status authenticate(ssh_session session, const SshTarget& target, bool bastion, Login* login,
                    TimePoint deadline) {
  std::vector<std::string> tried;
  Attempt attempt = Attempt::kRefused;
  if (!target.identity.empty()) {
    tried.push_back(described(target.identity));
    PADDLE_TRY(attempt, try_file(session, target.identity, deadline));
  }
  if (attempt == Attempt::kRefused) {
    PADDLE_TRY(attempt, try_all(session, target, deadline, tried));
  }
  if (attempt == Attempt::kAccepted) return {};
  const bool partly = attempt == Attempt::kPartly;
  if (ssh_userauth_list(session, nullptr) == 0) {  // the first refusal lists the server's methods
    PADDLE_TRY_STATUS(set_deadline(session, deadline));
    PADDLE_TRY(attempt, outcome(session, ssh_userauth_none(session, nullptr)));
    if (attempt == Attempt::kAccepted) return {};
  }
  const int methods = ssh_userauth_list(session, nullptr);
  for (int i = 0; login != nullptr && i < kPersonMethods; ++i) {
    const Person person{*login, {target.user, target.label(), bastion, "", false}};
    PADDLE_TRY(attempt, try_person(session, person, deadline));
    if (attempt == Attempt::kAccepted) return {};
    if (attempt == Attempt::kRefused) break;
  }
  const std::string keys =
      partly ? "a key is accepted, and more is wanted"
             : fmt::format("none of our keys is accepted for user {}; tried {}", target.user,
                           tried.empty() ? "none, for there is none"
                                         : fmt::format("{}", fmt::join(tried, ", ")));
  return Error{Errc::kAuth, fmt::format("{}; the server takes {}", keys, describe_methods(methods)),
               "name the key with `identity`, load it with ssh-add, or install it with "
               "ssh-copy-id"};
}

}  // namespace paddle::remote

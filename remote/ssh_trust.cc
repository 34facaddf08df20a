#include "remote/ssh_trust.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/text.h"

namespace paddle::remote {
namespace {

struct KeyFree {
  void operator()(ssh_key key) const { ssh_key_free(key); }
};
using KeyHandle = std::unique_ptr<ssh_key_struct, KeyFree>;

// "ED25519 SHA256:base64" as OpenSSH prints it, so that it can be compared by eye.
Result<std::string> server_fingerprint(ssh_session session) {
  ssh_key raw = nullptr;
  if (ssh_get_server_publickey(session, &raw) != SSH_OK) {
    return Error{Errc::kAuth, "the server showed no host key", ""};
  }
  const KeyHandle key(raw);
  unsigned char* hash = nullptr;
  std::size_t size = 0;
  if (ssh_get_publickey_hash(key.get(), SSH_PUBLICKEY_HASH_SHA256, &hash, &size) != 0) {
    return Error{Errc::kAuth, "the server's host key cannot be hashed", ""};
  }
  char* text = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, size);
  ssh_clean_pubkey_hash(&hash);
  if (text == nullptr) return Error{Errc::kAuth, "the server's host key cannot be printed", ""};
  std::string fingerprint =
      fmt::format("{} {}", ssh_key_type_to_char(ssh_key_type(key.get())), text);
  ssh_string_free_char(text);
  return fingerprint;
}

// Called only for an encrypted key: paddlectl asks for no passphrase, an agent can.
int note_passphrase(const char*, char*, std::size_t, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

enum class Attempt { kAccepted, kRefused };

Error lost(ssh_session session) {
  return Error{Errc::kUnreachable,
               fmt::format("connection lost while authenticating: {}",
                           escape_control(ssh_get_error(session))),
               ""};
}

// One offered key. `tried` collects what an error has to name.
Result<Attempt> try_file(ssh_session session, const std::string& path, TimePoint deadline,
                         std::vector<std::string>& tried) {
  bool asked = false;
  ssh_key raw = nullptr;
  if (ssh_pki_import_privkey_file(path.c_str(), nullptr, note_passphrase, &asked, &raw) != SSH_OK) {
    tried.push_back(path + (asked ? " (encrypted: add it to ssh-agent)" : " (not a readable key)"));
    return Attempt::kRefused;
  }
  const KeyHandle key(raw);
  tried.push_back(path);
  PADDLE_TRY_STATUS(set_deadline(session, deadline));
  const int answer = ssh_userauth_publickey(session, nullptr, key.get());
  if (answer == SSH_AUTH_SUCCESS) return Attempt::kAccepted;
  if (!ssh_is_connected(session)) return lost(session);
  if (answer == SSH_AUTH_AGAIN) return Error{Errc::kUnreachable, "deadline passed", ""};
  return Attempt::kRefused;
}

Result<Attempt> try_agent(ssh_session session, TimePoint deadline,
                          std::vector<std::string>& tried) {
  PADDLE_TRY_STATUS(set_deadline(session, deadline));
  const int answer = ssh_userauth_agent(session, nullptr);
  if (answer == SSH_AUTH_SUCCESS) return Attempt::kAccepted;
  if (!ssh_is_connected(session)) return lost(session);
  tried.push_back("the keys of ssh-agent, if one runs");
  return Attempt::kRefused;
}

}  // namespace

Status check_host_key(ssh_session session, const SshTarget& target) {
  const ssh_known_hosts_e state = ssh_session_is_known_server(session);
  if (state == SSH_KNOWN_HOSTS_OK) return {};
  PADDLE_TRY(const std::string fingerprint, server_fingerprint(session));
  switch (state) {
    case SSH_KNOWN_HOSTS_UNKNOWN:
    case SSH_KNOWN_HOSTS_NOT_FOUND:
      return Error{Errc::kAuth,
                   fmt::format("{} is not in {}; it shows the host key {}", target.label(),
                               target.known_hosts, fingerprint),
                   fmt::format("check it, then: ssh-keyscan -p {} {} >> {}", target.port,
                               target.host, target.known_hosts)};
    case SSH_KNOWN_HOSTS_CHANGED:
    case SSH_KNOWN_HOSTS_OTHER:
      return Error{
          Errc::kAuth,
          fmt::format("the host key of {} has changed: it shows {}, not the one in {}. Someone "
                      "may be listening in, or the machine was reinstalled",
                      target.label(), fingerprint, target.known_hosts),
          fmt::format("ask whoever runs it for the fingerprint; only if it is this one: "
                      "ssh-keygen -f {} -R \"[{}]:{}\"",
                      target.known_hosts, target.host, target.port)};
    default:
      return Error{Errc::kAuth,
                   fmt::format("the host key of {} ({}) cannot be checked: {}", target.label(),
                               fingerprint, ssh_get_error(session)),
                   fmt::format("is {} readable and well formed?", target.known_hosts)};
  }
}

Status authenticate(ssh_session session, const SshTarget& target, TimePoint deadline) {
  std::vector<std::string> tried;
  if (!target.identity.empty()) {
    PADDLE_TRY(const Attempt attempt, try_file(session, target.identity, deadline, tried));
    if (attempt == Attempt::kAccepted) return {};
  }
  PADDLE_TRY(const Attempt attempt, try_agent(session, deadline, tried));
  if (attempt == Attempt::kAccepted) return {};
  for (const char* name : {"/id_ed25519", "/id_ecdsa", "/id_rsa"}) {
    const std::string path = target.directory + name;
    if (path == target.identity || ::access(path.c_str(), F_OK) != 0) continue;
    PADDLE_TRY(const Attempt file, try_file(session, path, deadline, tried));
    if (file == Attempt::kAccepted) return {};
  }
  return Error{Errc::kAuth,
               fmt::format("none of our keys is accepted for user {}; tried {}", target.user,
                           fmt::join(tried, ", ")),
               "paddlectl logs in with keys only, never a password: name the key with `identity`, "
               "load it with ssh-add, or install it with ssh-copy-id"};
}

}  // namespace paddle::remote

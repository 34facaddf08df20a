#include "remote/launcher/ssh/host_key_check.h"

#include <sstream>
#include <string>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"

namespace paddle::remote {
namespace {

constexpr const char* kSystemKnownHosts = "/etc/ssh/ssh_known_hosts";

// The host's name in known_hosts: with the port only when it is not 22.
std::string known_name(const SshTarget& target) {
  return target.port == 22 ? target.host : fmt::format("[{}]:{}", target.host, target.port);
}

Result<KeyHandle> server_key(ssh_session session) {
  ssh_key raw = nullptr;
  if (ssh_get_server_publickey(session, &raw) == SSH_OK) return KeyHandle(raw);
  return Error{Errc::kAuth, "the server showed no host key", ""};
}

// "ssh-ed25519 SHA256:base64", in OpenSSH's format, so that it can be compared by eye.
Result<std::string> fingerprint_of(ssh_key key) {
  unsigned char* hash = nullptr;
  std::size_t size = 0;
  if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &size) != 0) {
    return Error{Errc::kAuth, "the server's host key cannot be hashed", ""};
  }
  char* text = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, size);
  ssh_clean_pubkey_hash(&hash);
  if (text == nullptr) return Error{Errc::kAuth, "the server's host key cannot be printed", ""};
  std::string fingerprint = fmt::format("{} {}", ssh_key_type_to_char(ssh_key_type(key)), text);
  ssh_string_free_char(text);
  return fingerprint;
}

// libssh ignores @revoked lines. Here a revoked key is refused for every host.
bool is_revoked(ssh_key key, const std::string& known_hosts) {
  const auto text = read_file(known_hosts, kKnownHostsBytesMax);
  char* encoded = nullptr;
  if (!text || ssh_pki_export_pubkey_base64(key, &encoded) != SSH_OK) return false;
  const std::string wanted = encoded;
  ssh_string_free_char(encoded);
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("@revoked") && line.find(wanted) != line.npos) return true;
  }
  return false;
}

}  // namespace

Result<std::string> host_fingerprint(ssh_session session) {
  PADDLE_TRY(const KeyHandle key, server_key(session));
  return fingerprint_of(key.get());
}

Result<bool> host_is_known(ssh_session session, const SshTarget& target) {
  const ssh_known_hosts_e state = ssh_session_is_known_server(session);
  PADDLE_TRY(const KeyHandle key, server_key(session));
  PADDLE_TRY(const std::string fingerprint, fingerprint_of(key.get()));
  for (const std::string& file : {target.known_hosts, std::string(kSystemKnownHosts)}) {
    if (!is_revoked(key.get(), file)) continue;
    return Error{Errc::kAuth,
                 fmt::format("{} shows the host key {}, which is revoked in {}", target.label(),
                             fingerprint, file),
                 "whoever runs the machine must give it a new host key"};
  }
  switch (state) {
    case SSH_KNOWN_HOSTS_OK:
      return true;
    case SSH_KNOWN_HOSTS_UNKNOWN:
    case SSH_KNOWN_HOSTS_NOT_FOUND:
      return false;
    case SSH_KNOWN_HOSTS_CHANGED:
    case SSH_KNOWN_HOSTS_OTHER:
      return Error{
          Errc::kAuth,
          fmt::format("the host key of {} has changed: it shows {}, not the one in {}. Someone "
                      "may be listening in, or the machine was reinstalled",
                      target.label(), fingerprint, target.known_hosts),
          fmt::format("ask whoever runs it for the fingerprint; only if it is this one: "
                      "ssh-keygen -f {} -R \"{}\"",
                      target.known_hosts, known_name(target))};
    default:
      return Error{Errc::kAuth,
                   fmt::format("the host key of {} ({}) cannot be checked: {}", target.label(),
                               fingerprint, escape_control(ssh_get_error(session))),
                   fmt::format("is {} readable and well formed?", target.known_hosts)};
  }
}

Status check_host_key(ssh_session session, const SshTarget& target) {
  PADDLE_TRY(const bool known, host_is_known(session, target));
  if (known) return {};
  PADDLE_TRY(const std::string fingerprint, host_fingerprint(session));
  return Error{Errc::kAuth,
               fmt::format("{} is not in {}; it shows the host key {}", target.label(),
                           target.known_hosts, fingerprint),
               "compare it with what the machine itself says, then: paddlectl trust --cluster "
               "<cluster file>"};
}

}  // namespace paddle::remote

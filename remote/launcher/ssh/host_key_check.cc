#include "remote/launcher/ssh/host_key_check.h"

#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/text.h"
#include "remote/launcher/ssh/tokens.h"

namespace paddle::remote {
namespace {

// As ssh has it: the user's, then those of the system.
std::vector<std::string> all_files(const SshTarget& target) {
  std::vector<std::string> files = target.known_hosts;
  files.insert(files.end(), target.system_known_hosts.begin(), target.system_known_hosts.end());
  return files;
}

// libssh takes one file of the user and one of the system, ssh several of each.
void look_only_in(ssh_session session, const std::string& file) {
  ssh_options_set(session, SSH_OPTIONS_KNOWNHOSTS, file.c_str());
  ssh_options_set(session, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null");
}

// The user's files that exist, or else the one that takes new keys.
std::string description(const SshTarget& target) {
  std::vector<std::string> files;
  for (const std::string& file : target.known_hosts) {
    if (::access(file.c_str(), F_OK) == 0) files.push_back(file);
  }
  return files.empty() ? target.known_hosts.front() : fmt::format("{}", fmt::join(files, ", "));
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
  char* encoded = nullptr;
  if (ssh_pki_export_pubkey_base64(key, &encoded) != SSH_OK) return false;
  const std::string wanted = encoded;
  ssh_string_free_char(encoded);
  std::ifstream lines(known_hosts);  // however long it is
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

void choose_known_hosts(ssh_session session, const SshTarget& target) {
  std::string chosen;
  for (const std::string& file : all_files(target)) {
    look_only_in(session, file);
    if (chosen.empty() && ssh_session_has_known_hosts_entry(session) == SSH_KNOWN_HOSTS_OK) {
      chosen = file;
    }
  }
  look_only_in(session, escape_tokens(chosen.empty() ? target.known_hosts.front() : chosen));
}

Result<bool> host_is_known(ssh_session session, const SshTarget& target) {
  PADDLE_TRY(const KeyHandle key, server_key(session));
  PADDLE_TRY(const std::string fingerprint, fingerprint_of(key.get()));
  ssh_known_hosts_e state = SSH_KNOWN_HOSTS_UNKNOWN;  // the first that is not, or OK of any file
  std::string where;
  for (const std::string& file : all_files(target)) {
    if (is_revoked(key.get(), file)) {
      return Error{Errc::kAuth,
                   fmt::format("{} shows the host key {}, which is revoked in {}", target.label(),
                               fingerprint, file),
                   "whoever runs the machine must give it a new host key"};
    }
    look_only_in(session, file);
    const ssh_known_hosts_e here = ssh_session_is_known_server(session);
    if (here == SSH_KNOWN_HOSTS_UNKNOWN || here == SSH_KNOWN_HOSTS_NOT_FOUND) continue;
    if (here != SSH_KNOWN_HOSTS_OK && state != SSH_KNOWN_HOSTS_UNKNOWN) continue;
    state = here;
    where = file;
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
                      target.label(), fingerprint, where),
          fmt::format("ask whoever runs it for the fingerprint; only if it is this one: "
                      "ssh-keygen -f {} -R \"{}\"",
                      where, target.known_name())};
    default:
      return Error{Errc::kAuth,
                   fmt::format("the host key of {} ({}) cannot be checked: {}", target.label(),
                               fingerprint, escape_control(ssh_get_error(session))),
                   fmt::format("check that {} is readable and well formed", where)};
  }
}

Status check_host_key(ssh_session session, const SshTarget& target) {
  PADDLE_TRY(const bool known, host_is_known(session, target));
  if (known) return {};
  PADDLE_TRY(const std::string fingerprint, host_fingerprint(session));
  return Error{Errc::kAuth,
               fmt::format("{} is not in {}; it shows the host key {}", target.label(),
                           description(target), fingerprint),
               "compare it with what the machine itself says, then: paddlectl trust --cluster "
               "<cluster file>"};
}

}  // namespace paddle::remote

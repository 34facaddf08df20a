#include "remote/launcher/host_key_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace paddle::remote {
namespace {

// Reads the user's files, then those of the system, in ssh's order. The key of the cluster file or
// of its provider stands for all of them.
KnownHosts known_hosts_of(const SshTarget& target) {
  KnownHosts known({target.known_name(), target.known_name_without_port()});
  if (!target.host_key.empty()) {
    known.add(fmt::format("{} {}\n", target.known_name(), target.host_key), "host_key of the node");
    return known;
  }
  for (const auto* const files : {&target.known_hosts, &target.system_known_hosts}) {
    for (const std::string& file : *files) known.read(file);
  }
  return known;
}

// Names the user's files that exist, or else the file to which new keys are added.
std::string description(const SshTarget& target) {
  std::vector<std::string> files;
  for (const std::string& file : target.known_hosts) {
    if (::access(file.c_str(), F_OK) == 0) files.push_back(file);
  }
  return files.empty() ? target.known_hosts.front() : fmt::format("{}", fmt::join(files, ", "));
}

// True for a file such as /dev/null, to which `paddlectl trust` adds no key.
bool is_no_regular_file(const std::string& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

Result<KeyHandle> server_key(ssh_session session) {
  ssh_key raw = nullptr;
  if (ssh_get_server_publickey(session, &raw) == SSH_OK) return KeyHandle(raw);
  return Error{Errc::kAuth, "the server sent no host key", ""};
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

Result<std::string> encoded(ssh_key key) {
  char* text = nullptr;
  if (ssh_pki_export_pubkey_base64(key, &text) != SSH_OK)
    return Error{Errc::kAuth, "the server's host key cannot be encoded", ""};
  std::string base64 = text;
  ssh_string_free_char(text);
  return base64;
}

// The host key algorithms that libssh supports and that are not outdated.
constexpr std::array<std::string_view, 6> kHostKeyAlgorithms{
    "ssh-ed25519",         "ecdsa-sha2-nistp521", "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp256", "rsa-sha2-512",        "rsa-sha2-256"};

bool makes(std::string_view algorithm, std::string_view type) {
  return algorithm == type || (type == "ssh-rsa" && algorithm.starts_with("rsa-sha2-"));
}

}  // namespace

Result<std::string> host_fingerprint(ssh_session session) {
  PADDLE_TRY(const KeyHandle key, server_key(session));
  return fingerprint_of(key.get());
}

Status prefer_known_keys(ssh_session session, const SshTarget& target) {
  // This program reads the files itself: libssh understands fewer of their lines than ssh does.
  ssh_options_set(session, SSH_OPTIONS_KNOWNHOSTS, "/dev/null");
  ssh_options_set(session, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null");
  const std::vector<std::string> types = known_hosts_of(target).types();
  std::vector<std::string> algorithms(kHostKeyAlgorithms.begin(), kHostKeyAlgorithms.end());
  const bool configured = target.config.is_set("hostkeyalgorithms");
  if (configured) {
    algorithms.clear();
    std::istringstream list(target.config.value("hostkeyalgorithms"));
    for (std::string one; std::getline(list, one, ',');) algorithms.push_back(one);
  }
  std::stable_partition(algorithms.begin(), algorithms.end(), [&](const std::string& algorithm) {
    return std::ranges::any_of(types, [&](const auto& type) { return makes(algorithm, type); });
  });
  const std::string text = fmt::format("{}", fmt::join(algorithms, ","));
  if (ssh_options_set(session, SSH_OPTIONS_HOSTKEYS, text.c_str()) == SSH_OK || !configured)
    return {};
  return target.config.refusal("hostkeyalgorithms", target.config.value("hostkeyalgorithms"),
                               "none of them is supported");
}

Result<HostKeyVerdict> judge_host_key(ssh_session session, const SshTarget& target) {
  PADDLE_TRY(const KeyHandle key, server_key(session));
  PADDLE_TRY(const std::string fingerprint, fingerprint_of(key.get()));
  PADDLE_TRY(const std::string text, encoded(key.get()));
  HostKeyVerdict verdict = known_hosts_of(target).check(text);
  if (!target.host_key.empty() && verdict.state != HostKeyState::kKnown) {
    return Error{
        Errc::kAuth,
        fmt::format("{} shows the host key {}, not the `host_key` of its node. An attacker "
                    "may intercept the connection, or the machine was reinstalled",
                    target.label(), fingerprint),
        "compare it with the key on the machine's console; only if it matches, correct "
        "`host_key` where it comes from: the cluster file, or its provider"};
  }
  if (verdict.state == HostKeyState::kRevoked) {
    return Error{Errc::kAuth,
                 fmt::format("{} shows the host key {}, which is revoked in {}", target.label(),
                             fingerprint, verdict.place),
                 "the administrator of the machine must give it a new host key"};
  }
  if (verdict.state != HostKeyState::kChanged) return verdict;
  const std::string file = verdict.place.substr(0, verdict.place.rfind(':'));
  return Error{
      Errc::kAuth,
      fmt::format("the host key of {} has changed: it shows {}, not the one in {}. An "
                  "attacker may intercept the connection, or the machine was reinstalled",
                  target.label(), fingerprint, verdict.place),
      fmt::format("ask the administrator of the machine for the fingerprint; only if it matches: "
                  "ssh-keygen -f {} -R \"{}\"",
                  file, target.known_name())};
}

Result<std::string> known_hosts_line(ssh_session session, const SshTarget& target) {
  PADDLE_TRY(const KeyHandle key, server_key(session));
  PADDLE_TRY(const std::string text, encoded(key.get()));
  return fmt::format("{} {} {}", target.known_name(), ssh_key_type_to_char(ssh_key_type(key.get())),
                     text);
}

Status check_host_key(ssh_session session, const SshTarget& target) {
  PADDLE_TRY(const HostKeyVerdict verdict, judge_host_key(session, target));
  if (verdict.state == HostKeyState::kKnown) return {};
  PADDLE_TRY(const std::string fingerprint, host_fingerprint(session));
  std::string message = fmt::format("{} is not in {}; it shows the host key {}", target.label(),
                                    description(target), fingerprint);
  const KnownHosts known = known_hosts_of(target);
  for (const std::string& unread : known.unread()) {
    message += fmt::format(" ({} cannot be read)", unread);
  }
  std::string hint =
      "compare it with the key that the machine itself shows, then run: paddlectl trust --cluster "
      "<cluster file>";
  if (const std::string& file = target.known_hosts.front(); is_no_regular_file(file)) {
    hint = fmt::format(
        "{} keeps no keys: set `known_hosts` in the cluster file, such as "
        "~/.ssh/known_hosts; then {}",
        file, hint);
  }
  if (!verdict.authority.empty()) {
    message += fmt::format(
        "; the @cert-authority of {} is for host certificates, which paddlectl "
        "does not support",
        verdict.authority);
    hint += fmt::format(
        "; or let ssh check the certificate: launcher = [\"ssh\", \"-o\", "
        "\"BatchMode=yes\", \"{}\"]",
        target.host);
  }
  return Error{Errc::kAuth, std::move(message), std::move(hint)};
}

}  // namespace paddle::remote

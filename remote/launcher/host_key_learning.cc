#include "remote/launcher/host_key_learning.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/fd.h"
#include "remote/launcher/host_key_check.h"
#include "remote/launcher/ssh_config.h"
#include "remote/launcher/ssh_session.h"
#include "remote/launcher/ssh_tokens.h"

namespace paddle::remote {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKnownHostsBytesMax = 16U << 20U;
constexpr std::size_t kSaltBytes = 20;  // the size of a SHA-1, as in OpenSSH's hostfile.c
constexpr std::string_view kHashedPrefix = "|1|";
// Keys are added only to files with this in their names: a config from another person may name a
// file in which the line would have a meaning to another program, as in authorized_keys.
constexpr std::string_view kNameOfFiles = "known_hosts";

// "|1|salt|HMAC-SHA1(salt, name)", both base64 (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).
Result<std::string> hashed_name(std::string_view name) {
  std::array<unsigned char, kSaltBytes> salt;
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  unsigned size = 0;
  if (RAND_bytes(salt.data(), static_cast<int>(salt.size())) != 1 ||
      HMAC(EVP_sha1(), salt.data(), static_cast<int>(salt.size()),
           reinterpret_cast<const unsigned char*>(name.data()), name.size(), hash.data(),
           &size) == nullptr) {
    return Error{Errc::kFailed, "hashing a host name failed", ""};
  }
  return fmt::format("{}{}|{}", kHashedPrefix, base64(salt), base64(std::span(hash).first(size)));
}

// Locks the folder, so that two paddlectl do not lose each other's line.
Result<UniqueFd> lock_folder(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::flock(fd.get(), LOCK_EX) != 0) return system_error(Errc::kResource, folder);
  return fd;
}

// Resolves `name` if it is a link. kUsage when the file is not named like a known_hosts file.
Result<std::string> file_for_keys(const std::string& name) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(name, error);
  std::string path = error ? name : real.string();
  if (fs::path(path).filename().string().find(kNameOfFiles) != std::string::npos) return path;
  return Error{
      Errc::kUsage,
      fmt::format("its key would be added to {}, but paddlectl adds keys only to files with "
                  "\"{}\" in their names",
                  path, kNameOfFiles),
      "name another as `known_hosts` in the cluster file, or add the key with "
      "ssh-keyscan if that file is right"};
}

// The config in a folder from another person may give that person's machine any alias. Such an
// alias may be added to the known_hosts of the same folder, but not to the user's own.
Status check_alias(const NodeSpec& node, const ShownHostKey& key) {
  if (key.alias.empty() || node.ssh_directory.empty()) return {};
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(expand_home(node.ssh_directory), error);
  if (!error && fs::path(key.known_hosts).parent_path() == folder) return {};
  return Error{
      Errc::kUsage,
      fmt::format("{}/config sets its HostKeyAlias to {}, and paddlectl writes such an alias "
                  "only to a known_hosts file in that folder",
                  node.ssh_directory, key.alias),
      "remove HostKeyAlias there, or add the key with ssh-keyscan"};
}

}  // namespace

Result<ShownHostKey> ask_host_key(const NodeSpec& node, TimePoint deadline, Login* login) {
  PADDLE_TRY(const auto unverified, shake_hands(node, deadline, login).with(node.name));
  const ssh_session session = unverified.connection.session.get();
  ShownHostKey key;
  key.label = unverified.target.label();
  key.known_hosts = unverified.target.known_hosts.front();
  PADDLE_TRY(key.fingerprint, host_fingerprint(session));
  PADDLE_TRY(const HostKeyVerdict verdict,
             judge_host_key(session, unverified.target).with(node.name));
  key.known = verdict.state == HostKeyState::kKnown;
  key.alias = unverified.target.key_alias;
  if (!key.known) {
    PADDLE_TRY(key.known_hosts, file_for_keys(key.known_hosts).with(node.name));
    PADDLE_TRY_STATUS(check_alias(node, key).with(node.name));
  }
  PADDLE_TRY(key.line, known_hosts_line(session, unverified.target).with(key.label));
  return key;
}

Status add_host_key(const ShownHostKey& key) {
  std::error_code error;
  PADDLE_TRY(const std::string path, file_for_keys(key.known_hosts));
  const std::string folder = fs::path(path).parent_path().string();
  if (!fs::exists(folder, error)) {
    fs::create_directories(folder, error);
    if (error) return Error{Errc::kResource, fmt::format("{}: {}", folder, error.message()), ""};
    ::chmod(folder.c_str(), 0700);
  }
  PADDLE_TRY(const UniqueFd lock, lock_folder(folder));
  std::string text;
  struct stat status {};
  unsigned mode = 0600;
  if (::stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) {
      return Error{Errc::kUsage, path + " is not a regular file: host keys cannot be stored there",
                   "name a regular file as `known_hosts` in the cluster file"};
    }
    mode = status.st_mode & 0777U;
    PADDLE_TRY(text, read_file(path, kKnownHostsBytesMax));
  }
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  const bool hash = text.starts_with(kHashedPrefix) ||
                    text.find("\n" + std::string(kHashedPrefix)) != std::string::npos;
  const std::size_t space = key.line.find(' ');
  std::string name = key.line.substr(0, space);
  if (hash) {
    PADDLE_TRY(name, hashed_name(name));
  }
  text += name + key.line.substr(std::min(space, key.line.size())) + "\n";
  return replace_file(path, as_bytes(text), mode);
}

Result<std::vector<NodeSpec>> path_to(const NodeSpec& node) {
  std::vector<NodeSpec> path = {node};
  for (;;) {
    PADDLE_TRY(const std::string jumps, jumps_to(path.front()));
    if (jumps.empty()) return path;
    PADDLE_TRY(NodeSpec bastion, bastion_of(path.front(), jumps));
    path.insert(path.begin(), std::move(bastion));
  }
}

}  // namespace paddle::remote

#include "remote/launcher/ssh_config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

namespace paddle::remote {
namespace {

constexpr long kMicrosecondsPerSecond = 1000000;
// libssh's default ciphers, with AES-GCM last although it is the cheapest: an old libssh does not
// check its tags correctly (CVE-2026-59847), and the version alone does not show whether a package
// contains the fix.
constexpr const char* kCiphers =
    "chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,"
    "aes128-gcm@openssh.com,aes256-gcm@openssh.com";
// libssh's default key exchanges, the cheapest for the CPU first: sshd computes curve25519 with
// code of its own that takes 2 ms, but P-256 with libcrypto.
constexpr const char* kKeyExchanges =
    "ecdh-sha2-nistp256,curve25519-sha256,curve25519-sha256@libssh.org,"
    "ecdh-sha2-nistp384,ecdh-sha2-nistp521,diffie-hellman-group18-sha512,"
    "diffie-hellman-group16-sha512,diffie-hellman-group-exchange-sha256,"
    "diffie-hellman-group14-sha256";

Status set_option(ssh_session session, ssh_options_e option, const void* value) {
  if (ssh_options_set(session, option, value) == SSH_OK) return {};
  return Error{Errc::kUsage, fmt::format("libssh: {}", ssh_get_error(session)), ""};
}

// Sets the algorithms of the configuration or, where it has none, our own choice or libssh's
// default.
Status apply_algorithms(ssh_session session, const OpensshConfig& config) {
  struct Option {
    const char* name;
    std::vector<ssh_options_e> options;
    const char* ours;  // nullptr: libssh's default
  };
  const Option options[] = {
      {"ciphers", {SSH_OPTIONS_CIPHERS_C_S, SSH_OPTIONS_CIPHERS_S_C}, kCiphers},
      {"macs", {SSH_OPTIONS_HMAC_C_S, SSH_OPTIONS_HMAC_S_C}, nullptr},
      {"kexalgorithms", {SSH_OPTIONS_KEY_EXCHANGE}, kKeyExchanges},
      {"pubkeyacceptedalgorithms", {SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES}, nullptr},
      {"compression", {SSH_OPTIONS_COMPRESSION}, nullptr},
  };
  for (const Option& option : options) {
    const bool set = config.is_set(option.name);
    const std::string value = set ? config.value(option.name) : option.ours ? option.ours : "";
    for (const ssh_options_e one : option.options) {
      if (value.empty() || ssh_options_set(session, one, value.c_str()) == SSH_OK) continue;
      return config.refusal(option.name, value, "none of them is supported");
    }
  }
  if (config.is_set("rekeylimit")) {
    std::istringstream limits(config.value("rekeylimit"));
    std::uint64_t bytes = 0;
    std::uint32_t seconds = 0;
    limits >> bytes >> seconds;
    PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_REKEY_DATA, &bytes));
    PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_REKEY_TIME, &seconds));
  }
  if (config.is_set("requiredrsasize")) {
    const int bits = std::atoi(config.value("requiredrsasize").c_str());
    PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_RSA_MIN_SIZE, &bits));
  }
  return {};
}

}  // namespace

void SshSessionFree::operator()(ssh_session session) const {
  const int fd = ssh_get_fd(session);  // -1 once libssh has closed it
  struct stat before {
  }, after{};
  // Not fstat(): ThreadSanitizer would report it for the number that another thread has got.
  const auto describe = [fd](struct stat& into) {
    return ::fstatat(fd, "", &into, AT_EMPTY_PATH) == 0;
  };
  const bool was_open = describe(before);
  ssh_silent_disconnect(session);
  ssh_free(session);
  // libssh before 0.11.4 closes a socket that was handed to it, and later ones leave it open.
  // Another thread may have got the number since, for another file.
  const bool is_open = was_open && describe(after);
  if (is_open && before.st_dev == after.st_dev && before.st_ino == after.st_ino) ::close(fd);
}

std::string base64(std::span<const unsigned char> bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  text.resize(
      static_cast<std::size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                               bytes.data(), static_cast<int>(bytes.size()))));
  return text;
}

Status apply_options(ssh_session session, const SshTarget& target) {
  const int off = 0;
  const int on = 1;
  // Otherwise ssh_connect would read the configuration files by its own rules.
  const bool process_config = false;
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_PROCESS_CONFIG, &process_config));
  // libssh only requires some name: this program, or the ProxyCommand that it starts, makes the
  // connection, and this program reads known_hosts.
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_HOST, "localhost"));
  // Every login names its user (ssh_login.cc): some releases of libssh refuse "CORP\alice" as an
  // option.
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_USER, "user"));
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_NODELAY, &on));
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_GSSAPI_AUTH, &off));
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_STRICTHOSTKEYCHECK, &on));
  return apply_algorithms(session, target.config);
}

Status set_deadline(ssh_session session, TimePoint deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::microseconds>(deadline - SteadyClock().now());
  if (left.count() <= 0) return Error{Errc::kUnreachable, "deadline passed", ""};
  const long seconds = static_cast<long>(left.count() / kMicrosecondsPerSecond);
  const long microseconds = static_cast<long>(left.count() % kMicrosecondsPerSecond);
  PADDLE_TRY_STATUS(set_option(session, SSH_OPTIONS_TIMEOUT, &seconds));
  return set_option(session, SSH_OPTIONS_TIMEOUT_USEC, &microseconds);
}

}  // namespace paddle::remote

// A real sshd on a loopback address for one test: own host key, own user key, own known_hosts, own
// folder.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {

// Runs a program found by absolute path, stdout and stderr to a file, and waits: its exit code, -1
// when it was killed.
Result<int> run_program(const std::vector<std::string>& arguments,
                        const std::string& output = "/dev/null");
// ssh-keygen: an ed25519 key at `path` and `path`.pub.
Status make_key(const std::string& path, const std::string& passphrase = "");

// How a user proves who they are.
enum class SshdLogin { kKey, kPassword, kKeyboard, kKeyAndPassword };

class Sshd {
 public:
  // Why no sshd can run here ("sshd is not installed"), or "".
  static std::string missing();
  // Returns once it listens. Logs in the current user with identity().
  static Result<std::unique_ptr<Sshd>> start(const std::string& address) {
    return start(address, SshdLogin::kKey);
  }
  // With kPassword instead of the key, or with both. Only this sshd knows the password: it runs in
  // a mount namespace with an /etc/shadow and an /etc/pam.d/sshd of its own.
  // options: more lines for sshd_config, as "Banner=/some/file".
  static Result<std::unique_ptr<Sshd>> start(const std::string& address, SshdLogin login,
                                             const std::vector<std::string>& options = {});
  static constexpr const char* kPassword = "correct horse battery";
  // Why no sshd of ours can take a password here ("only root ..."), or "".
  static std::string missing_for_passwords();
  ~Sshd();  // ends the server and its sessions, and waits for it

  const std::string& address() const { return address_; }
  std::uint16_t port() const { return port_; }
  std::string identity() const { return folder_.path() + "/user_key"; }
  std::string known_hosts() const { return folder_.path() + "/known_hosts"; }
  std::string folder() const { return folder_.path(); }
  // Waits until sshd has logged `text`, or a deadline; returns the log either way.
  std::string log_with(std::string_view text);

  // kill -9 (or another signal) for every process that serves a connection, not for what they run.
  void signal_sessions(int signal);
  // As a machine that hangs: its kernel still takes connections and bytes, and nobody answers.
  void freeze();
  void thaw();

 private:
  Sshd(std::string address, SshdLogin login) : address_(std::move(address)), login_(login) {}
  Status spawn();
  std::vector<std::string> login_options() const;
  Status write_accounts() const;
  Status write_known_hosts();
  Status wait_listening();
  void drain();

  TemporaryFolder folder_;
  std::string address_;
  SshdLogin login_;
  std::vector<std::string> options_;
  std::uint16_t port_ = 0;
  pid_t pid_ = -1;
  UniqueFd log_fd_;
  std::mutex mutex_;
  std::condition_variable log_grew_;
  std::string log_;  // guarded by mutex_
  std::thread drain_;
};

}  // namespace paddle::test

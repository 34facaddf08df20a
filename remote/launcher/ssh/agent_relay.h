// A deadline for libssh's conversation with ssh-agent.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace paddle::remote {

// True when the agent at the socket answers a request for its list of keys.
bool agent_answers(const std::string& path, TimePoint deadline);

// Relays requests of libssh and answers of the agent until the deadline, then hangs up.
class SshAgentRelay {
 public:
  // With `only`, public keys in base64, libssh is told of no other key of the agent.
  static Result<std::unique_ptr<SshAgentRelay>> start(const std::string& path, TimePoint deadline,
                                                      std::optional<std::set<std::string>> only);
  ~SshAgentRelay();  // hangs up on both
  SshAgentRelay(const SshAgentRelay&) = delete;
  SshAgentRelay& operator=(const SshAgentRelay&) = delete;

  // For ssh_set_agent_socket, which takes ownership.
  int release_socket() { return of_libssh_.release(); }
  // True when the deadline passed while the agent owed an answer.
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

}  // namespace paddle::remote

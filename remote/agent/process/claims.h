// Claims of jobs and ports, each held by one paddlectl until its connection ends or it releases
// them. A claim of a job says which command is at work on it and whose, and keeps others out as far
// as proto/command_order.h has it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "proto/agent.pb.h"
#include "proto/command_order.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

constexpr std::size_t kPortsClaimedMax = 256;  // each takes a descriptor; more are not locked

class Claims {
 public:
  explicit Claims(const Root& root) : root_(root) {}
  ~Claims() { release(); }
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  // Claims a job, in place of an earlier claim of this session on it. Returns those that are in the
  // way, and changes nothing then; if one refuses it, after up to `wait`, since a session whose
  // connection broke ends soon. kUsage where `fresh` or `idle` refuse it, kFailed where
  // the claim that this session had was revoked, kResource when it cannot be written.
  Result<std::vector<wire::agent::JobClaim>> take(const wire::agent::ClaimRequest& request,
                                                  Duration wait);
  // Whether this session may start processes of the job, and give them keys.
  bool may_start(const std::string& job) const;
  // kFailed, with who revoked it, when this session's claim of the job was revoked.
  Status check(const std::string& job) const;
  // Does `work`, which starts processes of the job, unless this session's claim was revoked. Where
  // it is revoked meanwhile, `undo` ends what was started: whoever revoked it may have looked for
  // the job's processes before these were there.
  Status start(const std::string& job, const std::function<Status()>& work,
               const std::function<void()>& undo) const;
  // The command that revoked this session's claim: "paddlectl stop --now of alice@laptop, pid 12".
  std::string revoker(const std::string& job) const;
  // "paddlectl stop of alice@laptop, pid 12"; "" without a claim of this session.
  std::string holder(const std::string& job) const;
  // Which other session of this user on this machine, of any root, has the port: "paddlectl-agent,
  // pid 12"; "": none, and now this one has it.
  Result<std::string> port(const std::string& address, std::uint32_t port);
  // Also wipes the keys of a job of which nothing runs here, and removes its folder if it is empty.
  void release(const std::string& job);
  void release();  // all jobs and ports

 private:
  struct Held {
    std::string name;  // of the file
    UniqueFd file;     // with the lock
    wire::agent::JobClaim claim;
  };

  const Root& root_;
  std::map<std::string, Held> jobs_;
  std::map<std::string, UniqueFd> ports_;  // sockets bound to names that are unique on the machine
};

// Of all sessions, this one included.
std::vector<wire::agent::JobClaim> claims_of(const Root& root, const std::string& job);
// Whether one of these starts processes of the job.
bool has_starter(const std::vector<wire::agent::JobClaim>& claims);

// After the end of a process: wipes the job's keys if it was the last one. A session that starts
// the job meanwhile needs them, and does this itself when it releases the job.
void wipe_unneeded_keys(const Root& root, const std::string& job);

}  // namespace paddle::agent

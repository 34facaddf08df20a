// Claims of jobs and ports. A paddlectl holds a claim until it releases it or its connection ends.
// The claim of a job names the command that is working on the job and its user, and excludes other
// commands as proto/command_order.h defines.
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
#include "remote/agent/node/root.h"

namespace paddle::agent {

constexpr std::size_t kPortsClaimedMax = 256;  // each needs a descriptor; more are not locked

class Claims {
 public:
  explicit Claims(const Root& root) : root_(root) {}
  ~Claims() { release(); }
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  // Claims a job; replaces an earlier claim of this session on it. Returns the claims of other
  // sessions that are in conflict with the request, and changes nothing then. If one of them
  // refuses the command (Order::kRefuse), waits up to `wait` for its end before that, since a
  // session whose connection broke ends soon. kUsage where `fresh` or `idle` forbids the claim,
  // kFailed where the earlier claim of this session was revoked and the command starts processes,
  // kResource when the claim cannot be written.
  Result<std::vector<wire::agent::JobClaim>> claim(const wire::agent::ClaimRequest& request,
                                                   Duration wait);
  // Whether this session may start processes of the job and write their keys.
  bool may_start(const std::string& job) const;
  // kFailed, with the revoking command, when this session's claim of the job was revoked.
  Status check(const std::string& job) const;
  // Calls `work`, which starts processes of the job, unless this session's claim was revoked. If it
  // is revoked meanwhile, calls `undo`, which ends these processes: the revoking command may have
  // listed the job's processes before they started.
  Status start(const std::string& job, const std::function<Status()>& work,
               const std::function<void()>& undo) const;
  // The command that revoked this session's claim: "paddlectl stop --now of alice@laptop, pid 12".
  std::string revoker(const std::string& job) const;
  // The command of this session's claim: "paddlectl stop of alice@laptop, pid 12"; "" without a
  // claim.
  std::string holder(const std::string& job) const;
  // Whether this session follows the job, or has no claim on it: what it stops is the rest of a job
  // that has failed or is done.
  bool follows(const std::string& job) const;
  // Claims the port for this session. Returns the other session of this user on this machine, under
  // any root, that has claimed it: "paddlectl-agent, pid 12"; "": no other session has.
  Result<std::string> port(const std::string& address, std::uint32_t port);
  // Releases the claim of the job. If the claim's command starts processes, also wipes the keys of
  // a job without running processes here, and removes the job's folder if it is empty.
  void release(const std::string& job);
  void release();  // all jobs and ports

 private:
  struct Held {
    std::string name;  // name of the claim's file
    UniqueFd file;     // the claim's file, locked
    wire::agent::JobClaim claim;
  };

  const Root& root_;
  std::map<std::string, Held> jobs_;
  std::map<std::string, UniqueFd> ports_;  // sockets bound to names that are unique on the machine
};

// The claims of all sessions on the job, this session included.
std::vector<wire::agent::JobClaim> claims_of(const Root& root, const std::string& job);
// Whether the command of one of these claims starts processes of the job.
bool has_starter(const std::vector<wire::agent::JobClaim>& claims);

// Call after the end of a process: wipes the job's keys if no process of the job runs any more.
// Does nothing while a session that starts processes claims the job: it needs the keys, and wipes
// them when it releases the job.
void wipe_unneeded_keys(const Root& root, const std::string& job);

}  // namespace paddle::agent

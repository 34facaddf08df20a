// Exclusive locks on a job's name and ports, held by one paddlectl until its connection ends or it
// releases them.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

constexpr std::size_t kPortsClaimedMax = 256;  // each takes a descriptor; more are not locked

class Claims {
 public:
  explicit Claims(const Root& root) : root_(root) {}
  ~Claims() { release(); }
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  // Replaces an earlier claim of a job. Waits up to `wait` for another session to release it, since
  // one whose connection broke ends soon. kUsage when it stays claimed, or when the job has
  // processes here; `again` allows processes that have ended.
  Status job(const std::string& name, bool again, Duration wait);
  // The same whatever processes the job has.
  Status lock(const std::string& name, Duration wait);
  bool has(const std::string& job) const { return job_ && name_ == job; }
  // False when another session on this machine, of any user and root, has the port.
  Result<bool> port(const std::string& address, std::uint32_t port);
  // Also wipes the keys of a job of which nothing runs here, and removes its folder if it is empty.
  void release();

 private:
  void release_job();

  const Root& root_;
  std::string name_;
  UniqueFd job_;                           // a lock on the file jobs/<job>/claim
  std::map<std::string, UniqueFd> ports_;  // sockets bound to names that are unique on the machine
};

// Whether any session, this one included, has the job on this node.
bool is_claimed(const Root& root, const std::string& job);

// After the end of a process: wipes the job's keys if it was the last one. A session that starts
// the job meanwhile needs them, and does this itself when it releases the job.
void wipe_unneeded_keys(const Root& root, const std::string& job, Duration wait);

}  // namespace paddle::agent

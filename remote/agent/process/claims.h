// What a paddlectl that starts a job has for itself: until its session ends or lets go.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

constexpr std::size_t kPortsClaimedMax =
    256;  // each takes a descriptor; any more are only looked at

class Claims {
 public:
  explicit Claims(const Root& root) : root_(root) {}
  ~Claims() { release(); }
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  // In place of the job claimed before. Another session gets `wait` to let go: one that was broken
  // off ends soon. kUsage when it does not, or when the job has processes here already; `again`
  // allows those that have ended.
  Status job(const std::string& name, bool again, Duration wait);
  bool has(const std::string& job) const { return job_ && name_ == job; }
  // False: another session of this machine, of whatever user and root, has the port.
  Result<bool> port(const std::string& address, std::uint32_t port);
  // Of a job that has no process here its key goes too, and its folder when nothing is in there.
  void release();

 private:
  void release_job();

  const Root& root_;
  std::string name_;
  UniqueFd job_;                           // a lock on the file jobs/<job>/claim
  std::map<std::string, UniqueFd> ports_;  // sockets whose names the kernel gives but once
};

}  // namespace paddle::agent

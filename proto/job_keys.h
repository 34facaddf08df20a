// The keys of a job's processes, one for each pair that talks. All are derived from the job's
// secret (PROTOCOL.md, "Keys"), and a process is given its own only: no other can pass for it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "proto/frame.h"

namespace paddle {

class JobKeys {
 public:
  // Of every pair.
  static JobKeys of_job(const Secret& secret);
  // A key file: 32 bytes are the job's secret, anything else what encode_keys() made. kAuth.
  static Result<JobKeys> read(const std::string& key_file);
  static Result<JobKeys> decode(ByteSpan file);

  // The key of a client and the server that it calls. kAuth when this process is neither of them.
  Result<Secret> pair(NodeId client, NodeId server) const;

 private:
  struct OneProcess {
    NodeId self;
    std::vector<std::pair<NodeId, Secret>> keys;  // by server; one's own serves all clients
  };
  std::optional<Secret> job_;
  std::optional<OneProcess> process_;
};

// The key file of a process that serves, or calls `servers`, or both.
Bytes encode_keys(const Secret& job, NodeId self, bool serves, std::span<const NodeId> servers);

}  // namespace paddle

// The results that were fetched from a node: a record beside the job on that node, from which
// teardown and rm know, on any machine, what would be lost.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/cluster/cluster_session.h"

namespace paddle::cli {

struct FetchRecord {
  std::int64_t started_unix_ms = 0;            // latest_start() at the time of the fetch
  std::map<std::string, std::uint64_t> sizes;  // by path below output/
};

// When the last of the job's processes on that node started; 0: it has none. A start after the
// fetch makes the record void, for files may have changed since.
std::int64_t latest_start(const std::vector<ProcessOnNode>& processes, std::size_t member,
                          const std::string& job);

// Empty where nothing was fetched, or before `started_unix_ms`.
FetchRecord read_fetch_record(remote::AgentClient& client, const std::string& job,
                              std::int64_t started_unix_ms);
// Written through a file in the local folder.
Status write_fetch_record(remote::AgentClient& client, const std::string& job,
                          const FetchRecord& record, const std::string& folder);

}  // namespace paddle::cli

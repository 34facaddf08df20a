// The last known state of a cluster as JSON texts with versions, so that a viewer gets only what it
// lacks.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cli/console/json.h"
#include "cli/dashboard/live.h"

namespace paddle::cli {

// A job's JSON, key by key.
struct JobState {
  std::string job;
  Json::Fields fields;
};

// Thread-safe; no call waits for anything but another call.
class LiveStore {
 public:
  struct Look {
    Json cluster;                    // the data of the event "cluster"
    std::vector<JobState> jobs;      // the jobs that viewers look at; others are forgotten
    std::vector<std::string> known;  // all jobs
    bool sees_all = false;           // every node has answered: no other job exists
    std::string metrics;             // in Prometheus' text format
  };
  // Makes a new version. A key keeps its version while its text stays the same.
  void publish(Look look);

  // See Live::since().
  LiveUpdate since(const std::string& job, std::uint64_t seen) const;
  std::string metrics() const;

 private:
  struct Key {
    std::string name, text;
    std::uint64_t version = 0;  // of its last change
  };
  std::string job_event(const std::vector<Key>& keys, std::uint64_t seen) const;

  mutable std::mutex mutex_;
  std::uint64_t version_ = 0;
  std::string cluster_;
  std::map<std::string, std::vector<Key>> jobs_;
  std::set<std::string> known_;
  std::map<std::string, std::uint64_t> gone_;  // jobs that were known, by the version without them
  std::uint64_t complete_ = 0;                 // the first version that saw every node
  std::string metrics_;
};

}  // namespace paddle::cli

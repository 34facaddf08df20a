// The live state of a cluster's jobs, as the dashboard shows it. The dashboard's HTTP service asks
// for it, and does not know where it comes from; LiveCluster reads it from the nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

// The difference between two versions of the state.
struct LiveUpdate {
  // The version after the update. Versions start at 1 and grow; 0 is the state before the first
  // look at the nodes, which has no events.
  std::uint64_t version = 0;
  // Name and data of each event, in the order to send them: "cluster", "job" or "gone". The data
  // is one JSON object without line breaks. None if nothing has changed.
  std::vector<std::pair<std::string, std::string>> events;
};

// A part of what a process printed.
struct LogPart {
  std::uint64_t offset = 0;  // of the first byte of `text`, from the log's begin
  std::uint64_t next = 0;    // offset to ask for next
  std::uint64_t size = 0;    // of the whole log, in bytes, as far as known
  // Whole lines as the process wrote them, at most 256 KiB; may contain any byte.
  std::string text;
};

enum class Change { kStop, kStopNow, kRestart };

// Any thread may call the functions; none waits for a node. The function `done` of log() and
// change() is called once, on another thread or before the call returns, and not under a lock that
// another function of this class needs.
class Live {
 public:
  virtual ~Live() = default;

  // The events that a viewer with version `seen` of the cluster and of `job` lacks. With `seen` 0,
  // or a version that is too old or never was: everything. `job` "": only the cluster. A job that
  // no node knows gives an event "gone". A call also says that a viewer is there, so that the nodes
  // are looked at often.
  virtual LiveUpdate since(const std::string& job, std::uint64_t seen) = 0;

  // `call` is called after each new version, on any thread and not under a lock. It replaces the
  // earlier one; an empty function ends the calls, and on return no call is in progress.
  virtual void on_change(std::function<void()> call) = 0;

  // A part of the log of a process ("trainer-0") of a job, from byte `offset` on; without an
  // offset the last 64 KiB. kUsage: the job or the process is unknown. kUnreachable: its node does
  // not answer. log() and change(): kResource: there are too many requests at once.
  virtual void log(const std::string& job, const std::string& process,
                   std::optional<std::uint64_t> offset,
                   std::function<void(Result<LogPart>)> done) = 0;

  // Stops a job, or restarts a process of it. `process` is empty but for kRestart. Gives a sentence
  // that says what was done. kUsage: the job or the process is unknown. kFailed: the change makes
  // no sense in its state, or failed. kUnreachable: a node does not answer.
  virtual void change(const std::string& job, const std::string& process, Change change,
                      std::function<void(Result<std::string>)> done) = 0;

  // The state of all jobs in Prometheus' text format, as of the last look.
  virtual std::string metrics() = 0;
};

}  // namespace paddle::cli

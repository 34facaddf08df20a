// What is on disk about a process: jobs/<job>/proc/<name>/{spec,pid,exit}. It outlives all of us.
#pragma once

#include <optional>
#include <vector>

#include "proto/agent.pb.h"
#include "remote/agent/machine/proc.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// In the environment of every process we start, and so of its children: "<root>:<job>/<name>".
constexpr const char* kProcessVariable = "PADDLECTL_PROCESS";
std::string process_mark(const Root& root, const std::string& job, const std::string& name);

struct Record {
  wire::agent::ProcessSpec spec;
  wire::agent::PidRecord pid;
  std::optional<wire::agent::ExitRecord> exit;
};

Status write_record(const Root& root, const SafePath& folder, const char* file,
                    const google::protobuf::MessageLite& message);
// Lives that processes of this name have had in the job.
std::uint32_t lives_of(const Root& root, const SafePath& folder);
bool has_record(const Root& root, const SafePath& folder, const char* file);
void remove_record(const Root& root, const SafePath& folder, const char* file);

// Nothing for a process that never started.
std::optional<Record> read_record(const Root& root, const std::string& job,
                                  const std::string& name);
// All records of a job, or of all jobs when job is empty. Unreadable ones are skipped.
Result<std::vector<Record>> read_records(const Root& root, const std::string& job);

wire::agent::ProcessStatus status_of(const Root& root, Record record);
bool supervisor_alive(const Record& record);
// The process and its descendants, without the supervisor.
std::vector<ProcStat> members_of(const Root& root, const std::vector<Record>& records);
std::vector<ProcStat> supervisors_of(const std::vector<Record>& records);

}  // namespace paddle::agent

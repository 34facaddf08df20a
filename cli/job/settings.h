// The settings with which a job was started. They are stored with the job, in
// jobs/<job>/settings.jsonl on its nodes and in its output folder here. `train --resume` continues
// with them and prints what differs. A node may be taken over, so what only nodes have is taken
// with care.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/job/run_record.h"
#include "cli/job/workspace.h"

namespace paddle::cli {

constexpr const char* kSettingsFile = "settings.jsonl";
// The same as a node sent it, in an output folder on a machine that did not start the job. It is
// only shown: `train --resume` reads the other one.
constexpr const char* kSettingsOfNode = "settings.jsonl.of-node";
constexpr std::size_t kSettingsBytesMax = 16U << 20U;

struct JobSettings {
  // Greater than the number of each earlier run of the job: this machine's clock in milliseconds,
  // unless an earlier run has a later one.
  std::uint64_t run = 0;
  std::string workspace;               // absolute, on the machine that started the job
  std::string configuration;           // the text of its job.toml
  std::vector<std::string> overrides;  // --set
  std::uint32_t trainers = 0;
  std::uint32_t pservers = 0;
  std::string gpus;  // --gpus
  std::string on;    // --on
  std::string from;  // --from, as typed
  std::uint32_t restarts = 0;
  std::optional<std::uint32_t> stall_restarts_after;
  std::vector<std::string> variables;  // the names in --env; values stay on the nodes
  // Hash of the content of each file of [data] train in the workspace, by name.
  std::map<std::string, std::string> data;
  RunRecord record;  // tags, note, git commit

  bool operator==(const JobSettings&) const = default;
};

// The settings as lines of JSON.
std::string encode(const JobSettings& settings);
// Nothing if the text has no line of kind "start". Lines of unknown kinds are ignored.
std::optional<JobSettings> decode_settings(std::string_view text);
// Keys and values of a job.toml, after --set; empty if it cannot be read, which the engine or
// check_job() reports.
std::map<std::string, std::string> flat_settings(const std::string& configuration,
                                                 const std::vector<std::string>& overrides);

// The tags, the note and the git commit that a node has of the job's last run.
RunRecord record_on_node(remote::AgentClient& client, const std::string& job);

// Both lists in one; for a key in both, the value in `later` is used.
std::vector<std::string> merged_overrides(const std::vector<std::string>& earlier,
                                          const std::vector<std::string>& later);

// A setting that differs between two runs; "" means that it is not set.
struct SettingChange {
  std::string key;  // "train.batch_size", "--trainers", "workspace", or a data file's name
  std::string before, now;
  bool is_content = false;  // for a data file; before and now are hashes
};
std::vector<SettingChange> changes_between(const JobSettings& before, const JobSettings& now);
// "train.batch_size 128 -> 512"
std::string describe(const SettingChange& change);

// The changes that are not allowed within a pass, because a record's place in the data depends on
// these settings.
std::vector<SettingChange> changes_of_order(const std::vector<SettingChange>& changes);

// The keys of --set with which `now` names a program that `before` does not name.
std::set<std::string> new_programs(const std::vector<std::string>& before,
                                   const std::vector<std::string>& now);

// The settings that are kept in the job's output folder here; nothing if there are none. kAuth:
// other users could have written them.
Result<std::optional<JobSettings>> read_settings(const std::string& folder);
// The settings of a run after that of `here`, which a paddlectl on another machine has started. All
// nodes that had the job since then must have the same bytes, so that no single node decides what
// the others run. kFailed: they disagree. The workspace is that of `here`, so that no node chooses
// which folder of this machine is pushed.
Result<std::optional<JobSettings>> later_settings(ClusterSession& session,
                                                  const ClusterSpec& cluster,
                                                  const std::string& job,
                                                  const std::optional<JobSettings>& here);
// Writes the settings, and `job_toml`, the resolved one that the nodes get, into the folder.
Status write_settings(const std::string& folder, const JobSettings& settings,
                      const std::string& job_toml);

// The hashes for JobSettings::data, with a cache that is kept between runs.
Result<std::map<std::string, std::string>> contents_of_data(const Context& context,
                                                            const Workspace& workspace);

// The settings of a job whose record is lost, as far as its processes on the nodes and its job.toml
// there show them. That job.toml has the values of --set, so `overrides` is empty.
std::optional<JobSettings> settings_of_processes(ClusterSession& session, const std::string& job);

// A variable that --env gave the job's processes.
struct NodeVariable {
  std::string value;
  std::string node;   // the name of a node that has it
  std::string other;  // of a node that has another value, or none; "": all agree
};
// These variables by name, from the specifications on the job's nodes. Those of runs before `since`
// are left out.
std::map<std::string, NodeVariable> variables_on_nodes(ClusterSession& session,
                                                       const std::string& job, std::uint64_t since);

}  // namespace paddle::cli

// The settings that a job was started with. They lie with the job, as jobs/<job>/settings.jsonl on
// its nodes and in its output folder here: `train --resume` goes on with it, and says what differs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/workspace/workspace.h"

namespace paddle::cli {

constexpr const char* kSettingsFile = "settings.jsonl";

struct JobSettings {
  // Greater than that of each run of the job before: the clock here in milliseconds, where no run
  // before has a later one.
  std::uint64_t run = 0;
  std::string workspace;               // absolute, on the machine that started it
  std::string configuration;           // the text of its job.toml
  std::vector<std::string> overrides;  // --set
  std::uint32_t trainers = 0;
  std::uint32_t pservers = 0;
  std::string gpus;  // --gpus
  std::string on;    // --on
  std::uint32_t restarts = 0;
  std::optional<std::uint32_t> stall_restarts_after;
  std::vector<std::string> variables;  // the names of --env; values stay on the nodes
  // Hashes of the content of each file of [data] train in the workspace.
  std::map<std::string, std::string> data;

  bool operator==(const JobSettings&) const = default;
};

// Lines of JSON.
std::string encode(const JobSettings& settings);
// Nothing for text without the line of a start. Lines of no known kind do not count.
std::optional<JobSettings> decode_settings(std::string_view text);

// job.toml with the values of --set in it; without any, its own text.
std::string resolved_configuration(const JobSettings& settings);

// `later` in front: a key that both have is set as there.
std::vector<std::string> merged_overrides(const std::vector<std::string>& earlier,
                                          const std::vector<std::string>& later);

// A setting that is another one than before; "" stands for none.
struct SettingChange {
  std::string key;  // "train.batch_size", "--trainers", "workspace", or a data file's name
  std::string before, now;
  bool is_content = false;  // of a data file: before and now are hashes
};
std::vector<SettingChange> changes_between(const JobSettings& before, const JobSettings& now);
// "train.batch_size 128 -> 512"
std::string describe(const SettingChange& change);

// Those of a setting that may not change within a pass: a record's place in the data rests on it.
std::vector<SettingChange> changes_of_order(const std::vector<SettingChange>& changes);

// The newest record of the job on its nodes and in its output folder here. Only the latter names
// the workspace: a node cannot choose which folder of this machine is pushed.
std::optional<JobSettings> read_settings(ClusterSession& session, const std::string& job,
                                         const std::string& folder);
Status write_settings(const std::string& folder, const JobSettings& settings);

// As JobSettings::data: hashes that are kept between runs.
Result<std::map<std::string, std::string>> contents_of_data(const Context& context,
                                                            const Workspace& workspace);

// The settings as far as the job's processes on its nodes show them, where it was started by a
// paddlectl that kept no record.
std::optional<JobSettings> settings_of_processes(ClusterSession& session, const std::string& job);

// The variables that --env gave the job's processes, from the specifications on its nodes.
std::map<std::string, std::string> variables_on_nodes(ClusterSession& session,
                                                      const std::string& job);

}  // namespace paddle::cli

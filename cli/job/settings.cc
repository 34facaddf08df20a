#include "cli/job/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "cli/cluster/selection.h"
#include "cli/console/json.h"
#include "cli/job/folders.h"
#include "engine/config/toml_reader.h"
#include "proto/agent.pb.h"
#include "remote/client/push_source.h"
#include "remote/launcher/trusted_file.h"

namespace paddle::cli {
namespace {

constexpr std::uint32_t kRunRecordBytesMax = 64U << 10U;  // the beginning of the settings has it
constexpr std::size_t kSpecBytesMax = 4U << 20U;
constexpr std::size_t kFilesNamedMax = 10000;  // more files become one entry

class Fields {
 public:
  explicit Fields(std::vector<JsonField> fields) : fields_(std::move(fields)) {}

  std::string text(std::string_view key) const {
    const auto* const value = find<std::string>(key);
    return value == nullptr ? "" : *value;
  }
  std::optional<std::uint32_t> count(std::string_view key) const {
    const auto* const value = find<double>(key);
    if (value == nullptr || !(*value >= 0 && *value <= 1e9)) return std::nullopt;
    return static_cast<std::uint32_t>(*value);
  }
  std::uint64_t time(std::string_view key) const {
    const auto* const value = find<double>(key);
    return value == nullptr || !(*value > 0 && *value < 1e15) ? 0
                                                              : static_cast<std::uint64_t>(*value);
  }

 private:
  template <class Value>
  const Value* find(std::string_view key) const {
    const auto found = std::ranges::find(fields_, key, &JsonField::key);
    return found == fields_.end() ? nullptr : std::get_if<Value>(&found->value);
  }

  std::vector<JsonField> fields_;
};

void take_line(const Fields& line, JobSettings& settings, bool& has_start) {
  const std::string kind = line.text("kind");
  if (kind == "start") {
    has_start = true;
    settings.run = line.time("run");
    settings.workspace = line.text("workspace");
    settings.trainers = line.count("trainers").value_or(0);
    settings.pservers = line.count("pservers").value_or(0);
    settings.gpus = line.text("gpus");
    settings.on = line.text("on");
    settings.from = line.text("from");
    settings.restarts = line.count("restarts").value_or(0);
    settings.stall_restarts_after = line.count("stall_restarts_after");
    settings.record = run_record_of([&](std::string_view key) { return line.text(key); });
  } else if (kind == "set") {
    settings.overrides.push_back(line.text("value"));
  } else if (kind == "variable") {
    // Any other name would be an option of its own in the hint of an error.
    if (is_variable_name(line.text("name"))) settings.variables.push_back(line.text("name"));
  } else if (kind == "data") {
    settings.data[line.text("name")] = line.text("content");
  } else if (kind == "job.toml") {
    settings.configuration += line.text("text");
  }
}

std::string key_of(const std::string& override_text) {
  std::string key = override_text.substr(0, override_text.find('='));
  std::erase(key, ' ');
  return key;
}

std::map<std::string, std::string> flat_settings(const JobSettings& settings) {
  return cli::flat_settings(settings.configuration, settings.overrides);
}

std::string count_text(std::uint32_t count) {
  return fmt::format("{}", count);
}

// The nodes' records of the job's processes, without those of runs before `since`. All others
// count: leave_out_former_runs() would let a node that claims the latest run hide the other nodes.
std::vector<ProcessOnNode> records_since(ClusterSession& session, const std::string& job,
                                         std::uint64_t since) {
  std::vector<ProcessOnNode> records = session.all_records(job);
  std::erase_if(records, [&](const ProcessOnNode& process) { return process.status.run < since; });
  return records;
}

// The settings that a node has of a job's last run.
struct Claim {
  std::size_t node = 0;  // index in ClusterSpec::nodes
  std::string text;
};

// kFailed, with the names of the nodes: some claims differ from `text`.
Status check_agreed(const ClusterSpec& cluster, const std::string& job, const std::string& text,
                    const std::vector<Claim>& claims) {
  std::set<std::size_t> same, others;
  for (const Claim& claim : claims) (claim.text == text ? same : others).insert(claim.node);
  if (others.empty()) return {};
  const std::string here = on_text(cluster, {same.begin(), same.end()});
  const std::string there = on_text(cluster, {others.begin(), others.end()});
  return Error{Errc::kFailed,
               fmt::format("nodes disagree on the settings of the last run of job {}: those of {} "
                           "differ from those of {}",
                           job, here, there),
               fmt::format("name nodes that you trust: paddlectl train --resume --name {0} --on "
                           "{1}, if somebody resumed the job there; else --on {2}",
                           job, here, there)};
}

// Whether both start the job with the same options; only its files may differ.
bool has_same_options(const JobSettings& a, const JobSettings& b) {
  const auto options = [](const JobSettings& one) {
    return std::tie(one.overrides, one.trainers, one.pservers, one.gpus, one.on, one.restarts,
                    one.stall_restarts_after, one.variables);
  };
  return options(a) == options(b);
}

// The variables of --env in a process's specification; nothing if that cannot be read.
std::optional<std::map<std::string, std::string>> typed_variables(remote::AgentClient& client,
                                                                  const std::string& job,
                                                                  const std::string& process) {
  const auto text = client.read_whole_file(fmt::format("{}/proc/{}/spec", job_folder(job), process),
                                           kSpecBytesMax);
  wire::agent::ProcessSpec spec;
  if (!text || !spec.ParseFromString(*text)) return std::nullopt;
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : spec.environment()) {
    const auto source = spec.sources().find(name);
    const bool is_typed =
        source != spec.sources().end() && source->second == wire::agent::VARIABLE_FROM_COMMAND_LINE;
    if (is_typed && is_variable_name(name)) variables.emplace(name, value);
  }
  return variables;
}

}  // namespace

std::string encode(const JobSettings& settings) {
  std::string text;
  const auto add = [&text](const Json::Fields& fields) {
    text += Json::object(fields).text() + "\n";
  };
  Json::Fields start{{"kind", "start"},
                     {"run", settings.run},
                     {"workspace", settings.workspace},
                     {"trainers", settings.trainers},
                     {"pservers", settings.pservers},
                     {"gpus", settings.gpus},
                     {"on", settings.on},
                     {"from", settings.from},
                     {"restarts", settings.restarts},
                     {"stall_restarts_after", settings.stall_restarts_after}};
  std::ranges::move(fields_of(settings.record), std::back_inserter(start));
  add(start);
  for (const std::string& one : settings.overrides) add({{"kind", "set"}, {"value", one}});
  for (const std::string& name : settings.variables) add({{"kind", "variable"}, {"name", name}});
  for (const auto& [name, content] : settings.data)
    add({{"kind", "data"}, {"name", name}, {"content", content}});
  add({{"kind", "job.toml"}, {"text", settings.configuration}});
  return text;
}

std::optional<JobSettings> decode_settings(std::string_view text) {
  JobSettings settings;
  bool has_start = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    auto fields = read_flat_object(text.substr(begin, end - begin));
    begin = end + 1;
    if (fields) take_line(Fields(*std::move(fields)), settings, has_start);
  }
  if (!has_start) return std::nullopt;
  return settings;
}

RunRecord record_on_node(remote::AgentClient& client, const std::string& job) {
  const auto text = client.read_file(job_folder(job) + "/" + kSettingsFile, 0, kRunRecordBytesMax);
  if (!text) return {};
  return decode_settings(text->data).value_or(JobSettings()).record;
}

std::map<std::string, std::string> flat_settings(const std::string& configuration,
                                                 const std::vector<std::string>& overrides) {
  auto table = config::TomlTable::parse(configuration, "job.toml", overrides);
  return table ? table->settings() : std::map<std::string, std::string>();
}

std::vector<std::string> merged_overrides(const std::vector<std::string>& earlier,
                                          const std::vector<std::string>& later) {
  std::vector<std::string> merged;
  for (const std::string& one : earlier) {
    if (std::ranges::find(later, key_of(one), key_of) == later.end()) merged.push_back(one);
  }
  merged.insert(merged.end(), later.begin(), later.end());
  return merged;
}

std::vector<SettingChange> changes_between(const JobSettings& before, const JobSettings& now) {
  std::vector<SettingChange> changes;
  const auto compare = [&](const std::string& key, const std::string& was, const std::string& is) {
    if (was != is) changes.push_back({key, was, is});
  };
  const auto compare_all = [&](const auto& were, const auto& are, bool is_content) {
    for (const auto& [key, value] : were) {
      const auto found = are.find(key);
      if (found == are.end() || found->second != value)
        changes.push_back({key, value, found == are.end() ? "" : found->second, is_content});
    }
    for (const auto& [key, value] : are) {
      if (!were.contains(key)) changes.push_back({key, "", value, is_content});
    }
  };
  compare_all(flat_settings(before), flat_settings(now), false);
  compare("--trainers", count_text(before.trainers), count_text(now.trainers));
  compare("--pservers", count_text(before.pservers), count_text(now.pservers));
  compare("--gpus", before.gpus, now.gpus);
  compare("--on", before.on, now.on);
  compare("--from", before.from, now.from);
  compare("--restarts", count_text(before.restarts), count_text(now.restarts));
  const auto stall = [](const JobSettings& settings) {
    return settings.stall_restarts_after ? count_text(*settings.stall_restarts_after) : "";
  };
  compare("--stall-restarts-after", stall(before), stall(now));
  for (const std::string& name : now.variables) {
    if (std::ranges::find(before.variables, name) == before.variables.end())
      changes.push_back({"--env " + name, "", "set"});
  }
  if (!before.workspace.empty()) compare("workspace", before.workspace, now.workspace);
  if (!before.data.empty() && before.trainers == now.trainers)
    compare_all(before.data, now.data, true);
  return changes;
}

std::string describe(const SettingChange& change) {
  if (change.is_content) {
    return fmt::format("{} {}", change.key,
                       change.before.empty() ? "is new"
                       : change.now.empty()  ? "was removed"
                                             : "has different content");
  }
  const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
  return fmt::format("{} {} -> {}", change.key, shown(change.before), shown(change.now));
}

std::vector<SettingChange> changes_of_order(const std::vector<SettingChange>& changes) {
  // The value beside a key is the one in use if job.toml lacks the key.
  constexpr auto kKeys = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"seed", "1"},
       {"train.shuffle_records", "0"},
       {"data.files_at_once", "1"},
       {"data.global_shuffle", "false"},
       {"--trainers", ""}});
  std::vector<SettingChange> found;
  for (const SettingChange& change : changes) {
    if (change.is_content) found.push_back(change);
    const auto key =
        std::ranges::find(kKeys, change.key, [](const auto& one) { return one.first; });
    if (change.is_content || key == kKeys.end()) continue;
    SettingChange full = change;
    if (full.before.empty()) full.before = key->second;
    if (full.now.empty()) full.now = key->second;
    if (full.before != full.now) found.push_back(std::move(full));
  }
  return found;
}

std::set<std::string> new_programs(const std::vector<std::string>& before,
                                   const std::vector<std::string>& now) {
  constexpr auto kPrograms =
      std::to_array<std::string_view>({"trainer.command", "trainer.setup", "trainer.requirements",
                                       "data.command", "data.pipe_command", "notify.command"});
  JobSettings earlier, later;
  earlier.overrides = before;
  later.overrides = now;
  std::set<std::string> keys;
  for (const SettingChange& change : changes_between(earlier, later)) {
    const bool is_program = std::ranges::find(kPrograms, change.key) != kPrograms.end();
    if (is_program && !change.now.empty()) keys.insert(change.key);
  }
  return keys;
}

Result<std::optional<JobSettings>> read_settings(const std::string& folder) {
  const std::string path = folder + "/" + kSettingsFile;
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
    return std::optional<JobSettings>();
  PADDLE_TRY(const std::string text, remote::read_trusted_file(path, kSettingsBytesMax));
  return decode_settings(text);
}

Result<std::optional<JobSettings>> later_settings(ClusterSession& session,
                                                  const ClusterSpec& cluster,
                                                  const std::string& job,
                                                  const std::optional<JobSettings>& here) {
  const std::uint64_t since = here ? here->run : 0;
  std::vector<std::string> texts(session.members().size());
  (void)session.each([&](Member& member) -> Status {
    const std::string path = job_folder(job) + "/" + kSettingsFile;
    texts[session.index_of(member)] =
        member.client->read_whole_file(path, kSettingsBytesMax).value_or("");
    return {};
  });
  const auto records = records_since(session, job, since);
  std::optional<JobSettings> latest;
  std::string text;
  std::vector<Claim> claims;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto found = decode_settings(texts[i]);
    const bool has_record = std::ranges::find(records, i, &ProcessOnNode::member) != records.end();
    if (found ? found->run >= since : has_record)
      claims.push_back({session.members()[i].node, found ? texts[i] : ""});
    if (!found || (here && found->run <= since) || (latest && found->run <= latest->run)) continue;
    latest = std::move(found);
    text = texts[i];
  }
  if (!latest) return latest;
  latest->workspace = here ? here->workspace : "";
  Status agreed = check_agreed(cluster, job, text, claims);
  if (agreed) return latest;
  if (here && has_same_options(*here, *latest)) return std::optional<JobSettings>();
  return std::move(agreed).error();
}

Status write_settings(const std::string& folder, const JobSettings& settings,
                      const std::string& job_toml) {
  const std::string text = encode(settings);
  PADDLE_TRY_STATUS(replace_file(folder + "/" + kSettingsFile, as_bytes(text), 0600));
  return replace_file(folder + "/job.toml", as_bytes(job_toml), 0644);
}

Result<std::map<std::string, std::string>> contents_of_data(const Context& context,
                                                            const Workspace& workspace) {
  std::set<std::string> names;
  for (const auto& files : workspace.trainer_data) names.insert(files.begin(), files.end());
  std::vector<remote::PushItem> items;
  for (const std::string& name : names) items.push_back({workspace.path + "/" + name, name});
  remote::PushSource source(context.hash_cache);
  PADDLE_TRY(const auto files, source.describe(items));
  (void)source.save();  // the push reports a cache that cannot be written
  std::map<std::string, std::string> contents;
  Sha256 all;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string id = to_hex(files[i]->content.id);
    all.update(as_bytes(id));
    contents.emplace(items[i].remote_path, id);
  }
  if (contents.size() <= kFilesNamedMax) return contents;
  return std::map<std::string, std::string>{
      {fmt::format("the {} data files", contents.size()), to_hex(all.finish())}};
}

std::optional<JobSettings> settings_of_processes(ClusterSession& session, const std::string& job) {
  const auto records = session.all_records(job);
  if (records.empty()) return std::nullopt;
  JobSettings settings;
  for (const auto& [member, status] : records) {
    settings.run = std::max(settings.run, status.run);
    settings.trainers = std::max(settings.trainers, status.trainers);
    settings.pservers = std::max(settings.pservers, status.pservers);
    settings.restarts = std::max(settings.restarts, status.restarts_allowed);
    remote::AgentClient* const client = session.members()[member].client.get();
    if (client == nullptr || !settings.configuration.empty()) continue;
    settings.configuration =
        client->read_whole_file(workspace_folder(job) + "/job.toml", kSettingsBytesMax)
            .value_or("");
  }
  return settings;
}

std::map<std::string, NodeVariable> variables_on_nodes(ClusterSession& session,
                                                       const std::string& job,
                                                       std::uint64_t since) {
  using Variables = std::map<std::string, std::string>;
  const auto records = records_since(session, job, since);
  std::vector<std::optional<Variables>> found(session.members().size());
  (void)session.each([&](Member& member) -> Status {
    const std::size_t index = session.index_of(member);
    for (const auto& [of, status] : records) {
      if (of == index && !found[index])  // all processes on a node have the same
        found[index] = typed_variables(*member.client, job, status.name);
    }
    return {};
  });
  std::map<std::string, NodeVariable> variables;
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const auto& [name, value] : found[i].value_or(Variables()))
      variables.try_emplace(name, NodeVariable{value, session.members()[i].spec.name, ""});
  }
  for (auto& [name, variable] : variables) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i]) continue;
      const auto own = found[i]->find(name);
      if (own == found[i]->end() || own->second != variable.value)
        variable.other = session.members()[i].spec.name;
    }
  }
  return variables;
}

}  // namespace paddle::cli

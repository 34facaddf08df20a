// `paddlectl __complete KIND WORD [WORDS...]`, which completion scripts run: prints the values that
// begin with WORD, one per line. It reads files of this machine only, so it never waits for a node.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/fd.h"
#include "cli/cluster/selection.h"
#include "cli/commands/commands.h"
#include "cli/job/folders.h"
#include "cli/job/share_folder.h"
#include "engine/config/job_config.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;
using Values = std::set<std::string>;

constexpr std::size_t kEntriesMax = 10'000;
constexpr std::size_t kProcessesBytesMax = 4U << 20U;

// The value of "--cluster FILE" or "--cluster=FILE"; bash splits the latter at '='.
std::string cluster_named(const std::vector<std::string>& words) {
  constexpr std::string_view kOption = "--cluster";
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(std::string(kOption) + "="))
      return words[i].substr(kOption.size() + 1);
    const std::size_t value = i + (i + 1 < words.size() && words[i + 1] == "=" ? 2 : 1);
    if (words[i] == kOption && value < words.size()) return words[value];
  }
  return "";
}

void add_folders(const fs::path& parent, Values& names) {
  std::error_code error;
  std::size_t seen = 0;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    if (++seen > kEntriesMax) return;
    if (at->is_directory(error)) names.insert(at->path().filename().string());
  }
}

Values jobs(const Context& context, const Result<ClusterSpec>& cluster) {
  Values names;
  add_folders(fs::path(context.directory) / "output", names);
  if (!cluster) return names;
  const char* const home = ::getenv("HOME");
  for (const ClusterNode& node : cluster->nodes) {
    if (!node.spec.is_local()) continue;
    std::string root = node.spec.root;
    if (root.starts_with("~/")) root.replace(0, 1, home == nullptr ? "" : home);
    add_folders(fs::path(root) / "jobs", names);
  }
  std::erase_if(names, [](const std::string& name) { return !check_job_name(name); });
  return names;
}

// The names of processes, such as "trainer-2", in the jobs that were fetched.
Values roles(const Context& context) {
  Values names{"pserver", "trainer"};
  Values fetched;
  const fs::path output = fs::path(context.directory) / "output";
  add_folders(output, fetched);
  for (const std::string& job : fetched) {
    const auto text = read_file((output / job / "processes.jsonl").string(), kProcessesBytesMax);
    constexpr std::string_view kField = "\"role\": \"";
    for (std::size_t at = 0; text && (at = text->find(kField, at)) != text->npos;) {
      at += kField.size();
      names.insert(text->substr(at, text->find('"', at) - at));
    }
  }
  return names;
}

// Completes the last term of a list for --on; the text before that term is kept.
Values nodes(const ClusterSpec& cluster, const std::string& word) {
  const std::size_t comma = word.rfind(',');
  std::string before = comma == word.npos ? "" : word.substr(0, comma + 1);
  if (word.substr(before.size()).starts_with('!')) before += '!';
  Values terms{before + std::string(kAllNodes)};
  for (const ClusterNode& node : cluster.nodes) {
    terms.insert(before + node.spec.name);
    for (const std::string& group : node.groups) terms.insert(before + group);
  }
  return terms;
}

Values keys(const Context& context, const std::vector<std::string>& words) {
  fs::path job = fs::path(context.directory) / "job.toml";
  for (const std::string& word : words) {
    std::error_code ignored;
    const fs::path there = fs::path(context.directory) / word / "job.toml";
    if (fs::is_regular_file(there, ignored)) job = there;
  }
  Values all;
  for (const std::string& key : config::override_keys(job.string())) all.insert(key + "=");
  return all;
}

Values values_of(const Context& context, const std::string& kind, const std::string& word,
                 const std::vector<std::string>& words) {
  if (kind == "roles") return roles(context);
  if (kind == "keys") return keys(context, words);
  Values names;
  if (kind == "templates") {
    if (auto found = template_names(context.share)) names.insert(found->begin(), found->end());
  } else if (kind == "commands") {
    for (const Command& command : all_commands()) names.emplace(command.name);
  } else {
    const auto cluster = choose_cluster(context.directory, cluster_named(words));
    if (kind == "jobs") return jobs(context, cluster);
    if (kind == "nodes" && cluster) return nodes(*cluster, word);
  }
  return names;
}

// Shells interpret what is printed here, so it must not contain their special characters.
bool is_plain(const std::string& value) {
  return std::ranges::all_of(value, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-,@!=%+").find(c) != std::string_view::npos;
  });
}

}  // namespace

void complete(Context& context, const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) return;
  std::string word = arguments[1];
  if (word.starts_with("--")) word.erase(0, std::min(word.find('='), word.size() - 1) + 1);
  const std::vector<std::string> words(arguments.begin() + 2, arguments.end());
  std::string text;
  for (const std::string& value : values_of(context, arguments[0], word, words)) {
    if (value.starts_with(word) && is_plain(value)) text += value + "\n";
  }
  context.console.raw(text);
}

}  // namespace paddle::cli

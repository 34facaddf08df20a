#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/cluster/cluster_file.h"
#include "cli/cluster/node_list.h"
#include "cli/commands/command.h"
#include "cli/commands/shared_options.h"
#include "cli/job/share_folder.h"
#include "cli/job/table_guess.h"
#include "cli/job/table_job.h"
#include "cli/job/table_sample.h"
#include "cli/job/text_template.h"
#include "cli/job/workspace.h"
#include "cli/report/record.h"
#include "engine/config/job_config.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClusterFile = "cluster.toml";

struct InitOptions {
  std::string target;              // the file or folder to write; "": the default
  std::string workspace_template;  // "": a cluster file, or a workspace for `table`
  std::string table;               // a data file; "": none
  std::string label;               // its column; "": guessed
  // Sources of the cluster file. Without any: the example, in which the servers are comments.
  std::vector<std::string> hosts;
  std::string hostfile;
  bool local = false;  // the example with nodes on this machine
  bool list = false;
};

OptionList init_options(InitOptions& options) {
  return {
      {"target",
       "the file or folder to write: a cluster file (cluster.toml), or with --template or --from a "
       "workspace",
       &options.target},
      {"--template", "write a workspace from this template", &options.workspace_template,
       "TEMPLATE"},
      {.name = "--from",
       .help = "write a workspace with a first network for this table: csv, jsonl, npz or libsvm",
       .target = &options.table,
       .value_name = "FILE",
       .excludes = {"--template"}},
      {.name = "--label",
       .help =
           "with --from: the column to predict (by default one named label, target, ..., or the "
           "last)",
       .target = &options.label,
       .value_name = "COLUMN",
       .excludes = {"--template"}},
      {.name = "--hosts",
       .help = "write a cluster file of these servers: n1,n2,n3 or node[01-04,07].lab",
       .target = &options.hosts,
       .value_name = "HOSTS",
       .excludes = {"--template", "--from"}},
      {.name = "--hostfile",
       .help =
           "write a cluster file of the servers in a hostfile: of mpirun, DeepSpeed, PBS, Slurm",
       .target = &options.hostfile,
       .value_name = "FILE",
       .excludes = {"--template", "--from", "--hosts"}},
      {.name = "--local",
       .help = "write a cluster file for nodes on this machine",
       .target = &options.local,
       .excludes = {"--template", "--from", "--hosts", "--hostfile"}},
      {"--list", "list the templates", &options.list},
  };
}

// Consecutive hosts "node01" ... "node16" with equal slots and user, written as one [[node]].
struct HostRun {
  HostfileEntry first;
  std::string node;        // the node's name; "": its host
  std::string head, tail;  // around the number; without a number, head is the host
  std::uint64_t number = 0;
  std::size_t digits = 0, count = 1;

  explicit HostRun(const HostfileEntry& entry) : first(entry), head(entry.host) {
    const std::size_t dot = entry.host.find('.');
    const std::string name = entry.host.substr(0, dot);
    std::size_t begin = name.size();
    while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
    digits = name.size() - begin;
    constexpr std::size_t kDigitsMax = 9;
    if (digits == 0 || digits > kDigitsMax || begin == 0) {  // no number, or an IP address
      digits = 0;
      return;
    }
    head = name.substr(0, begin);
    number = std::stoull(name.substr(begin));
    tail = entry.host.substr(name.size());
  }
  bool takes(const HostRun& next) const {
    return digits > 0 && node.empty() && next.node.empty() && next.digits == digits &&
           next.head == head && next.tail == tail && next.number == number + count &&
           next.first.slots == first.slots && next.first.user == first.user &&
           next.first.ssh_port == first.ssh_port;
  }
  std::string pattern() const {
    if (count == 1) return first.host;
    return fmt::format("{}[{:0{}}-{:0{}}]{}", head, number, digits, number + count - 1, digits,
                       tail);
  }
};

std::string cluster_of(const std::vector<HostfileEntry>& entries, const std::string& origin) {
  std::vector<HostRun> runs;
  std::map<std::string, int> counts;
  for (const HostfileEntry& entry : entries) ++counts[entry.host];
  for (const HostfileEntry& entry : entries) {
    HostRun next(entry);
    if (counts[entry.host] > 1 && entry.ssh_port > 0)
      next.node = fmt::format("{}-{}", node_name_of(entry.host), entry.ssh_port);
    if (!runs.empty() && runs.back().takes(next)) {
      ++runs.back().count;
    } else {
      runs.push_back(std::move(next));
    }
  }
  std::string text = fmt::format(
      "# Made from {}. docs/cluster.md has every key.\n"
      "name = \"lab\"                       # a server's folder is <workdir>/<name>/<node>\n"
      "workdir = \"~/.paddlectl\"\n"
      "port = {}                        # first port of a server's first pserver\n"
      "\n"
      "[ssh]                              # defaults; ~/.ssh/config is read too\n"
      "# user = \"train\"\n"
      "# port = 22                        # of sshd; on a node: ssh_port\n"
      "# identity = \"~/.ssh/id_ed25519\"\n"
      "# jump = \"bastion.lab\"\n",
      escape_control(origin), kDefaultPort);
  for (const HostRun& run : runs) {
    text += fmt::format("\n[[node]]\nhost = \"{}\"\n", run.pattern());
    if (!run.node.empty()) text += fmt::format("name = \"{}\"\n", run.node);
    if (!run.first.user.empty()) text += fmt::format("user = '{}'\n", run.first.user);
    if (run.first.ssh_port > 0) text += fmt::format("ssh_port = {}\n", run.first.ssh_port);
    if (run.first.slots > 0) {
      text += fmt::format("capacity = {}  # trainers; its slots\n", run.first.slots);
    }
  }
  return text;
}

// Explains the number after ':': users of ssh expect a port there, but mpirun and paddlectl read
// slots.
void note_slots(Context& context, const std::vector<HostfileEntry>& entries) {
  const auto found = std::ranges::find_if(entries, &HostfileEntry::colon_slots);
  if (found == entries.end()) return;
  context.console.note(fmt::format(
      "the number after '{0}:' is its number of slots: {1}; write an sshd port as ssh://{0}:2222",
      found->host.find(':') == std::string::npos ? found->host : "[" + found->host + "]",
      counted(found->slots, "trainer")));
}

// The text of a cluster file for the given servers, or else the example.
Result<std::string> cluster_text(Context& context, const InitOptions& options) {
  if (!options.hosts.empty()) {
    const std::string list = fmt::format("{}", fmt::join(options.hosts, ","));
    PADDLE_TRY(const auto entries, parse_host_list(list, "--hosts"));
    note_slots(context, entries);
    return cluster_of(entries, "--hosts");
  }
  if (!options.hostfile.empty()) {
    const auto hosts = read_file_or_pipe((fs::path(context.directory) / options.hostfile).string(),
                                         kHostfileBytesMax);
    if (!hosts) return Error{Errc::kUsage, hosts.error().message, "name an existing hostfile"};
    PADDLE_TRY(const auto entries, parse_hostfile(*hosts, options.hostfile));
    return cluster_of(entries, "the hostfile " + fs::path(options.hostfile).filename().string());
  }
  auto example =
      read_file(fmt::format("{}/clusters/{}.toml", context.share, options.local ? "local" : "ssh"));
  if (example && !context.share.empty()) return example;
  return Error{Errc::kUsage, "cannot find the example clusters of this paddlectl",
               "they are in share/paddlectl of an installation, and in a source tree"};
}

// Names the cluster after its file, so that two cluster files never share a folder on their nodes.
// For cluster.toml, the name in the example stays.
std::string named_after(const std::string& file, std::string text) {
  const std::string stem = fs::path(file).stem().string();
  const std::size_t at = text.find("\nname = \"");
  if (fs::path(file).filename() == kClusterFile || !is_plain_name(stem) || at == text.npos)
    return text;
  const std::size_t begin = text.find('"', at) + 1;
  return text.replace(begin, text.find('"', begin) - begin, stem);
}

// The number of the line where the example has its first server, as a comment; 0: there is none.
std::size_t line_to_edit(const std::string& text) {
  const std::size_t at = text.find("\n# [[node]]");
  if (at == std::string::npos) return 0;
  return static_cast<std::size_t>(std::count(text.begin(), text.begin() + long(at) + 1, '\n')) + 1;
}

// The command that writes the same cluster file under another name, derived from `name`.
std::string init_beside(const InitOptions& options, const std::string& name) {
  fs::path other = name;
  other.replace_filename(other.stem().string() + "-2" + other.extension().string());
  std::string command = "paddlectl init " + other.string();
  if (!options.hosts.empty()) command += fmt::format(" --hosts {}", fmt::join(options.hosts, ","));
  if (!options.hostfile.empty()) command += " --hostfile " + options.hostfile;
  if (options.local) command += " --local";
  return command;
}

// A name without digits, to compare the hosts of a cluster, whose names differ in digits only.
std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

// Refuses "--hosts n1 n2" and "--hosts n1, n2": they ask for a file n2, but the user means two
// hosts. In the same way, "--local 3" asks for a file 3.
Status check_target(const InitOptions& options) {
  if (options.local && !options.target.empty() && without_digits(options.target).empty()) {
    return Error{Errc::kUsage,
                 fmt::format("'{}' would be the name of the cluster file", options.target),
                 fmt::format("paddlectl init --local, then write count = {} in {}", options.target,
                             kClusterFile)};
  }
  if (options.target.empty() || options.hosts.empty()) return {};
  const std::string list = fmt::format("{}", fmt::join(options.hosts, ","));
  const std::vector<std::string> hosts = split_list(list);
  const bool is_host =
      std::ranges::any_of(hosts,
                          [&](const std::string& host) {
                            return !host.empty() && without_digits(split_host(host).host) ==
                                                        without_digits(options.target);
                          }) ||
      list.ends_with(',');
  if (!is_host || options.target.ends_with(".toml")) return {};
  return Error{
      Errc::kUsage,
      fmt::format("'{}' would be the file to write, not a host", escape_control(options.target)),
      fmt::format("separate hosts by commas: --hosts {}{}{}; or name the file {}.toml", list,
                  list.ends_with(',') ? "" : ",", options.target, options.target)};
}

// Refuses the name of a template as the name of a cluster file: --template was forgotten.
Status check_no_template(const Context& context, const std::string& target) {
  const auto names = template_names(context.share);
  if (!names || std::ranges::find(*names, target) == names->end()) return {};
  return Error{Errc::kUsage, fmt::format("'{}' is a template, and no cluster file", target),
               fmt::format("for a workspace from it: paddlectl init --template {} my-{}; for a "
                           "cluster file: paddlectl init cluster.toml",
                           target, target)};
}

Status write_cluster(Context& context, const InitOptions& options) {
  PADDLE_TRY_STATUS(check_target(options));
  PADDLE_TRY_STATUS(check_no_template(context, options.target));
  const std::string name = options.target.empty() ? kClusterFile : options.target;
  const std::string path = (fs::path(context.directory) / name).lexically_normal().string();
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    return Error{Errc::kUsage, name + " already exists",
                 "name another file: " + init_beside(options, name)};
  }
  PADDLE_TRY(std::string text, cluster_text(context, options));
  text = named_after(name, std::move(text));
  const std::size_t line = line_to_edit(text);
  std::size_t nodes = 0;
  if (line == 0) {
    PADDLE_TRY(const ClusterSpec cluster, parse_cluster(text, name));
    nodes = cluster.nodes.size();
  }
  PADDLE_TRY_STATUS(replace_file(path, as_bytes(text), 0644));
  context.console.result(
      Json::object({{"file", path}, {"nodes", nodes}}),
      line == 0 ? fmt::format("wrote {} with {}", name, counted(nodes, "node")) : "wrote " + name);
  const std::string edit =
      line == 0 ? "" : fmt::format("name your servers in line {} of {}, then: ", line, name);
  context.console.note(fmt::format("next: {}paddlectl up {}", edit, name));
  if (line > 0)
    context.console.note("or have init name them: paddlectl init --hosts n1,n2,n3 FILE");
  return {};
}

Status write_workspace(Context& context, const InitOptions& options) {
  const std::string name = options.target.empty() ? options.workspace_template : options.target;
  const std::string path = (fs::path(context.directory) / name).lexically_normal().string();
  PADDLE_TRY(const auto files, copy_template(context.share, options.workspace_template, path));
  context.console.result(
      Json::object({{"folder", path}, {"files", Json::list({files.begin(), files.end()})}}),
      fmt::format("wrote {} into {}", counted(files.size(), "file"), name));
  context.console.note(fmt::format(
      "next: read {0}/README.md; make the data with {0}/prepare; then: paddlectl train {0}", name));
  return {};
}

// Makes a folder for a workspace, which must be new or empty.
Status make_folders(const fs::path& folder, const std::string& shown, const std::string& table) {
  std::error_code error;
  const bool is_folder = fs::is_directory(folder, error);
  if (fs::exists(folder, error) && (!is_folder || !fs::is_empty(folder, error))) {
    return Error{Errc::kUsage,
                 shown + (is_folder ? " exists and is not empty" : " exists and is no folder"),
                 fmt::format("name a new folder: paddlectl init --from {} DIR", shell_word(table))};
  }
  fs::create_directories(folder / "data", error);
  if (!error) return {};
  return Error{is_lack(error.value()) ? Errc::kResource : Errc::kUsage,
               fmt::format("{}/data: {}", shown, error.message()), "name another folder"};
}

// Copies the table, and then writes job.toml, so that an incomplete copy is no workspace.
Status write_table(const fs::path& folder, const fs::path& table, const std::string& data,
                   const std::string& job) {
  std::error_code error, ignored;
  fs::copy_file(table, folder / data, error);
  if (!error) return replace_file((folder / kJobFile).string(), as_bytes(job), 0644);
  fs::remove(folder / data, ignored);
  return Error{
      is_lack(error.value()) ? Errc::kResource : Errc::kFailed,
      fmt::format("copy {} to {}: {}", table.string(), (folder / data).string(), error.message()),
      "a workspace keeps a copy of its table: free some disk, or name another folder"};
}

Table table_of(const std::vector<GuessRow>& guesses) {
  Table table{{{"", "what"}, {"guess", "guess"}, {"how sure", "sure"}, {"to change it", "change"}},
              {}};
  for (const GuessRow& row : guesses) {
    table.rows.push_back({text_cell(row.what), text_cell(row.guess),
                          text_cell(std::string(sureness_text(row.sure))), text_cell(row.change)});
  }
  return table;
}

Status write_guessed(Context& context, const InitOptions& options) {
  const fs::path table = (fs::path(context.directory) / options.table).lexically_normal();
  const std::string shown = escape_control(options.table);
  PADDLE_TRY(const TableSample sample, sample_table(table.string(), shown));
  PADDLE_TRY(const TableGuess guess, guess_table(sample, options.label, shown));
  const std::string name = options.target.empty() ? table.stem().string() : options.target;
  const fs::path folder = (fs::path(context.directory) / name).lexically_normal();
  // The table's own name may end in a number, as those of files do that only one trainer reads.
  const std::string data = "data/table." + sample.format;
  PADDLE_TRY_STATUS(make_folders(folder, name, options.table));
  PADDLE_TRY_STATUS(write_table(folder, table, data,
                                job_of_table(sample, guess, table.filename().string(), data)));
  const Table rows = table_of(guess_rows(sample, guess));
  if (context.console.json()) {
    context.console.json_line(
        Json::object({{"folder", folder.string()}, {"guesses", to_json(rows)}}));
    return {};
  }
  context.console.table(rows);
  context.console.result(fmt::format("wrote {0}/job.toml and {0}/{1}, a copy of the table of {2}",
                                     name, data, human_bytes(sample.bytes)));
  context.console.note("next: paddlectl train " + shell_word(name));
  return {};
}

Status list_templates(Context& context) {
  PADDLE_TRY(const auto names, template_names(context.share));
  Table table{{{"template", "template"}, {"what it is", "summary"}}, {}};
  for (const std::string& name : names) {
    table.rows.push_back({text_cell(name), text_cell(template_summary(context.share, name))});
  }
  context.console.table(table);
  return {};
}

Status run_init(Context& context, const InitOptions& options) {
  if (options.list) return list_templates(context);
  if (!options.table.empty()) return write_guessed(context, options);
  if (!options.label.empty()) {
    return Error{Errc::kUsage, "--label names a column, but there is no table",
                 "name the table: --from FILE"};
  }
  return options.workspace_template.empty() ? write_cluster(context, options)
                                            : write_workspace(context, options);
}

}  // namespace

Command init_command() {
  return {"init",
          "write a cluster file of your servers, or a workspace for a table or from a template",
          "  paddlectl init --hosts n1,n2,n3\n"
          "  paddlectl init lab.toml --hostfile hosts\n"
          "  paddlectl init --from people.csv\n"
          "  paddlectl init --template word2vec my-vectors",
          [] { return invocation(init_options, run_init); }};
}

}  // namespace paddle::cli

#include "cli/app.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/next_step.h"
#include "engine/base/text.h"

namespace paddle::cli {
namespace {

constexpr const char* kAbout =
    "paddlectl turns servers that you can reach over SSH into a training cluster.\n"
    "\n"
    "  paddlectl up clusters/local.toml\n"
    "  paddlectl train --trainers 4 --pservers 2 templates/word2vec\n"
    "  paddlectl status | logs -f | fetch\n"
    "  paddlectl teardown\n";
constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 version, 4 unreachable, 5 "
    "authentication,\n"
    "6 data, 7 resource (port, disk, memory), 75 stopped and can go on, 130 interrupted.";
constexpr const char* kCheckAlias = "doctor";
constexpr std::uint32_t kProcessesMax = 4096;
constexpr std::uint32_t kRestartsMax = 1000;
constexpr std::uint32_t kTailLinesMax = 1000000;
constexpr std::uint32_t kTimeoutSecondsMax = 7 * 24 * 3600;

// CLI11's own range check names no valid value for what is no number at all.
CLI::Validator whole_number(std::uint32_t min, std::uint32_t max) {
  return {[min, max](std::string& text) {
            std::uint32_t count = 0;
            const auto [end, error] =
                std::from_chars(text.data(), text.data() + text.size(), count);
            const bool whole = error == std::errc() && end == text.data() + text.size();
            if (whole && count >= min && count <= max) return std::string();
            return fmt::format("'{}' is not a whole number from {} to {}", text, min, max);
          },
          "", ""};
}

void add_node_options(CLI::App& app, const std::string& name, CommandOptions& options) {
  app.add_option("--on", options.on,
                 "only these nodes and groups: gpu,node[01-04],!node02; default: all");
  if (name == "put") {
    app.add_option("files", options.command,
                   "files or folders here, then the path on the nodes: absolute or from $HOME")
        ->type_name("FILE");
  } else if (name == "get") {
    app.add_option("paths", options.command,
                   "the path on the nodes, absolute or from $HOME, then the folder here");
  } else {
    app.add_option("command", options.command,
                   "after --: the program and its arguments, which no shell touches");
    app.add_option("--shell", options.shell, "one text for each node's /bin/sh instead");
    app.add_flag("--stream", options.stream, "show output as it comes, each line with its node");
  }
}

void add_init_options(CLI::App& app, CommandOptions& options) {
  app.add_option("target", options.target,
                 "what to write: a cluster file (cluster.toml), or with --template a folder");
  CLI::Option* const from =
      app.add_option("--template", options.from_template, "a workspace from this template");
  CLI::Option* const hostfile = app.add_option(
      "--hostfile", options.hostfile, "a cluster file from mpirun's or DeepSpeed's hostfile");
  hostfile->type_name("FILE");
  CLI::Option* const local =
      app.add_flag("--local", options.local, "a cluster file for nodes on this machine");
  app.add_flag("--list", options.list, "name the templates");
  from->excludes(hostfile)->excludes(local);
  hostfile->excludes(local);
}

void add_render_options(CLI::App& app, CommandOptions& options) {
  app.add_option("platform", options.platform, "kubernetes, slurm or openmpi")
      ->check(CLI::IsMember({"kubernetes", "slurm", "openmpi"}));
  app.add_option("workspace", options.workspace, "folder with job.toml; default: this one")
      ->type_name("DIR");
  app.add_option("--trainers", options.trainers, "number of trainers; default: 1")
      ->check(whole_number(1, kProcessesMax));
  app.add_option("--pservers", options.pservers, "number of parameter servers; default: 1")
      ->check(whole_number(1, kProcessesMax));
  app.add_option("--set", options.overrides, "override a key of job.toml (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--name", options.job, "the job's name; default: the workspace's");
  app.add_option("--image", options.image, "of kubernetes; any with a shell, awk and getent");
}

void add_options(CLI::App& app, const std::string& name, CommandOptions& options) {
  if (name == "version" || name == "man") return;
  if (name == "completion") {
    app.add_option("shell", options.shell_name, "bash, zsh or fish")
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    return;
  }
  if (name == "render") return add_render_options(app, options);
  if (name == "init") return add_init_options(app, options);
  if (name == "up") {
    app.add_option("cluster", options.cluster, "the cluster file, like clusters/local.toml")
        ->type_name("FILE");
  }
  if (name != "up") {
    app.add_option("--cluster", options.cluster,
                   "cluster file; default: the one `up` used in this directory")
        ->type_name("FILE");
  }
  if (name == "up" || name == "check" || name == "trust" || name == "status" || name == "logs" ||
      name == "metrics") {
    app.add_option("--on", options.on, "only these nodes and groups: gpu,node[01-04],!node02");
  }
  if (name == "trust") {
    app.add_option("host", options.host,
                   "a host as ssh knows it, or a node of the cluster; default: every node");
    app.add_option("--fingerprint", options.fingerprints,
                   "trust only a key with this fingerprint (repeatable)")
        ->allow_extra_args(false);
    app.add_flag("--yes", options.yes, "trust whatever is shown; only on a network you trust");
  }
  if (name == "exec" || name == "put" || name == "get") {
    add_node_options(app, name, options);
    return;
  }
  if (name == "train" || name == "plan") {
    app.add_option("workspace", options.workspace, "folder with job.toml; default: this one")
        ->type_name("DIR");
    app.add_option("--trainers", options.trainers,
                   "number of trainers; default: one on each node with the role, or its `capacity`")
        ->check(whole_number(1, kProcessesMax));
    app.add_option("--pservers", options.pservers,
                   "number of parameter servers; default: one on each node with the role")
        ->check(whole_number(1, kProcessesMax));
    app.add_option("--set", options.overrides,
                   "override a key of job.toml: --set train.passes=3 (repeatable)")
        ->allow_extra_args(false);
  }
  if (name == "train") {
    app.add_option("--name", options.job, "the job's name; default: <workspace>-<UTC time>");
    app.add_flag("--dry-run", options.dry_run, "the same as paddlectl plan; starts nothing");
    app.add_option("--env", options.environment,
                   "KEY=VALUE for every process of the job (repeatable)")
        ->allow_extra_args(false);
    app.add_option(
           "--restarts", options.restarts,
           "start a process that fails again, up to so many times, and the job with it from "
           "its last snapshot; default: 0")
        ->check(whole_number(0, kRestartsMax));
    app.add_flag("--resume", options.resume,
                 "go on with a job from its last snapshot: the latest, or the one of --name");
    app.add_flag("--detach", options.detach, "return when the trainers run");
  } else if (name == "rm") {
    app.add_option("jobs", options.jobs, "jobs that have ended");
  } else if (name == "report") {
    app.add_option("job", options.job, "the job; default: the latest");
  } else if (name != "up" && name != "teardown" && name != "plan" && name != "trust" &&
             name != "check") {
    app.add_option("--job", options.job, "the job; default: the latest");
  }
  if (name == "train" || name == "attach" || name == "fetch" || name == "report") {
    app.add_option("--output", options.output, "folder for results; default: output")
        ->type_name("DIR");
  }
  if (name == "metrics") {
    app.add_option("--format", options.format, "json or prometheus")
        ->check(CLI::IsMember({"json", "prometheus"}));
  }
  if (name == "logs" || name == "metrics") {
    app.add_flag("-f,--follow", options.follow, "go on until the job ends");
    app.add_option("--node", options.node, "only this node");
    app.add_option("--role", options.role, "pserver, trainer, or one process like trainer-2");
  }
  if (name == "logs") {
    CLI::Option* const tail =
        app.add_option("--tail", options.tail, "only the last N lines of each log")
            ->check(whole_number(0, kTailLinesMax));
    app.add_option("--since", options.since,
                   "only what was written since: 90s, 10m, 2h, 1d ago, or 2026-01-31T12:00:00Z")
        ->excludes(tail);
    app.add_option("--grep", options.grep,
                   "only lines that match this extended regular expression");
  }
  if (name == "status") {
    app.add_flag("-w,--watch", options.watch, "look again every 2 seconds until the job ends");
  }
  if (name == "stop") {
    app.add_flag("--now", options.now, "end its processes at once, without a snapshot");
  }
  if (name == "restart") {
    app.add_option("process", options.process, "one process, like trainer-2; default: all");
  }
  if (name == "teardown")
    app.add_flag("--keep-data", options.keep_data, "keep the jobs' snapshots on the nodes");
}

// The first argument that is not a command or a known flag, with the nearest known word.
Error usage_error(const CLI::App* command, const std::vector<std::string>& arguments,
                  const std::string& message) {
  Error error{Errc::kUsage, message, "see paddlectl --help"};
  if (command == nullptr) return error;
  error.hint = fmt::format("see paddlectl {} --help", command->get_name());
  std::vector<std::string> known;
  for (const CLI::App* const app : {command, command->get_parent()}) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  const std::vector<std::string_view> names(known.begin(), known.end());
  for (const std::string& argument : arguments) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (!flag.starts_with("--") || std::ranges::find(known, flag) != known.end()) continue;
    error.message = fmt::format("unknown option '{}'", flag);
    if (const std::string near = nearest(flag, names); !near.empty())
      error.message += fmt::format(", did you mean '{}'?", near);
    return error;
  }
  return error;
}

// The word in the command's place: the first that is neither an option nor a global option's value.
// "" where there is none.
Result<std::string> command_in(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with('-')) return arguments[i];
    const std::size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr) {
      std::vector<std::string_view> names;
      for (const CLI::Option* one : app.get_options()) {
        for (const std::string& long_name : one->get_lnames()) names.push_back(long_name);
      }
      const std::string near =
          nearest(name.substr(name.find_first_not_of('-') % name.size()), names);
      return Error{Errc::kUsage,
                   fmt::format("unknown option '{}' before the command{}", name,
                               near.empty() ? "" : fmt::format(", did you mean '--{}'?", near)),
                   "options of a command stand behind it: paddlectl status --cluster lab.toml"};
    }
    if (equals == std::string::npos && option->get_items_expected_max() > 0) ++i;
  }
  return std::string();
}

// A failed check leaves no chosen command in CLI11.
std::string help_of(const std::string& word) {
  for (const Command& command : all_commands()) {
    if (word == command.name) return fmt::format("see paddlectl {} --help", command.name);
  }
  return "see paddlectl --help";
}

Status check_command(const std::string& word) {
  if (word.empty()) return {};
  std::vector<std::string_view> names;
  for (const Command& command : all_commands()) names.push_back(command.name);
  names.emplace_back(kCheckAlias);
  if (std::ranges::find(names, word) != names.end()) return {};
  std::string message = fmt::format("unknown command '{}'", word);
  if (const std::string near = nearest(word, names); !near.empty())
    message += fmt::format(", did you mean '{}'?", near);
  return Error{Errc::kUsage, message, "see paddlectl --help"};
}

struct GlobalOptions {
  bool json = false;
  bool version = false;
  std::string password_file;
  std::uint32_t timeout = 0;  // seconds; 0: by default
  std::uint32_t parallel = kNodesAtOnce;
};

void add_global_options(CLI::App& app, GlobalOptions& global) {
  app.add_flag("--json", global.json,
               "results as JSON on stdout, an error as one JSON line on stderr; notes stay text");
  app.add_flag("--version", global.version, "print the version");
  app.add_option("--password-file", global.password_file,
                 "log in with the password in this file (mode 0600) where no key is accepted; "
                 "without it you are asked")
      ->type_name("FILE");
  app.add_option("--timeout", global.timeout,
                 "give a node up that is not reached, or does not answer, for so many seconds; of "
                 "exec also the command's time; default: 20 to reach it, 30 for an answer")
      ->type_name("SECONDS")
      ->check(whole_number(1, kTimeoutSecondsMax));
  app.add_option("--parallel", global.parallel, "nodes worked on at a time; default: 32")
      ->type_name("NODES")
      ->check(whole_number(1, kProcessesMax));
  app.fallthrough();
}

int report(Context& context, const Error& error) {
  context.console.end_progress();
  const bool asked_for = error.code == Errc::kInterrupted || error.code == Errc::kResumable;
  if (asked_for && !context.console.json()) {
    // Asked for, so no error to the reader.
    std::istringstream lines(error.message + (error.hint.empty() ? "" : "\n" + error.hint));
    for (std::string line; std::getline(lines, line);) context.console.note(line);
  } else {
    Error told = error;
    if (told.hint.empty()) told.hint = next_step(told.code);
    context.console.error(told);
  }
  return static_cast<int>(error.code);
}

}  // namespace

int run_app(Context& context, std::vector<std::string> arguments) {
  // Before anything is parsed, so that what cannot be parsed is told as JSON too.
  context.console.set_json(std::find(arguments.begin(), std::ranges::find(arguments, "--"),
                                     "--json") != std::ranges::find(arguments, "--"));
  CLI::App app{kAbout, "paddlectl"};
  app.footer(kExitCodes);
  GlobalOptions global;
  add_global_options(app, global);
  const auto found = command_in(app, arguments);
  if (!found) return report(context, found.error());
  const std::string& word = *found;
  if (const auto known = check_command(word); !known) return report(context, known.error());
  CommandOptions options;
  std::map<const CLI::App*, const Command*> commands;
  for (const Command& command : all_commands()) {
    const std::string name(command.name);
    CLI::App* const sub = app.add_subcommand(name, std::string(command.summary));
    sub->footer(
        "Every command takes --json; where it talks to nodes also --timeout, --parallel and\n"
        "--password-file, see paddlectl --help. Examples:\n" +
        std::string(command.examples));
    add_options(*sub, name, options);
    if (name == "check") sub->alias(kCheckAlias);
    commands[sub] = &command;
  }
  app.require_subcommand(0, 1);
  const std::vector<std::string> given = arguments;
  std::vector<std::string> after_dashes;
  try {
    // What follows -- is a command for the nodes, whatever it looks like.
    const auto dashes = std::ranges::find(arguments, "--");
    if (dashes != arguments.end()) {
      after_dashes.assign(dashes + 1, arguments.end());
      arguments.erase(dashes, arguments.end());
    }
    std::ranges::reverse(arguments);  // CLI11 takes its vector from the back
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    context.console.raw(chosen.empty() ? app.help() : chosen.front()->help("paddlectl"));
    return 0;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    if (!unknown) {
      return report(context, Error{Errc::kUsage, error.what(), help_of(word)});
    }
    return report(context,
                  usage_error(chosen.empty() ? nullptr : chosen.front(), given, error.what()));
  }
  context.console.set_json(global.json);
  const auto chosen = app.get_subcommands();
  if (global.version) {
    (void)run_version(context, options);
    return 0;
  }
  if (chosen.empty()) {
    context.console.raw(app.help());
    return static_cast<int>(Errc::kUsage);
  }
  context.limits = {std::chrono::seconds(global.timeout), global.parallel};
  if (!global.password_file.empty() && context.answers != nullptr) {
    if (const Status read = context.answers->use_password_file(global.password_file); !read)
      return report(context, read.error());
  }
  options.command.insert(options.command.end(), after_dashes.begin(), after_dashes.end());
  options.command_line = &app;
  const auto done = commands.at(chosen.front())->run(context, options);
  return done ? 0 : report(context, done.error());
}

}  // namespace paddle::cli

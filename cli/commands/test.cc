// `paddlectl test`: computes the evaluators of a job on one of its snapshots, on the node that has
// the snapshot or on this machine.
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands/shared_options.h"
#include "cli/job/engine_program.h"
#include "cli/job/folders.h"
#include "cli/job/result_files.h"
#include "cli/watch/process_state.h"
#include "proto/agent.pb.h"
#include "remote/client/push_source.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kAnswerBytesMax = 1U << 20U;

struct TestOptions {
  JobTarget target;
  std::string pass = "last";
  std::string snapshot;
  std::string data;
  std::string workspace;  // "": this folder
  bool allow_pipe_command = false;
};

OptionList test_options(TestOptions& options) {
  return {cluster_option(options.target.cluster),
          on_option(options.target.on),
          job_option(options.target),
          job_argument(options.target),
          {"--pass",
           "which snapshot of the job: last, best, or a name such as pass-00002; default: last",
           &options.pass, "PASS"},
          {"--snapshot",
           "a snapshot here, such as output/<job>/pass-00002, instead of one on the nodes",
           &options.snapshot,
           "DIR",
           0,
           UINT32_MAX,
           {},
           {"--job", "--pass"}},
          {"--data",
           "records in the format of the job: a pattern below the workspace; default: the job's "
           "own held-out records",
           &options.data, "GLOB"},
          {"--workspace", "with --snapshot: the folder that contains the data; default: this one",
           &options.workspace, "DIR"},
          {"--allow-pipe-command",
           "with --snapshot: run the pipe_command and the command of its data; only for a snapshot "
           "from a source that you trust",
           &options.allow_pipe_command}};
}

// The engine's arguments, without its name.
std::vector<std::string> arguments_for(const Context& context, const TestOptions& options,
                                       const std::string& snapshot, const std::string& workspace,
                                       bool allows_pipe_command) {
  std::vector<std::string> arguments{"test", "--snapshot=" + snapshot, "--workspace=" + workspace};
  if (allows_pipe_command) arguments.emplace_back("--allow_pipe_command");
  if (!options.data.empty()) arguments.push_back("--data=" + options.data);
  if (context.console.json()) arguments.emplace_back("--json");
  return arguments;
}

// The JSON object that the engine printed, parsed and written again, because a node's text is not
// trusted.
Result<Json> as_json(const std::string& text) {
  const auto fields = read_flat_object(text);
  if (!fields) return Error{Errc::kFailed, "paddle test printed no JSON object", ""};
  Json::Fields shown;
  for (const JsonField& field : *fields) {
    const auto* const number = std::get_if<double>(&field.value);
    shown.emplace_back(field.key, number == nullptr ? Json() : Json::number(*number));
  }
  return Json::object(shown);
}

Status show(Context& context, const EngineOutput& output) {
  if (context.console.json()) {
    PADDLE_TRY(const Json object, as_json(output.out));
    context.console.json_line(object);
    return {};
  }
  context.console.raw(escape_lines(output.out));
  std::string_view notes = output.error;
  while (notes.ends_with('\n')) notes.remove_suffix(1);
  if (!notes.empty()) context.console.note(notes);
  return {};
}

Status test_here(Context& context, const TestOptions& options) {
  PADDLE_TRY_STATUS(check_engine_version(context.engine));
  const std::string workspace = options.workspace.empty() ? "." : options.workspace;
  PADDLE_TRY(const EngineOutput output,
             run_engine_apart(context.engine,
                              arguments_for(context, options, options.snapshot, workspace,
                                            options.allow_pipe_command),
                              std::nullopt));
  return show(context, output);
}

struct OnNode {
  std::size_t member = 0;
  std::string snapshot;  // the snapshot's name
};

// The snapshot that --pass asks for, and a node that has it.
Result<OnNode> find_snapshot(Context& context, FoundJob& found, const TestOptions& options) {
  PADDLE_TRY(const PassChoice choice, parse_pass_choice(options.pass));
  if (choice.kind == PassChoice::Kind::kAll) {
    return Error{Errc::kUsage, "--pass all: only one snapshot can be tested at a time",
                 "write last, best, or the name of a snapshot, such as pass-00002"};
  }
  const auto processes = found.session.processes(found.name);
  ResultFiles files;
  PADDLE_TRY_STATUS(list_results(found.session, found.name, processes, files));
  LeftSnapshots left;
  PADDLE_TRY_STATUS(
      keep_passes(context, found.session, found.name, processes, choice, files, left));
  std::set<std::string> paths;
  if (files.giver) {
    for (const remote::FileEntry& file : files.of_member[*files.giver]) paths.insert(file.path);
  }
  const auto names = snapshots_among(paths);
  if (!names.empty()) return OnNode{*files.giver, names.back()};
  return Error{Errc::kUsage, fmt::format("job {} has no snapshot on its nodes", found.name),
               "test a fetched one: paddlectl test --snapshot output/<job>/pass-0000N"};
}

// Runs the engine on the node, and first sends the engine there if the node lacks it.
Status run_there(Context& context, Member& member, std::vector<std::string> arguments) {
  PADDLE_TRY(const remote::PushItem engine, engine_item(context.engine));
  remote::PushSource source(context.hash_cache);
  PADDLE_TRY_STATUS(member.client->push({engine}, source, nullptr));
  PADDLE_TRY(const wire::agent::Facts facts, member.client->facts());
  for (std::string& argument : arguments) {
    constexpr std::string_view kRoot = "{root}";
    if (const auto at = argument.find(kRoot); at != argument.npos)
      argument.replace(at, kRoot.size(), facts.root());
  }
  arguments.insert(arguments.begin(), facts.root() + "/" + engine.remote_path);
  EngineOutput output;
  const auto keep = [&](std::string_view text, bool is_stderr) {
    std::string& into = is_stderr ? output.error : output.out;
    into += text.substr(0, kAnswerBytesMax - std::min(kAnswerBytesMax, into.size()));
  };
  PADDLE_TRY(const remote::CommandEnd end,
             member.client->run({arguments, context.limits.timeout}, keep, context.interrupted));
  if (end.exit_code == 0 && end.signal == 0 && !end.timed_out) return show(context, output);
  if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted; the test was ended"};
  Error failure{Errc::kFailed, "paddle test " + describe(end), ""};
  if (end.timed_out) {
    failure.code = Errc::kUnreachable;
    failure.hint = "raise the time limit: --timeout DURATION";
  } else if (signal_of(end) == 0) {
    failure = engine_error(end.exit_code, std::move(output.error));
  }
  // The hint of the engine does not fit: on a node, --data is limited to the job's workspace.
  if (failure.hint.find("--data=GLOB") != std::string::npos) {
    failure.hint =
        "--data GLOB names files in the job's workspace on the node; for files on this machine: "
        "paddlectl test --snapshot output/<job>/pass-0000N --data GLOB";
  }
  return std::move(failure).with("node " + member.spec.name);
}

Status run_test(Context& context, const TestOptions& options) {
  if (options.data == "-") {
    return Error{Errc::kUsage, "--data -: paddlectl test reads no records from stdin",
                 "use paddle test --snapshot=DIR --data=-"};
  }
  if (!options.snapshot.empty()) return test_here(context, options);
  if (!options.workspace.empty()) {
    return Error{Errc::kUsage, "--workspace needs --snapshot",
                 "on a node, --data is a path below the workspace of the job"};
  }
  PADDLE_TRY(FoundJob found, find_job(context, options.target, Missing::kAllowedIfLeftOut));
  PADDLE_TRY(const OnNode at, find_snapshot(context, found, options));
  Member& member = found.session.members()[at.member];
  context.console.note(
      fmt::format("testing {} of job {} on {}", at.snapshot, found.name, member.spec.name));
  return run_there(
      context, member,
      arguments_for(context, options, "{root}/" + output_folder(found.name) + "/" + at.snapshot,
                    "{root}/" + workspace_folder(found.name), true));
}

}  // namespace

Command test_command() {
  return {"test", "compute the cost and the evaluators of a job's snapshot on held-out data",
          "  paddlectl test\n"
          "  paddlectl test --pass best --job ctr_dnn-20260101-120000\n"
          "  paddlectl test --snapshot output/first/pass-00002 --data 'new/*'",
          [] { return invocation(test_options, run_test); }};
}

}  // namespace paddle::cli

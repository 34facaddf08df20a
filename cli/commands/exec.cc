#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/selection.h"
#include "cli/commands/shared_options.h"
#include "cli/console/console.h"
#include "cli/console/result_groups.h"

namespace paddle::cli {
namespace {

// Output kept per node until all nodes are done; --stream keeps none.
constexpr std::size_t kKeptOutputBytesMax = 16U << 20U;
constexpr std::size_t kLineBytesMax = 64U << 10U;      // longer lines are shown in pieces
constexpr auto kStateEvery = std::chrono::seconds(5);  // for a progress bar, with --stream
constexpr int kNotExecutable = 126, kNotFound = 127;
constexpr int kSignalBase = 128;  // a shell's exit code after a signal

struct ExecOptions {
  std::string cluster, on;
  std::vector<std::string> command;
  std::string shell;
  bool stream = false;
};

OptionList list_options(ExecOptions& options) {
  return {
      cluster_option(options.cluster),
      on_option(options.on),
      {"command", "after --: the program and its arguments; no shell interprets them",
       &options.command},
      {"--shell", "a command line for each node's /bin/sh instead", &options.shell, "LINE"},
      {"--stream", "show each line when it arrives, with its node", &options.stream},
  };
}

struct NodeRun {
  std::string out, error;  // all output; with --stream only an unfinished line
  std::uint64_t dropped = 0;
  std::string shown_state;  // last state shown of a progress bar
  std::optional<TimePoint> state_shown_at;
  bool began = false;  // the node was reached: the command may have run
  bool ran = false;    // to its end, with a known result
  bool printed = false;
  remote::CommandEnd end;

  int code() const { return end.signal != 0 ? kSignalBase + end.signal : end.exit_code; }
};

std::string outcome_of(const NodeRun& run) {
  if (!run.ran) return run.began ? "result unknown" : "not run";
  if (run.end.timed_out) return "timed out";
  return run.end.signal != 0 ? fmt::format("signal {}", run.end.signal)
                             : fmt::format("exit {}", run.end.exit_code);
}

// The exit code of the command, or of the error that kept it from running.
int code_of(const Member& member, const NodeRun& run) {
  if (!run.ran) return static_cast<int>(member.error ? member.error->code : Errc::kUnreachable);
  return run.end.timed_out ? static_cast<int>(Errc::kUnreachable) : run.code();
}

// Prints whole lines with the node's name; an unfinished line stays in `kept`. A progress bar is a
// line without an end: its newest state is printed from time to time, and none twice.
void stream_lines(Context& context, std::size_t index, const std::string& node,
                  std::string_view text, std::string& kept, NodeRun& run) {
  kept += text;
  std::size_t begin = 0;
  for (std::size_t end = kept.find('\n'); end != kept.npos; end = kept.find('\n', begin)) {
    const std::string line = overwritten(std::string_view(kept).substr(begin, end - begin));
    if (line.empty() || line != std::exchange(run.shown_state, ""))
      context.console.labelled(index, node, line);
    begin = end + 1;
  }
  kept.erase(0, begin);
  if (kept.find('\r') != kept.npos) {
    const std::string state = overwritten(kept);
    kept = state + '\r';
    const TimePoint now = context.clock.now();
    const bool is_time = !run.state_shown_at || now >= *run.state_shown_at + kStateEvery;
    if (!state.empty() && state != run.shown_state && is_time) {
      run.state_shown_at = now;
      run.shown_state = state;
      context.console.labelled(index, node, state);
    }
  }
  if (kept.size() < kLineBytesMax) return;
  context.console.labelled(index, node, kept);
  kept.clear();
}

void keep(NodeRun& run, std::string& into, std::string_view text) {
  const std::size_t used = run.out.size() + run.error.size();
  const std::size_t room = kKeptOutputBytesMax - std::min(used, kKeptOutputBytesMax);
  into += text.substr(0, room);
  run.dropped += text.size() - std::min(text.size(), room);
}

void show_groups(Context& context, std::vector<Member>& members, const std::vector<NodeRun>& runs) {
  std::vector<NodeResult> results;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const NodeRun& run = runs[i];
    if (!run.ran) continue;
    std::string text = run.out;
    if (!text.empty() && !run.error.empty() && text.back() != '\n') text += '\n';
    text = overwritten(text + run.error);
    if (run.dropped > 0) text += fmt::format("\n({} bytes more; --stream shows all)", run.dropped);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (!text.empty()) results.push_back({members[i].spec.name, std::move(text)});
  }
  for (const ResultGroup& group : group_results(results)) {
    const std::string nodes = fold_names(group.nodes);
    if (group.text.find('\n') == group.text.npos) {
      context.console.result(fmt::format("{}: {}", nodes, group.text));
      continue;
    }
    context.console.result(nodes + ":");
    context.console.raw(escape_lines(group.text) + "\n");
  }
}

// One row for all nodes with the same outcome.
void show_ends(Context& context, std::vector<Member>& members, const std::vector<NodeRun>& runs) {
  std::vector<NodeResult> ends;
  for (std::size_t i = 0; i < members.size(); ++i)
    ends.push_back({members[i].spec.name, outcome_of(runs[i])});
  Table table{{{"nodes", "nodes"}, {"count", "count", 0, true}, {"result", "result"}}, {}};
  for (const ResultGroup& group : group_results(ends)) {
    table.rows.push_back({text_cell(fold_names(group.nodes)), number_cell(group.nodes.size()),
                          text_cell(group.text)});
  }
  context.console.table(table);
}

void show_json(Context& context, std::vector<Member>& members, const std::vector<NodeRun>& runs) {
  std::vector<Json> nodes;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const NodeRun& run = runs[i];
    Json::Fields fields = {{"node", members[i].spec.name},
                           {"ran", run.ran},
                           {"exit_code", run.ran ? Json(run.code()) : Json()},
                           {"timed_out", run.end.timed_out},
                           {"stdout", run.out},
                           {"stderr", run.error},
                           {"dropped_bytes", run.dropped}};
    if (members[i].error) fields.emplace_back("error", members[i].error->message);
    nodes.push_back(Json::object(fields));
  }
  context.console.json_line(Json::list(nodes));
}

Result<std::vector<std::string>> command_of(const ExecOptions& options) {
  if (options.shell.empty() == options.command.empty()) {
    return Error{Errc::kUsage, "give one command: after --, or one text with --shell",
                 "paddlectl exec -- uname -r, or paddlectl exec --shell 'ls | wc -l'"};
  }
  if (options.shell.empty()) return options.command;
  return std::vector<std::string>{"/bin/sh", "-c", options.shell};
}

Status run_on(Context& context, const ExecOptions& options, const remote::CommandSpec& command,
              std::size_t index, Member& member, NodeRun& run) {
  const bool stream = options.stream && !context.console.json();
  const auto output = [&](std::string_view text, bool is_stderr) {
    std::string& into = is_stderr ? run.error : run.out;
    run.printed = run.printed || !text.empty();
    if (stream) {
      stream_lines(context, index, member.spec.name, text, into, run);
    } else {
      keep(run, into, text);
    }
  };
  const auto is_over = [&] {
    return context.interrupted() || (stream && context.console.closed());
  };
  run.began = true;
  PADDLE_TRY(run.end, member.client->run(command, output, is_over));
  run.ran = true;
  for (std::string* rest : {&run.out, &run.error}) {
    const std::string left = overwritten(*rest);
    if (stream && !left.empty() && left != run.shown_state)
      context.console.labelled(index, member.spec.name, left);
    if (stream) rest->clear();
  }
  return {};
}

// The hint for a failed command, by the exit codes that a shell uses. `program`: "" for --shell,
// because the shell itself prints which program it did not find.
std::string next_step(const NodeRun& run, const std::string& program) {
  if (run.end.timed_out)
    return "the command takes longer than --timeout: raise the limit, or leave --timeout out";
  if (run.end.signal != 0)
    return fmt::format("signal {} ended the command on the node; paddlectl did not send it",
                       run.end.signal);
  if (!run.end.next_step.empty()) return program + ": " + run.end.next_step;
  const bool is_expanded_by_shells = program.starts_with('~') || program.find('$') != program.npos;
  if (run.end.exit_code == kNotFound && is_expanded_by_shells)
    return "no shell expands " + program + ": use --shell, or give the absolute path";
  if (run.end.exit_code == kNotFound && program.find(' ') != program.npos)
    return "give the program and each argument as a word of its own, or one text with --shell";
  if (run.end.exit_code == kNotFound && !program.empty()) {
    return fmt::format(
        "install {} on the node, or give its path; --shell runs commands that are built into the "
        "shell",
        program);
  }
  if (run.end.exit_code == kNotExecutable && !program.empty())
    return "make it executable on the node: chmod +x " + program;
  return run.printed ? "see the command's output above"
                     : fmt::format("the command printed nothing and exited with code {}",
                                   run.end.exit_code);
}

// The exit code is the highest one of all nodes; the hint is for a node with that code.
Status verdict(const std::vector<Member>& members, const std::vector<NodeRun>& runs,
               const std::string& program) {
  std::size_t failed = 0, of_command = 0;
  int worst = 0;
  std::string lost, hint, hint_of_lost;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int code = code_of(members[i], runs[i]);
    if (code > worst && runs[i].ran) hint = next_step(runs[i], program);
    worst = std::max(worst, code);
    failed += code != 0 ? 1 : 0;
    of_command += code != 0 && runs[i].ran && !runs[i].end.timed_out ? 1 : 0;
    if (!members[i].error) continue;
    lost += "\n" + members[i].error->message;
    if (hint_of_lost.empty()) hint_of_lost = members[i].error->hint;
  }
  if (failed == 0) return {};
  // A command's own exit code is not an error code of paddlectl, even if the numbers are equal.
  const char* const what = of_command == 0 ? "the command did not finish" : "the command failed";
  return Error{static_cast<Errc>(worst),
               fmt::format("{} on {} of {}{}", what, failed, counted(members.size(), "node"), lost),
               !lost.empty() && (of_command == 0 || hint.empty()) ? hint_of_lost : hint};
}

// Names the nodes on which the command may still be running.
Error interrupted(const std::vector<Member>& members, const std::vector<NodeRun>& runs) {
  std::vector<std::string> unknown;
  std::string reasons;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!runs[i].began || runs[i].ran) continue;
    unknown.push_back(members[i].spec.name);
    if (members[i].error) reasons += "\n" + members[i].error->message;
  }
  if (unknown.empty())
    return Error{Errc::kInterrupted, "interrupted; the command no longer runs on any node", ""};
  return Error{
      Errc::kInterrupted,
      fmt::format("interrupted; the command may still run on {}{}", fold_names(unknown), reasons),
      "an agent that lost its connection ends the command within two minutes; check those nodes "
      "then"};
}

Status run_exec(Context& context, const ExecOptions& options) {
  PADDLE_TRY(const std::vector<std::string> arguments, command_of(options));
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const std::vector<std::size_t> nodes, choose_nodes(context, cluster, options.on));
  const remote::CommandSpec command{arguments, context.limits.timeout};
  PADDLE_TRY_STATUS(remote::check_size(command));
  // Nodes are connected only while they run the command, so --parallel bounds connections too.
  ClusterSession session = ClusterSession::unconnected(cluster, nodes);
  std::vector<NodeRun> runs(nodes.size());
  (void)session.visit(context, [&](Member& member) {
    const std::size_t index = session.index_of(member);
    return run_on(context, options, command, index, member, runs[index]);
  });
  Status result = verdict(session.members(), runs, options.shell.empty() ? arguments.front() : "");
  if (context.console.json()) {
    show_json(context, session.members(), runs);
  } else {
    if (!options.stream) show_groups(context, session.members(), runs);
    if (!result) show_ends(context, session.members(), runs);
  }
  if (context.interrupted()) return interrupted(session.members(), runs);
  if (options.stream && context.console.closed()) return {};  // no reader, as after `| head`
  return result;
}

}  // namespace

Command exec_command() {
  return {"exec", "run a command on nodes; equal results are shown once",
          "  paddlectl exec -- uname -r\n"
          "  paddlectl exec --on node[01-04] --shell 'dmesg | tail -3'\n"
          "  paddlectl exec --stream --timeout 60 -- nvidia-smi",
          [] { return invocation(list_options, run_exec); }};
}

}  // namespace paddle::cli

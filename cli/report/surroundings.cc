#include "cli/report/surroundings.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/job/results.h"
#include "cli/report/output_files.h"

namespace paddle::cli {
namespace {

constexpr const char* kMachines = "machines.jsonl";
constexpr const char* kCommands = "commands.jsonl";

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-_./:=,@%+").find(c) != std::string_view::npos;
}

// "$'caf\xe9'", with what a terminal or JSON would not show as it is.
std::string ansi_c_quoted(std::string_view word) {
  std::string text;
  for (const char c : word) {
    if (c == '\'' || c == '\\') text += '\\';
    text += c;
  }
  return fmt::format("$'{}'", escape_control(text));
}

std::string shell_word(const std::string& word) {
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  if (escape_control(word) != word) return ansi_c_quoted(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// "KEY=VALUE" -> "KEY=...": values of --env may be secrets.
std::string without_value(const std::string& setting) {
  const std::size_t equals = setting.find('=');
  return equals == std::string::npos ? setting : setting.substr(0, equals) + "=...";
}

std::string as_typed(const std::vector<std::string>& arguments) {
  constexpr std::string_view kEnvironment = "--env";
  std::string text = "paddlectl";
  bool is_environment = false;  // the word before was --env
  for (const std::string& word : arguments) {
    std::string shown = word;
    if (is_environment) shown = without_value(word);
    if (word.starts_with("--env=")) {
      shown = "--env=" + without_value(word.substr(kEnvironment.size() + 1));
    }
    is_environment = word == kEnvironment;
    text += " " + shell_word(shown);
  }
  return text;
}

// Of `train`, those that are not for another start of the same job.
bool is_left_out(std::string_view word) {
  word = word.substr(0, word.find('='));  // --resume=false
  return word == "--resume" || word == "--dry-run";
}
bool is_left_out_with_value(std::string_view word) {
  word = word.substr(0, word.find('='));
  return word == "--name" || word == "--job" || word == "--from";
}

}  // namespace

std::string ResumeCommand::after(std::string_view lead) const {
  return fmt::format(
      "{}{}: {}", variables.empty() ? "" : fmt::format("export {}, then ", variables), lead, text);
}

ResumeCommand resume_command(const std::vector<std::string>& arguments, std::size_t command,
                             const std::string& job) {
  if (command >= arguments.size() || arguments[command] != "train") return {};
  std::vector<std::string> words{"paddlectl"};
  std::vector<std::string> variables;
  const auto add_variable = [&](std::string_view setting) {
    variables.emplace_back(setting.substr(0, setting.find('=')));
    words.insert(words.end(), {"--env", variables.back()});
  };
  const auto own_word = arguments.begin() + static_cast<std::ptrdiff_t>(command);
  const auto dashes = std::find(own_word, arguments.end(), "--");
  for (auto word = arguments.begin(); word != dashes; ++word) {
    const bool has_next = word + 1 != dashes;
    if (word == own_word) {
      words.insert(words.end(), {"train", "--resume", "--name", shell_word(job)});
    } else if (is_left_out_with_value(*word)) {
      if (word->find('=') == std::string::npos && has_next) ++word;
    } else if (*word == "--env" && has_next) {
      add_variable(*++word);
    } else if (word->starts_with("--env=")) {
      add_variable(std::string_view(*word).substr(std::string_view("--env=").size()));
    } else if (!is_left_out(*word)) {
      words.push_back(shell_word(*word));
    }
  }
  for (auto word = dashes; word != arguments.end(); ++word) words.push_back(shell_word(*word));
  return {fmt::format("{}", fmt::join(words, " ")), fmt::format("{}", fmt::join(variables, ", "))};
}

ResumeCommand resume_command_of(const std::string& job, const std::vector<std::string>& values) {
  std::string text = "paddlectl train --resume --name " + shell_word(job);
  for (const std::string& value : values) text += " --set " + shell_word(value);
  return {text + " <workspace>", ""};
}

Status write_machines(const std::string& folder, ClusterSession& session) {
  std::vector<std::string> lines(session.members().size());
  // A node that does not answer is left out.
  (void)session.each([&](Member& member) -> Status {
    PADDLE_TRY(const remote::HostFacts facts, member.client->facts());
    const Json machine =
        Json::object({{"node", member.spec.name},
                      {"processor", facts.processor},
                      {"os", facts.os},
                      {"kernel", facts.kernel},
                      {"gpus", fmt::format("{}", fmt::join(facts.gpu_models(), ", "))},
                      {"agent_version", facts.agent_version},
                      {"cores", facts.cores},
                      {"memory_bytes", facts.memory_bytes},
                      {"utc_offset_s", facts.utc_offset_s}});
    lines[session.index_of(member)] = machine.text() + "\n";
    return {};
  });
  return replace_file(folder + "/" + kMachines, as_bytes(fmt::format("{}", fmt::join(lines, ""))),
                      0644);
}

Status add_command(const Context& context, const std::string& output, const std::string& job,
                   const CommandRecord& started) {
  PADDLE_TRY(const std::filesystem::path folder,
             make_output_folder(context, output, job, "choose another --output"));
  const ResumeCommand resume = resume_command(context.arguments, context.command_at, job);
  const Json command = Json::object({{"unix_ms", context.unix_seconds() * 1000},
                                     {"command", as_typed(context.arguments)},
                                     {"version", kProgramVersion},
                                     {"resume", resume.text},
                                     {"variables", resume.variables},
                                     {"is_resume", started.is_resume ? 1 : 0},
                                     {"trainers", started.trainers},
                                     {"pservers", started.pservers}});
  const std::string path = folder / kCommands;
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file) return system_error(Errc::kResource, "open " + path);
  return write_all(file.get(), as_bytes(command.text() + "\n"), TimePoint::max());
}

std::vector<MachineRecord> read_machines(const std::string& folder) {
  std::vector<MachineRecord> machines;
  for (const FlatRecord& line : read_flat_records(folder + "/" + kMachines)) {
    MachineRecord machine{
        line.text("node"),    line.text("processor"),      line.text("os"),
        line.text("kernel"),  line.text("gpus"),           line.text("agent_version"),
        line.number("cores"), line.number("memory_bytes"), {}};
    if (const auto offset = line.any_number("utc_offset_s")) {
      machine.utc_offset_s = static_cast<std::int64_t>(*offset);
    }
    machines.push_back(std::move(machine));
  }
  return machines;
}

std::vector<CommandRecord> read_commands(const std::string& folder) {
  std::vector<CommandRecord> commands;
  for (const FlatRecord& line : read_flat_records(folder + "/" + kCommands)) {
    commands.push_back({static_cast<std::int64_t>(line.number("unix_ms")),
                        line.text("command"),
                        line.text("version"),
                        {line.text("resume"), line.text("variables")},
                        line.number("is_resume") > 0,
                        static_cast<std::size_t>(line.number("trainers")),
                        static_cast<std::size_t>(line.number("pservers"))});
  }
  return commands;
}

}  // namespace paddle::cli

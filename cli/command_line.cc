#include "cli/command_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/cluster/selection.h"
#include "cli/commands/commands.h"
#include "cli/console/console.h"
#include "cli/console/time_text.h"

namespace paddle::cli {
namespace {

// CLI11's own range check names no valid value when the text is not a number.
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

// Turns "10m" into seconds, for the check of the range that follows.
CLI::Validator duration() {
  return {[](std::string& text) {
            const auto span = parse_span(text);
            if (!span) return fmt::format("'{}' is not a duration; write 90s, 10m, 2h or 1d", text);
            text = std::to_string(*span / 1000);
            return std::string();
          },
          "", ""};
}

CLI::Validator one_of(const std::vector<std::string>& choices) {
  return {[choices](std::string& text) {
            if (std::ranges::find(choices, text) != choices.end()) return std::string();
            return fmt::format("unknown value '{}'; use one of: {}", text,
                               fmt::join(choices, ", "));
          },
          "", ""};
}

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

// The name by which CLI11 knows an option. An argument's name is in capitals, as in help: CLI11
// from 2.4 on refuses an argument "cluster" beside an option "--cluster".
std::string name_in_parser(std::string_view name) {
  return name.starts_with('-') ? std::string(name) : upper_case(std::string(name));
}

// Formats help so that an argument shows its own name, and an option the name of its value.
class HelpText : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_items_expected_max() == 0) return "";
    return " " + option->get_type_name();
  }
};

CLI::Option* add(CLI::App& app, const std::string& name, bool* flag, const std::string& help) {
  return app.add_flag(name, *flag, help);
}

CLI::Option* add(CLI::App& app, const std::string& name, std::optional<std::uint32_t>* value,
                 const std::string& help) {
  return app.add_option(name, *value, help);
}

template <class Value>
CLI::Option* add(CLI::App& app, const std::string& name, Value* value, const std::string& help) {
  CLI::Option* const option = app.add_option(name, *value, help);
  if constexpr (std::is_integral_v<Value>) return option;
  if (name.starts_with('-')) option->allow_extra_args(false);  // repeated, with one value each
  return option;
}

void add_options(CLI::App& app, const OptionList& options) {
  for (const Option& option : options) {
    CLI::Option* const added = std::visit(
        [&](auto* target) {
          return add(app, name_in_parser(option.name), target, std::string(option.help));
        },
        option.target);
    added->type_name(option.choices.empty()
                         ? std::string(value_name_of(option))
                         : fmt::format("{{{}}}", fmt::join(option.choices, ",")));
    added->required(option.required);
    if (!option.choices.empty()) added->check(one_of(option.choices));
    if (option.value_name == kDuration) added->transform(duration());
    if (option.is_number()) added->check(whole_number(option.min, option.max));
    for (const std::string& other : option.excludes) {
      added->excludes(app.get_option(name_in_parser(other)));
    }
  }
}

// CLI11 gives some words a special meaning: [a,b] is a list, ++ ends the command, and the next word
// replaces an empty value. A mark at the end of such a word hides it from CLI11.
constexpr char kMark = '\x1f';

void hide(std::string& word) {
  constexpr std::string_view kLastOfHidden = "]}%+=\x1f";
  if (word.empty() || kLastOfHidden.find(word.back()) != kLastOfHidden.npos) word += kMark;
}

void show(std::string& word) {
  if (word.ends_with(kMark)) word.pop_back();
}

void show_words(const OptionList& options) {
  for (const Option& option : options) {
    if (auto* const text = std::get_if<std::string*>(&option.target)) show(**text);
    if (option.list() != nullptr) std::ranges::for_each(*option.list(), show);
  }
}

// An empty value is most often a variable that is not set: `stop --job "$JOB"` must not stop the
// latest job, nor `exec --on "$NODE"` run everywhere.
Error is_empty(std::string_view name) {
  return {Errc::kUsage, fmt::format("{} is empty", name), "perhaps a variable is not set"};
}

Status refuse_empty(const OptionList& options, const CLI::App& app) {
  for (const Option& option : options) {
    const auto* const text = std::get_if<std::string*>(&option.target);
    if (text == nullptr || !(*text)->empty()) continue;
    const std::string name = name_in_parser(option.name.substr(0, option.name.find(',')));
    if (app.count(name) > 0) return is_empty(name);
  }
  return {};
}

std::string without_marks(std::string message) {
  std::erase(message, kMark);
  return message;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> names(known.begin(), known.end());
  const std::string near = nearest(word, names);
  return near.empty() ? "" : fmt::format(", did you mean '{}'?", near);
}

// Commands of `paddle`, and names that other programs use, each with the command to use instead.
using NameElsewhere = std::pair<std::string_view, std::string_view>;
constexpr std::array<NameElsewhere, 24> kCommandsElsewhere{{
    {"predict", "paddle predict"},
    {"serve", "paddle serve"},
    {"export", "paddle export"},
    {"nearest", "paddle nearest"},
    {"verify", "paddle verify"},
    {"pserver", "paddle pserver"},
    {"resume", "paddlectl train --resume"},
    {"start", "paddlectl train"},
    {"run", "paddlectl train"},
    {"submit", "paddlectl train"},
    {"kill", "paddlectl stop"},
    {"cancel", "paddlectl stop"},
    {"down", "paddlectl teardown"},
    {"destroy", "paddlectl teardown"},
    {"delete", "paddlectl rm"},
    {"remove", "paddlectl rm"},
    {"ps", "paddlectl status"},
    {"top", "paddlectl status"},
    {"ls", "paddlectl jobs"},
    {"list", "paddlectl jobs"},
    {"cp", "paddlectl put"},
    {"download", "paddlectl fetch"},
    {"ssh", "paddlectl exec"},
    {"shell", "paddlectl exec"},
}};

// Compares names without their dashes, which would make short names look alike.
std::string did_you_mean_flag(const std::string& flag, std::vector<std::string> known) {
  const auto name_of = [](const std::string& one) {
    return one.substr(std::min(one.find_first_not_of('-'), one.size()));
  };
  std::ranges::transform(known, known.begin(), name_of);
  const std::vector<std::string_view> names(known.begin(), known.end());
  const std::string near = nearest(name_of(flag), names);
  return near.empty() ? "" : fmt::format(", did you mean '--{}'?", near);
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// The program and its commands in CLI11, and the variables that options are read into.
class Parser {
 public:
  explicit Parser(const std::vector<Command>& commands) : commands_(commands) {
    app_.formatter(std::make_shared<HelpText>());
    app_.get_formatter()->label("SUBCOMMAND", "COMMAND");
    app_.footer(kExitCodes);
    add_options(app_, global_options(line_.global));
    app_.fallthrough();
    for (const Command& command : commands_) {
      Invocation& invocation = invocations_.emplace_back(command.invoke());
      CLI::App* const sub =
          app_.add_subcommand(std::string(command.name), std::string(command.summary));
      sub->footer(footer_of(command));
      if (!command.group.empty()) sub->group(std::string(command.group));
      add_options(*sub, invocation.options);
      if (!command.alias.empty()) sub->alias(std::string(command.alias));
    }
    app_.require_subcommand(0, 1);
  }

  std::string help() const { return wrapped(app_.help(), kHelpColumns); }

  Result<CommandLine> parse(std::vector<std::string> arguments) {
    PADDLE_TRY(line_.command_at, command_in(arguments));
    const std::string word =
        line_.command_at < arguments.size() ? arguments[line_.command_at] : std::string();
    PADDLE_TRY_STATUS(check_command(word));
    const auto dashes = std::ranges::find(arguments, "--");
    std::vector<std::string> after_dashes;
    if (dashes != arguments.end()) after_dashes.assign(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
    const std::vector<std::string> given = arguments;
    std::ranges::for_each(arguments, hide);
    std::ranges::reverse(arguments);  // CLI11 takes its vector from the back
    if (!after_dashes.empty()) require_no_argument(*app_.get_subcommand(word));
    try {
      app_.parse(arguments);
    } catch (const CLI::CallForHelp&) {
      const CLI::App* const sub = chosen();
      line_.help = sub == nullptr ? help() : wrapped(sub->help("paddlectl"), kHelpColumns);
      return std::move(line_);
    } catch (const CLI::ExtrasError& error) {
      return unknown_option(given, without_marks(error.what()));
    } catch (const CLI::RequiredError& error) {
      const std::string message = error.what();  // "files is required"
      return Error{
          Errc::kUsage,
          fmt::format("{} needs {}", word, upper_case(message.substr(0, message.find(' ')))),
          see_help(word)};
    } catch (const CLI::ArgumentMismatch& error) {
      const std::string message =
          without_marks(error.what());  // "--hosts: 1 required HOSTS missing"
      const std::size_t end = message.find(": 1 required ");
      return Error{Errc::kUsage,
                   end == message.npos ? message : message.substr(0, end) + " needs a value",
                   see_help(word)};
    } catch (const CLI::ExcludesError& error) {
      // The value of an unknown option counts as an argument, which another option may exclude.
      return unknown_option(given, without_marks(error.what()));
    } catch (const CLI::ParseError& error) {
      return Error{Errc::kUsage, without_marks(error.what()), see_help(word)};
    }
    show_words(global_options(line_.global));
    PADDLE_TRY_STATUS(refuse_empty(global_options(line_.global), app_));
    if (const CLI::App* const sub = chosen(); sub != nullptr) {
      const auto at = std::ranges::find(commands_, sub->get_name(), &Command::name);
      Invocation& invocation = invocations_[static_cast<std::size_t>(at - commands_.begin())];
      show_words(invocation.options);
      PADDLE_TRY_STATUS(refuse_empty(invocation.options, *sub));
      if (Status passed = pass_on(after_dashes, invocation.options, *sub); !passed) {
        Error error = std::move(passed).error();
        error.hint = see_help(word);
        return error;
      }
      note_names(invocation.options);
      line_.run = std::move(invocation.run);
    }
    return std::move(line_);
  }

 private:
  const CLI::App* chosen() const {
    const auto found = app_.get_subcommands();
    return found.empty() ? nullptr : found.front();
  }

  void note_names(const OptionList& options) {
    for (const Option& option : options) {
      const auto* const text = std::get_if<std::string*>(&option.target);
      if (text == nullptr || (*text)->empty()) continue;
      if (option.name == "cluster" || option.name == "--cluster") line_.cluster = **text;
      if (option.name == "workspace") line_.workspace = **text;
    }
  }

  // Makes the arguments optional, because the words after "--" are the first ones.
  static void require_no_argument(CLI::App& sub) {
    for (CLI::Option* const option : sub.get_options())
      if (option->get_positional()) option->required(false);
  }

  // Gives the words after "--" to the arguments that have no value yet, whatever the words look
  // like.
  static Status pass_on(const std::vector<std::string>& words, const OptionList& options,
                        const CLI::App& sub) {
    auto word = words.begin();
    for (const Option& option : options) {
      if (!option.is_positional() || word == words.end()) continue;
      if (std::vector<std::string>* const list = option.list(); list != nullptr) {
        list->insert(list->end(), word, words.end());
        return {};
      }
      if (sub.count(name_in_parser(option.name)) == 0) PADDLE_TRY_STATUS(set(option, *word++, sub));
    }
    if (word == words.end()) return {};
    return Error{Errc::kUsage,
                 fmt::format("The following {} not expected: {}",
                             words.end() - word == 1 ? "argument was" : "arguments were",
                             fmt::join(word, words.end(), " "))};
  }

  static Status set(const Option& argument, const std::string& word, const CLI::App& sub) {
    for (const std::string& other : argument.excludes) {
      if (sub.count(name_in_parser(other)) > 0) {
        return Error{Errc::kUsage,
                     fmt::format("{} excludes {}", name_in_parser(argument.name), other)};
      }
    }
    if (!argument.choices.empty()) {
      if (const std::string wrong = one_of(argument.choices)(word); !wrong.empty())
        return Error{Errc::kUsage, fmt::format("{}: {}", name_in_parser(argument.name), wrong)};
    }
    if (word.empty()) return is_empty(name_in_parser(argument.name));
    *std::get<std::string*>(argument.target) = word;
    return {};
  }

  // The index of the first word that is neither an option nor a global option's value; past the end
  // if there is none.
  Result<std::size_t> command_in(const std::vector<std::string>& arguments) const {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].starts_with('-')) return i;
      const std::size_t equals = arguments[i].find('=');
      const std::string name = arguments[i].substr(0, equals);
      const CLI::Option* const option = app_.get_option_no_throw(name);
      if (option == nullptr) {
        return Error{Errc::kUsage,
                     fmt::format("unknown option '{}' before the command{}", name,
                                 did_you_mean_flag(name, flags_of(app_))),
                     "put the options of a command after it: paddlectl status --cluster lab.toml"};
      }
      if (equals == std::string::npos && option->get_items_expected_max() > 0) ++i;
    }
    return arguments.size();
  }

  Status check_command(const std::string& word) const {
    if (word.empty()) return {};
    std::vector<std::string> names;
    for (const Command& command : commands_) names.emplace_back(command.name);
    for (const Command& command : commands_) {
      if (!command.alias.empty()) names.emplace_back(command.alias);
    }
    if (std::ranges::find(names, word) != names.end()) return {};
    const auto elsewhere = std::ranges::find(kCommandsElsewhere, word, &NameElsewhere::first);
    if (elsewhere != kCommandsElsewhere.end()) {
      return Error{Errc::kUsage, fmt::format("unknown command '{}'", word),
                   fmt::format("did you mean {0}? see {0} --help", elsewhere->second)};
    }
    return Error{Errc::kUsage,
                 fmt::format("unknown command '{}'{}", word, did_you_mean(word, names)),
                 "see paddlectl --help"};
  }

  // Uses the word from the command line: after a failed parse CLI11 has no chosen command.
  std::string see_help(const std::string& word) const {
    const bool known = std::ranges::find(commands_, word, &Command::name) != commands_.end();
    return known ? fmt::format("see paddlectl {} --help", word) : "see paddlectl --help";
  }

  // The command line with "--" before the first word that is neither an option of paddlectl nor the
  // value of one. "" if there is no such word.
  std::string with_dashes(std::vector<std::string> arguments, const CLI::App& sub) const {
    for (std::size_t i = line_.command_at + 1; i < arguments.size(); ++i) {
      const std::size_t equals = arguments[i].find('=');
      const std::string name = arguments[i].substr(0, equals);
      if (!name.starts_with('-')) {
        arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(i), "--");
        return fmt::format("paddlectl {}", fmt::join(arguments, " "));
      }
      const CLI::Option* option = sub.get_option_no_throw(name);
      if (option == nullptr) option = app_.get_option_no_throw(name);
      if (option != nullptr && equals == std::string::npos && option->get_items_expected_max() > 0)
        ++i;
    }
    return "";
  }

  Error unknown_option(const std::vector<std::string>& arguments,
                       const std::string& message) const {
    const CLI::App* const sub = chosen();
    if (sub == nullptr) return {Errc::kUsage, message, "see paddlectl --help"};
    const std::string line = sub->get_name() == "exec" ? with_dashes(arguments, *sub) : "";
    if (!line.empty()) return {Errc::kUsage, message, "put -- before the command: " + line};
    Error error{Errc::kUsage, message, fmt::format("see paddlectl {} --help", sub->get_name())};
    std::vector<std::string> known = flags_of(*sub);
    for (std::string& flag : flags_of(app_)) known.push_back(std::move(flag));
    for (const std::string& argument : arguments) {
      const std::string flag = argument.substr(0, argument.find('='));
      if (!flag.starts_with("--") || std::ranges::find(known, flag) != known.end()) continue;
      std::string way = way_without(flag, *sub);
      const bool is_job = has_jobs(*sub) && is_job_option(flag);
      const std::string meant = is_job ? "" : did_you_mean_flag(flag, known);
      error.message = fmt::format("unknown option '{}'{}", flag, meant);
      if (meant.empty() && !way.empty()) error.hint = std::move(way);
      break;
    }
    return error;
  }

  // A hint for an option that this command lacks: name the job without an option, or change a key
  // of job.toml.
  static std::string way_without(const std::string& flag, const CLI::App& sub) {
    if (has_jobs(sub) && is_job_option(flag))
      return fmt::format("name jobs without an option: paddlectl {} JOB", sub.get_name());
    if (sub.get_option_no_throw("--set") == nullptr) return "";
    return fmt::format(
        "--set changes keys of job.toml: --set train.passes=3; for options see paddlectl {} --help",
        sub.get_name());
  }

  static bool is_job_option(const std::string& flag) { return flag == "--job" || flag == "--name"; }
  static bool has_jobs(const CLI::App& sub) {
    return sub.get_option_no_throw(name_in_parser("jobs")) != nullptr;
  }

  const std::vector<Command>& commands_;
  CommandLine line_;
  std::vector<Invocation> invocations_;
  CLI::App app_{kAbout, "paddlectl"};
};

// Parses the command line, runs the command and reports its error.

// The path of the file, relative if it is in the current directory.
std::string shown_file(const Context& context, const std::string& file) {
  const std::string inside =
      std::filesystem::path(file).lexically_relative(context.directory).string();
  return inside.empty() || inside.starts_with("..") ? file : inside;
}

void replace(std::string& text, std::string_view what, const std::string& with) {
  if (const auto at = text.find(what); at != text.npos) text.replace(at, what.size(), with);
}

// Replaces <cluster file> and <workspace> in the hint by the names that the command line gives;
// without --cluster, by the current cluster.
std::string with_names(const Context& context, std::string hint, const CommandLine& line) {
  std::string cluster = line.cluster;
  if (const auto current = find_current(context.directory); cluster.empty() && current)
    cluster = shown_file(context, current->file);
  if (!cluster.empty()) replace(hint, "<cluster file>", cluster);
  if (line.workspace == ".") {
    replace(hint, " <workspace>", "");  // the command line gives no folder either
  } else if (!line.workspace.empty()) {
    replace(hint, "<workspace>", line.workspace);
  }
  return hint;
}

int report(Context& context, Error error, const CommandLine& given = {}) {
  error.hint = with_names(context, std::move(error.hint), given);
  context.console.end_progress();
  const bool asked_for = error.code == Errc::kInterrupted || error.code == Errc::kResumable;
  if (asked_for && !context.console.json()) {
    // The user asked for this end, so it is a note, not an error.
    std::istringstream lines(error.message + (error.hint.empty() ? "" : "\n" + error.hint));
    for (std::string line; std::getline(lines, line);) context.console.note(line);
  } else {
    if (error.hint.empty()) error.hint = next_step(error);
    context.console.error(error);
  }
  return static_cast<int>(error.code);
}

}  // namespace

bool wants_json(const std::vector<std::string>& arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  return std::any_of(arguments.begin(), dashes, [](const std::string& word) {
    return word == "--json" || word == "--json=true";
  });
}

Result<CommandLine> parse_command_line(const std::vector<Command>& commands,
                                       std::vector<std::string> arguments) {
  return Parser(commands).parse(std::move(arguments));
}

std::string program_help(const std::vector<Command>& commands) {
  return Parser(commands).help();
}

Result<std::string> command_help(const std::vector<Command>& commands, const std::string& command) {
  if (command.empty()) return program_help(commands);
  PADDLE_TRY(const CommandLine line, parse_command_line(commands, {command, "--help"}));
  return line.help;
}

int run_app(Context& context, std::vector<std::string> arguments) {
  context.arguments = arguments;
  if (!arguments.empty() && arguments.front() == "__complete") {
    complete(context, {arguments.begin() + 1, arguments.end()});
    return 0;
  }
  context.console.set_json(wants_json(arguments));
  const auto line = parse_command_line(all_commands(), std::move(arguments));
  if (!line) return report(context, line.error());
  context.command_at = line->command_at;
  context.help = [](const std::string& command) { return command_help(all_commands(), command); };
  if (!line->help.empty()) {
    context.console.raw(line->help);
    return 0;
  }
  context.console.set_json(line->global.json);
  if (line->global.version) {
    (void)version_command().invoke().run(context);
    return 0;
  }
  if (!line->run && context.console.json()) {
    return report(context, {Errc::kUsage, "no command was given", "see paddlectl --help"});
  }
  if (!line->run) {
    context.console.raw(program_help(all_commands()));
    return static_cast<int>(Errc::kUsage);
  }
  context.limits = {std::chrono::seconds(line->global.timeout), line->global.parallel,
                    line->global.allow_proxy_command};
  if (!line->global.password_file.empty() && context.answers != nullptr) {
    if (const Status read = context.answers->use_password_file(line->global.password_file); !read)
      return report(context, read.error());
  }
  const Status done = line->run(context);
  return done ? 0 : report(context, done.error(), *line);
}

}  // namespace paddle::cli

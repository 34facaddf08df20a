#include "engine/commands/flags.h"

#include <algorithm>
#include <charconv>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace paddle::commands {
namespace {

constexpr std::size_t kFlagColumns = 26;

// A flag, with its description beside it on as many lines as needed. A long flag has a line of its
// own.
std::string help_entry(const std::string& head, std::string_view text, std::size_t width) {
  std::string all = fmt::format("  {:<{}}", head, kFlagColumns - 2);
  if (head.size() > kFlagColumns - 3) all = fmt::format("  {}\n{:{}}", head, "", kFlagColumns);
  std::size_t column = kFlagColumns;
  bool is_first = true;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!is_first && column + 1 + word.size() > width) {
      all += fmt::format("\n{:{}}", "", kFlagColumns);
      column = kFlagColumns;
    } else if (!is_first) {
      all += ' ';
      ++column;
    }
    all += word;
    column += word.size();
    is_first = false;
  }
  return all + "\n";
}

Result<std::uint64_t> parse_number(const std::string& text, std::uint64_t min, std::uint64_t max) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && at == end && value >= min && value <= max) return value;
  return Error{Errc::kUsage,
               fmt::format("'{}' is not a whole number from {} to {}", text, min, max)};
}

std::string check_boolean(const std::string& text) {
  for (const char* const known : {"true", "1", "True", "false", "0", "False"}) {
    if (text == known) return "";
  }
  return fmt::format("'{}' is neither true nor false", text);
}

constexpr const char* kBoolean = "--{0},!--no{0}";

CLI::Option& as_boolean(CLI::Option* option) {
  option->check(CLI::Validator(check_boolean, ""))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return *option;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// A path without a flag is most likely the value of the first of these flags that is not given yet.
std::string hint_for_value(const CLI::App& app, const std::string& value) {
  const bool is_config = value.ends_with(".toml");
  for (const char* const name : {"--snapshot", "--data", "--config"}) {
    const CLI::Option* const option = app.get_option_no_throw(name);
    const bool fits = is_config == (std::string_view(name) == "--config");
    if (option != nullptr && fits && option->count() == 0)
      return fmt::format("write the name of the flag before the value: {}={}", name, value);
  }
  return "see --help";
}

Error unknown_flag(const CLI::App& app, const std::string& argument) {
  if (!argument.starts_with("--") || argument.size() == 2) {
    return {Errc::kUsage, fmt::format("'{}' is not a flag", argument),
            hint_for_value(app, argument)};
  }
  const std::string name = argument.substr(2, argument.find('=') - 2);
  std::vector<std::string_view> names;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_lnames().empty()) names.push_back(option->get_lnames()[0]);
  }
  std::string near = nearest(name, names);
  for (const std::string_view longer : names) {  // --num_passes for --passes
    if (near.empty() && longer.ends_with("_" + name)) near = longer;
  }
  const bool has_set = std::ranges::find(names, "set") != names.end();
  const std::string help =
      has_set
          ? "set keys of job.toml by --set, as in --set=train.batch_size=64; --help lists the flags"
          : "see --help";
  return {Errc::kUsage, fmt::format("unknown flag '--{}'", name),
          near.empty() ? help : fmt::format("did you mean '--{}'?", near)};
}

}  // namespace

FlagSet::FlagSet() : app_(std::make_unique<CLI::App>()) {
  app_->set_help_flag();
  app_->allow_extras();
}

FlagSet::~FlagSet() = default;

// CLI11 would read 010 as eight and [a,b] as two values; the conversions here do not.
void FlagSet::add(const std::string& name, const std::string& help, const std::string& otherwise,
                  const Apply& apply) {
  const CLI::callback_t set = [name, apply](const CLI::results_t& values) {
    for (const std::string& value : values) {
      if (const Status status = apply(value); !status) {
        throw CLI::ValidationError("--" + name, status.error().message);
      }
    }
    return true;
  };
  app_->add_option("--" + name, set, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->default_str(otherwise);
}

void FlagSet::text(const std::string& name, const std::string& help, std::string& target) {
  add(name, help, target, [&target](const std::string& value) -> Status {
    target = value;
    return {};
  });
}

void FlagSet::positional(const std::string& name, const std::string& help, std::string& target) {
  app_->add_option(name, target, help);
}

// Not an option of CLI11, which would read [a,b] as two values.
void FlagSet::positionals(const std::string& name, const std::string& help,
                          std::vector<std::string>& target) {
  positionals_ = &target;
  positionals_name_ = name;
  positionals_help_ = help;
}

void FlagSet::number(const std::string& name, const std::string& help, std::uint32_t& target,
                     std::uint32_t min, std::uint32_t max) {
  add(name, help, std::to_string(target), [&target, min, max](const std::string& value) -> Status {
    PADDLE_TRY(const std::uint64_t parsed, parse_number(value, min, max));
    target = static_cast<std::uint32_t>(parsed);
    return {};
  });
}

void FlagSet::number(const std::string& name, const std::string& help, std::uint64_t& target) {
  add(name, help, std::to_string(target), [&target](const std::string& value) -> Status {
    PADDLE_TRY(target, parse_number(value, 0, UINT64_MAX));
    return {};
  });
}

void FlagSet::boolean(const std::string& name, const std::string& help, bool& target) {
  as_boolean(app_->add_flag(fmt::format(kBoolean, name), target, help))
      .default_str(target ? "true" : "false");
}

void FlagSet::boolean(const std::string& name, const std::string& help,
                      std::optional<bool>& target) {
  as_boolean(app_->add_flag_function(
      fmt::format(kBoolean, name), [&target](std::int64_t value) { target = value > 0; }, help));
}

void FlagSet::list(const std::string& name, const std::string& help,
                   std::vector<std::string>& target) {
  add(name, help, fmt::format("{}", fmt::join(target, ",")),
      [&target](const std::string& value) -> Status {
        target = split(value, ',');
        std::erase(target, "");
        return {};
      });
}

void FlagSet::repeated(const std::string& name, const std::string& help,
                       std::vector<std::string>& target) {
  add(name, help, "", [&target](const std::string& value) -> Status {
    target.push_back(value);
    return {};
  });
  repeated_.insert("--" + name);
}

Status FlagSet::parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (const std::string& argument : arguments) {
    const bool is_emptied = argument.starts_with("--") && argument.find('=') + 1 == argument.size();
    words.push_back(argument.substr(0, argument.size() - (is_emptied ? 1 : 0)));
    if (is_emptied) words.emplace_back();  // else CLI11 would take the next flag for the value
  }
  std::ranges::reverse(words);  // CLI11 reads from the back
  try {
    app_->parse(std::move(words));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string message = error.what();
    return Error{Errc::kUsage, message.substr(0, message.find(':')) + " needs a value"};
  } catch (const CLI::ParseError& error) {
    return Error{Errc::kUsage, error.what()};
  }
  for (std::string& argument : app_->remaining()) {
    if (positionals_ == nullptr || argument.starts_with("--")) return unknown_flag(*app_, argument);
    positionals_->push_back(std::move(argument));
  }
  return {};
}

Status FlagSet::parse_environment(const char* const* environment) {
  constexpr std::string_view kPrefix = "PADDLE_INIT_";
  for (; *environment != nullptr; ++environment) {
    const std::string entry(*environment);
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string::npos) continue;
    std::string flag = "--" + entry.substr(kPrefix.size(), equals - kPrefix.size());
    for (char& c : flag) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (app_->get_option_no_throw(flag) == nullptr) continue;
    const std::string value = entry.substr(equals + 1);
    std::vector<std::string> words;
    for (const std::string& one :
         repeated_.contains(flag) ? split(value, '\n') : std::vector{value})
      words.push_back(fmt::format("{}={}", flag, one));
    if (Status status = parse(words); !status) {
      Error error = std::move(status).error();
      if (error.message.starts_with(flag)) error.message.replace(0, flag.size(), entry, 0, equals);
      return error;
    }
  }
  return {};
}

std::string FlagSet::help(std::size_t width) const {
  std::string text;
  if (positionals_ != nullptr) text = help_entry(positionals_name_, positionals_help_, width);
  for (const CLI::Option* option : app_->get_options()) {
    const bool takes_value = option->get_items_expected_max() > 0;
    const std::string head = option->get_positional()
                                 ? option->get_name(true)
                                 : "--" + option->get_lnames()[0] + (takes_value ? "=..." : "");
    const std::string otherwise = option->get_default_str();
    const std::string shown = otherwise.empty() ? "" : fmt::format(" ({})", otherwise);
    text += help_entry(head, option->get_description() + shown, width);
  }
  return text;
}

}  // namespace paddle::commands

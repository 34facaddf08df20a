#include "engine/commands/flags.h"

#include <charconv>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle {
namespace {

Result<std::uint64_t> parse_number(const std::string& text, std::uint64_t min, std::uint64_t max) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && at == end && !text.empty() && value >= min && value <= max) {
    return value;
  }
  return Error{Errc::kUsage,
               fmt::format("'{}' is not a whole number from {} to {}", text, min, max), ""};
}

Result<bool> parse_boolean(const std::string& text) {
  if (text == "true" || text == "1" || text == "True") return true;
  if (text == "false" || text == "0" || text == "False") return false;
  return Error{Errc::kUsage, fmt::format("'{}' is neither true nor false", text), ""};
}

}  // namespace

void FlagSet::text(std::string name, std::string help, std::string& target) {
  flags_.push_back({std::move(name), std::move(help), target, false,
                    [&target](const std::string& value) -> Status {
                      target = value;
                      return {};
                    }});
}

void FlagSet::number(std::string name, std::string help, std::uint32_t& target, std::uint32_t min,
                     std::uint32_t max) {
  flags_.push_back({std::move(name), std::move(help), std::to_string(target), false,
                    [&target, min, max](const std::string& value) -> Status {
                      PADDLE_TRY(const std::uint64_t parsed, parse_number(value, min, max));
                      target = static_cast<std::uint32_t>(parsed);
                      return {};
                    }});
}

void FlagSet::number(std::string name, std::string help, std::uint64_t& target) {
  flags_.push_back({std::move(name), std::move(help), std::to_string(target), false,
                    [&target](const std::string& value) -> Status {
                      PADDLE_TRY(target, parse_number(value, 0, UINT64_MAX));
                      return {};
                    }});
}

void FlagSet::boolean(std::string name, std::string help, bool& target) {
  flags_.push_back({std::move(name), std::move(help), target ? "true" : "false", true,
                    [&target](const std::string& value) -> Status {
                      PADDLE_TRY(target, parse_boolean(value));
                      return {};
                    }});
}

void FlagSet::repeated(std::string name, std::string help, std::vector<std::string>& target) {
  flags_.push_back(
      {std::move(name), std::move(help), "", false, [&target](const std::string& value) -> Status {
         for (std::size_t begin = 0; begin <= value.size();) {
           const std::size_t end = std::min(value.find('\n', begin), value.size());
           target.push_back(value.substr(begin, end - begin));
           begin = end + 1;
         }
         return {};
       }});
}

const FlagSet::Flag* FlagSet::find(std::string_view name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

Error FlagSet::unknown(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const Flag& flag : flags_) names.push_back(flag.name);
  const std::string near = nearest(name, names);
  return {Errc::kUsage, fmt::format("unknown flag '--{}'", name),
          near.empty() ? "see --help" : fmt::format("did you mean '--{}'?", near)};
}

Status FlagSet::set(std::string_view name, const std::string& value, const std::string& origin) {
  const Flag* const flag = find(name);
  if (flag == nullptr) return unknown(name);
  if (Status status = flag->apply(value); !status) return std::move(status).error().with(origin);
  return {};
}

Status FlagSet::parse(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--") || argument.size() == 2) {
      return Error{Errc::kUsage, fmt::format("'{}' is not a flag", argument), "see --help"};
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const Flag* const flag = find(name);
    std::string value;
    if (flag == nullptr) {
      const bool negated = equals == std::string::npos && name.starts_with("no");
      const Flag* const positive = negated ? find(std::string_view(name).substr(2)) : nullptr;
      if (positive == nullptr || !positive->is_boolean) return unknown(name);
      PADDLE_TRY_STATUS(positive->apply("false"));
      continue;
    }
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (flag->is_boolean) {
      value = "true";
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return Error{Errc::kUsage, fmt::format("--{} needs a value", name), ""};
    }
    if (Status status = flag->apply(value); !status) {
      return std::move(status).error().with("--" + name);
    }
  }
  return {};
}

std::string FlagSet::help() const {
  std::string text;
  for (const Flag& flag : flags_) {
    const std::string head = "--" + flag.name + (flag.is_boolean ? "" : "=...");
    text += fmt::format("  {:<28} {}{}\n", head, flag.help,
                        flag.otherwise.empty() ? "" : fmt::format(" ({})", flag.otherwise));
  }
  return text;
}

}  // namespace paddle

#include "remote/agent/process/arguments.h"

#include <unistd.h>

#include <algorithm>

#include "remote/agent/process/record.h"

namespace paddle::agent {
namespace {

// Replaces every `mark` in the text by `value`.
void fill_in(std::string& text, std::string_view mark, const std::string& value) {
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    text.replace(at, mark.size(), value);
    at += value.size();
  }
}

// The name itself if it has a '/', else the first match in the PATH among `variables`. A missing
// program gets a path that execve(2) refuses.
std::string find_program(const std::string& name, const std::vector<std::string>& variables) {
  if (name.find('/') != std::string::npos) return name;
  for (const std::string& variable : variables) {
    if (!variable.starts_with("PATH=")) continue;
    for (std::size_t begin = 5; begin <= variable.size();) {
      const std::size_t end = std::min(variable.find(':', begin), variable.size());
      const std::string path = variable.substr(begin, end - begin) + "/" + name;
      if (path.starts_with('/') && ::access(path.c_str(), X_OK) == 0) return path;
      begin = end + 1;
    }
  }
  return "/nonexistent/" + name;  // execve reports the error
}

}  // namespace

Program program_of(const wire::agent::ProcessSpec& spec, const Root& root, std::uint32_t life,
                   const Environment& environment) {
  const auto filled = [&](std::string text) {
    fill_in(text, "{root}", root.path);
    fill_in(text, "{life}", std::to_string(life));
    fill_in(text, "{again}", life > 1 ? "true" : "false");
    return text;
  };
  Program program;
  program.name = spec.program().empty() ? spec.arguments(0) : spec.program();
  std::vector<std::string>& arguments = program.arguments;
  std::vector<std::string>& variables = program.variables;
  if (!spec.program().empty()) arguments.push_back(root.path + "/" + spec.program());
  for (const auto& argument : spec.arguments()) arguments.push_back(filled(argument));
  for (const auto& variable : environment) {
    if (!spec.environment().contains(variable.substr(0, variable.find('='))))
      variables.push_back(variable);
  }
  for (const auto& [name, value] : spec.environment()) {
    variables.push_back(name + "=" + filled(value));
  }
  variables.push_back(std::string(kProcessVariable) + "=" +
                      process_mark(root, spec.job(), spec.name()));
  program.sends_notices = !spec.program().empty();  // one of ours
  if (program.sends_notices) {
    variables.push_back("PADDLECTL_NOTICE_FD=" + std::to_string(kNoticeFd));
  }
  if (spec.program().empty()) arguments[0] = find_program(arguments[0], variables);
  return program;
}

}  // namespace paddle::agent

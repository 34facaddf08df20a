#include "remote/agent/process/arguments.h"

#include <unistd.h>

#include <algorithm>

namespace paddle::agent {

void fill_in(std::string& text, std::string_view mark, const std::string& value) {
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    text.replace(at, mark.size(), value);
    at += value.size();
  }
}

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
  return "/nonexistent/" + name;  // execve says the rest
}

}  // namespace paddle::agent

#include "cli/workspace/trainer_environment.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paddle::cli {
namespace {

using Variables = std::map<std::string, std::string>;

// Sets v0.10's variables: addresses and their common port. Where ports differ, each address has its
// own.
void name_pservers(const std::vector<std::string>& endpoints, Variables& variables) {
  std::vector<std::string> hosts;
  std::string port;
  for (const std::string& endpoint : endpoints) {
    const auto colon = endpoint.rfind(':');
    const std::string own = endpoint.substr(colon + 1);
    if (!port.empty() && own != port) hosts.clear();
    if (port.empty()) port = own;
    if (own != port) break;
    hosts.push_back(endpoint.substr(0, colon));
  }
  variables["PADDLE_INIT_PORT"] = port;
  variables["PADDLE_INIT_PSERVERS"] =
      fmt::format("{}", fmt::join(hosts.size() == endpoints.size() ? hosts : endpoints, ","));
}

bool is_variable(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

Variables trainer_environment(const std::vector<std::string>& arguments, const OwnTrainer& own) {
  Variables variables;
  for (const std::string& argument : arguments) {
    if (!argument.starts_with("--")) continue;
    const auto equals = argument.find('=');
    std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const std::string value = equals == std::string::npos ? "true" : argument.substr(equals + 1);
    for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    std::string& variable = variables["PADDLE_INIT_" + name];
    variable = name == "SET" && !variable.empty() ? variable + "\n" + value : value;
  }
  name_pservers(own.pservers, variables);
  variables["PADDLE_INIT_TRAINER_COUNT"] = fmt::format("{}", own.trainer_count);
  variables["PADDLE_INIT_USE_GPU"] = "0";
  variables["PADDLE_PROGRAM"] = own.engine;
  variables["TRAINING_ROLE"] = "TRAINER";
  variables["PADDLE_TRAINER_ID"] = fmt::format("{}", own.index);
  variables["PADDLE_TRAINERS_NUM"] = fmt::format("{}", own.trainers.size());
  variables["PADDLE_PSERVERS_IP_PORT_LIST"] = fmt::format("{}", fmt::join(own.pservers, ","));
  variables["PADDLE_TRAINER_ENDPOINTS"] = fmt::format("{}", fmt::join(own.trainers, ","));
  variables["PADDLE_CURRENT_ENDPOINT"] = own.trainers[own.index];
  return variables;
}

Result<Variables> parse_environment(const std::vector<std::string>& items) {
  Variables variables;
  for (const std::string& item : items) {
    const auto equals = item.find('=');
    const std::string name = item.substr(0, equals);
    if (equals == std::string::npos || !is_variable(name) || name.starts_with("PADDLECTL_")) {
      return Error{Errc::kUsage, fmt::format("--env '{}' is not KEY=VALUE", item),
                   "a key is letters, digits and '_'; those of PADDLECTL_ are taken"};
    }
    variables[name] = item.substr(equals + 1);
  }
  return variables;
}

}  // namespace paddle::cli

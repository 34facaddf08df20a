#include "cli/job/trainer_environment.h"

#include <stdlib.h>

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/text.h"
#include "base/text_file.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kEnvironmentBytesMax = 1U << 20U;  // limit of --env-file

using Variables = std::map<std::string, std::string>;

// Sets the variables of Fluid and v0.10: addresses and their common port. If the ports differ, each
// address includes its own port.
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
  variables["PADDLE_PSERVERS_IP_PORT_LIST"] = fmt::format("{}", fmt::join(endpoints, ","));
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
    variables["PADDLE_INIT_" + name] = value;
  }
  if (!own.pservers.empty()) name_pservers(own.pservers, variables);
  variables["PADDLE_INIT_TRAINER_COUNT"] = fmt::format("{}", own.trainer_count);
  variables["PADDLE_INIT_USE_GPU"] = own.gpus.empty() ? "0" : "1";
  variables["PADDLE_PROGRAM"] = own.engine;
  variables["TRAINING_ROLE"] = "TRAINER";
  variables["PADDLE_TRAINER_ID"] = fmt::format("{}", own.index);
  variables["PADDLE_TRAINERS_NUM"] = fmt::format("{}", own.trainers.size());
  variables["PADDLE_TRAINER_ENDPOINTS"] = fmt::format("{}", fmt::join(own.trainers, ","));
  variables["PADDLE_CURRENT_ENDPOINT"] = own.trainers[own.index];
  variables["PADDLE_RANK_IN_NODE"] = fmt::format("{}", own.local_index);
  if (!own.gpus.empty()) {
    variables["FLAGS_selected_gpus"] = fmt::format("{}", own.gpus[own.index]);
    variables["PADDLE_LOCAL_DEVICE_IDS"] = variables["FLAGS_selected_gpus"];
    variables["PADDLE_WORLD_DEVICE_IDS"] = fmt::format("{}", fmt::join(own.gpus, ","));
  }
  variables["MASTER_ADDR"] = own.master_address;
  variables["MASTER_PORT"] = fmt::format("{}", own.master_port);
  variables["RANK"] = variables["PADDLE_TRAINER_ID"];
  variables["WORLD_SIZE"] = variables["PADDLE_TRAINERS_NUM"];
  variables["LOCAL_RANK"] = variables["PADDLE_RANK_IN_NODE"];
  variables["LOCAL_WORLD_SIZE"] = fmt::format("{}", own.local_count);
  return variables;
}

Variables network_environment(const std::string& address, const std::string& interface) {
  // Without it NCCL opens a port for its RAS service, which answers any process of the node.
  Variables variables{{"NCCL_HOSTID", address}, {"NCCL_RAS_ENABLE", "0"}};
  if (interface.empty()) return variables;
  variables["NCCL_SOCKET_IFNAME"] = "=" + interface;  // '=': this name only, not a prefix
  variables["GLOO_SOCKET_IFNAME"] = interface;
  return variables;
}

namespace {

// Adds one item; `source` names its origin in errors.
Status add_variable(const std::string& item, const std::string& source, Variables& variables) {
  const auto equals = item.find('=');
  const std::string name = item.substr(0, equals);
  if (!is_variable_name(name) || name.starts_with("PADDLECTL_")) {
    return Error{
        Errc::kUsage, fmt::format("{}: '{}' is not NAME=VALUE", source, item),
        "a name has letters, digits and '_'; those that begin with PADDLECTL_ are reserved"};
  }
  const char* const own = ::getenv(name.c_str());
  if (equals == std::string::npos && own == nullptr) {
    return Error{Errc::kUsage, fmt::format("{}: '{}' is not set here", source, name),
                 fmt::format("set it: export {0}=..., or give it: {0}=VALUE", name)};
  }
  variables[name] = equals == std::string::npos ? own : item.substr(equals + 1);
  return {};
}

}  // namespace

Result<Variables> parse_environment(const std::vector<std::string>& items) {
  Variables variables;
  for (const std::string& item : items) PADDLE_TRY_STATUS(add_variable(item, "--env", variables));
  return variables;
}

Result<Variables> read_environment_file(const std::string& path) {
  auto text = read_file_or_pipe(path, kEnvironmentBytesMax);
  if (!text) return Error{Errc::kUsage, text.error().message, "name an existing --env-file"};
  if (is_utf16(*text)) return Error{Errc::kUsage, path + " is in UTF-16", "save it as UTF-8"};
  Variables variables;
  std::istringstream lines(text_of_lines(*std::move(text)));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    while (line.ends_with('\r') || line.ends_with(' ')) line.pop_back();
    line.erase(0, line.find_first_not_of(' '));
    if (line.empty() || line.starts_with('#')) continue;
    PADDLE_TRY_STATUS(add_variable(line, fmt::format("{}:{}", path, number), variables));
  }
  return variables;
}

}  // namespace paddle::cli

// The environment of a user's own trainer program: the variables that the launchers of v0.10, Fluid
// and torch set, and variables with which it can start `paddle train` without flags.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

struct OwnTrainer {
  std::uint32_t index = 0;
  std::size_t local_index = 0, local_count = 1;  // among the trainers of its node
  std::uint32_t trainer_count = 1;               // threads
  std::string engine;                            // path of `paddle`
  const std::vector<std::string>& pservers;      // "address:first port", by number
  const std::vector<std::string>& trainers;      // "address:port" for the program's use, by number
  const std::vector<std::size_t>& gpus;  // index in CUDA_VISIBLE_DEVICES, by trainer; or empty
  std::string master_address;            // rendezvous address of torch's processes
  std::uint16_t master_port = 0;
};

// `arguments`: the arguments that `paddle train` would get; each --flag=value becomes
// PADDLE_INIT_FLAG=value.
std::map<std::string, std::string> trainer_environment(const std::vector<std::string>& arguments,
                                                       const OwnTrainer& own);

// For NCCL and gloo: the interface of the node's data plane ("": not known), a name that identifies
// the host, and no port for NCCL's RAS service. The user's own settings take precedence.
std::map<std::string, std::string> network_environment(const std::string& address,
                                                       const std::string& interface);

// Variables from the "NAME=VALUE" items of --env; "NAME" alone gets its value from paddlectl's
// environment. kUsage: any other item, a "KEY" that is not set here, or a PADDLECTL_ key.
Result<std::map<std::string, std::string>> parse_environment(const std::vector<std::string>& items);
// parse_environment() for the lines of a file; lines that are blank or begin with '#' are ignored.
Result<std::map<std::string, std::string>> read_environment_file(const std::string& path);

}  // namespace paddle::cli

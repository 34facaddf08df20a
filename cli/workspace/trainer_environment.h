// The environment of a trainer program of the user: the variables of v0.10's, Fluid's and torch's
// launchers, and those that let it start `paddle train` without a flag.
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
  const std::vector<std::string>& trainers;      // "address:port" for its own use, by number
  const std::vector<std::size_t>& gpus;          // in CUDA_VISIBLE_DEVICES, by trainer; or none
  std::string master_address;                    // where torch's processes meet
  std::uint16_t master_port = 0;
};

// `arguments`: those of `paddle train` in its stead; each --flag=value becomes
// PADDLE_INIT_FLAG=value.
std::map<std::string, std::string> trainer_environment(const std::vector<std::string>& arguments,
                                                       const OwnTrainer& own);

// For NCCL and gloo: the interface of the node's data plane, "" where it is not known, and by which
// name it is one host. Advice only, which the user's own settings override.
std::map<std::string, std::string> network_environment(const std::string& address,
                                                       const std::string& interface);

// Variables from the "KEY=VALUE" items of --env; the value of "KEY" is that of our own environment.
// kUsage for any other item, for one that is not set here, and for PADDLECTL_ keys.
Result<std::map<std::string, std::string>> parse_environment(const std::vector<std::string>& items);
// The same from the lines of a file; those that are blank or begin with '#' do not count.
Result<std::map<std::string, std::string>> read_environment_file(const std::string& path);

}  // namespace paddle::cli

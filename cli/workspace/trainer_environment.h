// The environment of a trainer program of the user: the variables of v0.10's and Fluid's launchers,
// and those that let it start `paddle train` without a flag.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

struct OwnTrainer {
  std::uint32_t index = 0;
  std::uint32_t trainer_count = 1;           // threads
  std::string engine;                        // path of `paddle`
  const std::vector<std::string>& pservers;  // "address:first port", by number
  const std::vector<std::string>& trainers;  // "address:port" for its own use, by number
};

// `arguments`: those of `paddle train` in its stead; each --flag=value becomes
// PADDLE_INIT_FLAG=value.
std::map<std::string, std::string> trainer_environment(const std::vector<std::string>& arguments,
                                                       const OwnTrainer& own);

// Variables from the "KEY=VALUE" items of --env; the value of "KEY" is that of our own environment.
// kUsage for any other item, for one that is not set here, and for PADDLECTL_ keys.
Result<std::map<std::string, std::string>> parse_environment(const std::vector<std::string>& items);
// The same from the lines of a file; those that are blank or begin with '#' do not count.
Result<std::map<std::string, std::string>> read_environment_file(const std::string& path);

}  // namespace paddle::cli

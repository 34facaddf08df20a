// Parameters that the layers of a network declare. Layers that give one name share the parameter,
// and must agree on its shape and attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "proto/parameters.pb.h"

namespace paddle::nn {

struct ParameterRequest {
  const config::ParameterAttributes& attributes;
  std::string default_name;
  std::vector<std::uint64_t> dims;
  double initial_std = 0;  // where the attributes have a negative one
};

class ParameterList {
 public:
  // Index of the parameter that `layer` asks for, new or shared. kUsage: its name cannot be a file
  // name, or an earlier layer declared it otherwise.
  Result<std::size_t> declare(const ParameterRequest& request, const std::string& layer);
  std::vector<wire::ParameterSpec> take() { return std::move(specs_); }

 private:
  std::vector<wire::ParameterSpec> specs_;
  std::vector<std::string> owners_;  // the layer that declared each
  std::map<std::string, std::size_t> index_by_name_;
};

}  // namespace paddle::nn

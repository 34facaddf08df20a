// The networks of all templates, and batches for them.
#pragma once

#include <filesystem>
#include <vector>

#include "engine/config/job_config.h"
#include "engine/nn/batch.h"

namespace paddle::nn {

struct TemplateNetwork {
  std::filesystem::path path;  // of its job.toml
  config::JobConfig job;
  std::vector<std::string> slots;  // as TestNetwork takes them
  Batch batch;                     // of seven examples
};

// At least ten. Dictionaries have the rows of a TestNetwork, in place of what `prepare` makes.
std::vector<TemplateNetwork> template_networks();

}  // namespace paddle::nn

// Variables about GPUs that the trainers of a job got, and who set them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/watch/view.h"

namespace paddle::cli {

struct GpuVariable {
  std::string name, value;
  remote::VariableSource source = remote::VariableSource::kPaddlectl;
  std::vector<std::string> trainers;  // those with this value
};

// By name. None for a job without GPUs: ours for NCCL, which each program of the user's own gets,
// are then not worth telling.
std::vector<GpuVariable> gpu_variables(const std::vector<ProcessView>& processes);

// "paddlectl", "--env", "cluster file" or "login environment".
std::string_view source_text(remote::VariableSource source);

}  // namespace paddle::cli

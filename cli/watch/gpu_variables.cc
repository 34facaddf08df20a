#include "cli/watch/gpu_variables.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/watch/process_state.h"

namespace paddle::cli {

std::vector<GpuVariable> gpu_variables(const std::vector<ProcessView>& processes) {
  std::map<std::tuple<std::string, std::string, remote::VariableSource>, std::vector<std::string>>
      trainers;
  for (const ProcessView& process : processes) {
    if (is_pserver(process.status)) continue;
    for (const auto& [name, value, source] : process.status.gpu_variables)
      trainers[{name, value, source}].push_back(process.status.name);
  }
  std::vector<GpuVariable> variables;
  for (auto& [variable, names] : trainers) {
    const auto& [name, value, source] = variable;
    variables.push_back({name, value, source, std::move(names)});
  }
  const bool has_gpus = std::ranges::any_of(variables, [](const GpuVariable& variable) {
    return !variable.name.starts_with("NCCL_") ||
           variable.source != remote::VariableSource::kPaddlectl;
  });
  return has_gpus ? variables : std::vector<GpuVariable>();
}

std::string_view source_text(remote::VariableSource source) {
  switch (source) {
    case remote::VariableSource::kCommandLine:
      return "--env";
    case remote::VariableSource::kClusterFile:
      return "cluster file";
    case remote::VariableSource::kNode:
      return "login environment";
    case remote::VariableSource::kPaddlectl:
      break;
  }
  return "paddlectl";
}

}  // namespace paddle::cli

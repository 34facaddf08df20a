#include "cli/options/shared_options.h"

namespace paddle::cli {

Option cluster_option(std::string& file) {
  return {"--cluster", "cluster file; default: the one `up` used in this directory", &file, "FILE"};
}

Option on_option(std::string& nodes) {
  return {"--on", "only these nodes and groups: gpu,node[01-04],!node02; default: all", &nodes};
}

Option output_option(std::string& folder) {
  return {"--output", "folder for results; default: output", &folder, "DIR"};
}

Option workspace_argument(std::string& folder) {
  return {"workspace", "folder with job.toml; default: this one", &folder, "DIR"};
}

Option overrides_option(std::vector<std::string>& overrides) {
  return {"--set", "override a key of job.toml: --set train.passes=3 (repeatable)", &overrides};
}

}  // namespace paddle::cli

// Scripts and manifests that start a job on another platform, from templates/platforms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

enum class Platform { kKubernetes, kSlurm, kOpenMpi };

struct PlatformJob {
  std::string name;       // as given; characters that the platform refuses are replaced
  std::string workspace;  // absolute, like the engine; unused in Kubernetes
  std::string engine;
  std::uint32_t trainers = 1;
  std::uint32_t pservers = 1;
  std::vector<std::string> overrides;  // --set
  std::string image;                   // in Kubernetes
};

// The platform called kubernetes, slurm or openmpi; kUsage for another name.
Result<Platform> platform_of(std::string_view name);
// Name of its file in templates/platforms.
std::string_view template_file(Platform platform);

// The template `text` with the job's values, quoted where a shell reads them. kUsage for a name
// without a letter or digit, for a control character in a value (a line break would end a comment
// or a YAML block) and for an unknown {{word}}.
Result<std::string> fill_template(Platform platform, std::string_view text, const PlatformJob& job);

}  // namespace paddle::cli

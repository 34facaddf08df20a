// A job as another platform starts it: the texts of templates/platforms with {{name}} and so on
// filled in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

enum class Platform { kKubernetes, kSlurm, kOpenMpi };

struct PlatformJob {
  std::string name;       // as given; the text has it with what the platform cannot have replaced
  std::string workspace;  // absolute, as the engine is; of no matter in Kubernetes
  std::string engine;
  std::uint32_t trainers = 1;
  std::uint32_t pservers = 1;
  std::vector<std::string> overrides;  // --set
  std::string image;                   // of Kubernetes
};

// kUsage for another name than kubernetes, slurm and openmpi.
Result<Platform> platform_of(std::string_view name);
// Its file below share/templates/platforms.
std::string_view template_file(Platform platform);

// text: the template. Values that a shell reads are quoted for it. kUsage for a name without a
// letter or digit, a control character in any value (a line break would end a comment or a YAML
// block), and a {{word}} that means nothing.
Result<std::string> fill_template(Platform platform, std::string_view text, const PlatformJob& job);

}  // namespace paddle::cli

// Text with {{words}} that stand for values, and the scripts and manifests of templates/platforms
// made from it, which start a job on another platform.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

using TemplateValues = std::vector<std::pair<std::string_view, std::string>>;

// The text with each {{word}} replaced by its value, which is not searched for words in its turn.
// kUsage with `file` and the line of a word that has no value.
Result<std::string> fill_words(std::string_view file, std::string_view text,
                               const TemplateValues& values);

struct PlatformJob {
  std::string name;       // as given; characters that the platform refuses are replaced
  std::string workspace;  // absolute, like the engine; unused in Kubernetes
  std::string engine;
  std::uint32_t trainers = 1;
  std::uint32_t pservers = 1;
  std::vector<std::string> overrides;     // --set
  std::string image;                      // in Kubernetes
  std::vector<std::string> command = {};  // the user's own trainer program; none: the engine
  std::string own_program = {};           // text of own_program.sh, for that
  std::string endpoints = {};             // text of endpoints.sh
  bool has_group = false;        // the engine's trainers keep dense parameters among themselves
  bool has_node_groups = false;  // those of one node push one sum
  bool has_cluster = false;      // the ports are those of a cluster file
  std::uint16_t first_port = 7164, ports_num = 1, ports_num_for_sparse = 1;
  std::string transport = "sealed";  // a cluster file's
};

// Name of a platform's file in templates/platforms: of "slurm" "slurm.sh". kUsage for a name that
// is none of kubernetes, slurm and openmpi.
Result<std::string_view> platform_file(std::string_view name);

// `text`, the template of that file, with the job's values, quoted where a shell reads them, and
// the lines between {{if pservers}}, {{else}} and {{end}} that hold for it: `pservers` there are
// some, `secret` its processes prove a key to each other, `own_program` the trainers are the
// user's, `cluster` there is a cluster file. kUsage for a name without a letter or digit, for a
// control character in a value (a line break would end a comment or a YAML block) and for an
// unknown {{word}}.
Result<std::string> fill_template(std::string_view file, std::string_view text,
                                  const PlatformJob& job);

}  // namespace paddle::cli

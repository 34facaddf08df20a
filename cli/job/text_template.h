// Text with {{words}} that are replaced by values, and the scripts and manifests made from
// templates/platforms, which start a job on another platform.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

using TemplateValues = std::vector<std::pair<std::string_view, std::string>>;

// The text with each {{word}} replaced by its value; words inside a value are not replaced. kUsage,
// with `file` and the line: a word has no value.
Result<std::string> fill_words(std::string_view file, std::string_view text,
                               const TemplateValues& values);

// Settings for Kubernetes alone.
struct KubernetesJob {
  std::string image;
  std::string pod = {};  // text of kubernetes_pod.sh
  std::string cpu = "1", memory = "2Gi";
  // "SERVER:/PATH" of an NFS volume, for which a PersistentVolume and a claim are printed; "": the
  // claim exists.
  std::string nfs = {};
  std::string claim = {};  // "": the job's name
  // The Secret with the job's key; "": <job>-key. With new_key, base64, the text makes it.
  std::string secret = {}, new_key = {};
  bool has_data_job = false;  // a Job that runs the workspace's `prepare`
};

struct PlatformJob {
  std::string name;       // the job's name; characters that the platform refuses are replaced
  std::string workspace;  // absolute, like the engine
  std::string engine;
  std::uint32_t trainers = 1;
  std::uint32_t pservers = 1;
  // --set, for `paddle train` and for the engine of an own program: these processes read the
  // workspace itself, which paddlectl does not push, so nothing resolves its job.toml before.
  std::vector<std::string> overrides;
  KubernetesJob kubernetes = {};
  std::vector<std::string> command = {};  // the user's own trainer program; none: the engine
  std::string own_program = {};           // text of own_program.sh, for `command`
  std::string endpoints = {};             // text of endpoints.sh
  bool has_group = false;         // the engine's trainers keep dense parameters among themselves
  bool has_node_groups = false;   // the trainers of one node push one sum
  bool has_cluster = false;       // the ports are from a cluster file
  bool lacks_statistics = false;  // the engine's trainers need them, and [data] names no file
  std::uint16_t first_port = 7164, ports_num = 1, ports_num_for_sparse = 1;
  std::string transport = "sealed";  // from a cluster file
};

// The name of a platform's file in templates/platforms: "slurm.sh" for "slurm". kUsage: the name is
// not kubernetes, slurm or openmpi.
Result<std::string_view> platform_file(std::string_view name);

// `text`, the template from `file`, with the job's values, quoted where a shell reads them. Keeps
// the lines between {{if CONDITION}}, {{else}} and {{end}} whose condition is true: `pservers`:
// there are some; `secret`: its processes prove a key to each other; `printed_key`: the text holds
// that key; `own_program`: trainers run a user's program; `cluster`:
// there is a cluster file; `statistics`: the script makes statistics of the training data; `nfs`,
// `prepare`: of KubernetesJob. kUsage: a name without a letter or digit, a control character in a
// value (a line break would end a comment or a YAML block), an `nfs` that is not SERVER:/PATH, or
// an unknown {{word}}.
Result<std::string> fill_template(std::string_view file, std::string_view text,
                                  const PlatformJob& job);

}  // namespace paddle::cli

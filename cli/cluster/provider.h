// Providers, the places that make the nodes of a cluster: `up` asks for them and `teardown` gives
// them back. A cluster file with [provider] has no [[node]]; its nodes are what the provider lists,
// so no state is kept on this machine. All code above this interface is the same for every
// provider.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/config/toml_reader.h"

namespace paddle::cli {

// The console and the clock of a provider's work: it shows progress and ends after Ctrl-C.
struct ProviderWork {
  std::function<void(std::string_view line)> progress;  // replaces the last line on a terminal
  std::function<void(std::string_view line)> note;      // a line that stays
  std::function<bool()> interrupted;
  std::function<void(Duration)> pause;
};

// A node that exists, or is being made.
struct ProvidedNode {
  std::string name = {};
  std::string table =
      {};  // its [[node]] table in TOML, without the head; "": no way to it is known
  // "running"; "pending", with a cause or not, before it has ever run; or another word for a node
  // that does not run.
  std::string state = "running";
  double hourly = 0;  // price of an hour; 0: not known
  std::string currency = "USD";
  std::int64_t created_unix_s = 0;        // since when it costs; 0: not known
  std::optional<TimePoint> ends_at = {};  // when the provider takes it back, if that is known

  bool runs() const { return state == "running"; }
  bool is_fresh() const { return state.starts_with("pending"); }
};

// The objects of a provider carry the cluster's name and an id that the first `create` chose, given
// with the call that makes them. So each of these may be killed at any moment, and the next one
// finds everything.
class Provider {
 public:
  virtual ~Provider() = default;

  // "4 pods of namespace training"
  virtual std::string describe() const = 0;
  // Lines for the user about the objects that create() would make; makes nothing.
  virtual Result<std::string> plan(const ProviderWork& work) const = 0;
  // Makes what is missing, keeps what is there, and waits until each node runs. The error names
  // the first cause for each node that does not come, in the provider's own words; what was made
  // stays.
  virtual Status create(const ProviderWork& work) const = 0;
  // The nodes of the cluster in their order; empty before create().
  virtual Result<std::vector<ProvidedNode>> list() const = 0;
  // Removes all objects of the cluster and nothing else; OK if there are none.
  virtual Status destroy(const ProviderWork& work) const = 0;
  // Why a node was lost, in the provider's own words ("Evicted: the node was low on memory"); ""
  // if it knows of nothing.
  virtual std::string cause_of_loss(const std::string& /*node*/) const { return ""; }
  // Why the cluster has no nodes any more: "Slurm ended job 12: TIMEOUT (its time limit was
  // reached)"; "" if it has nodes, never had any, or was torn down.
  virtual std::string cause_of_end() const { return ""; }
  // The workdir of a file that names none; "": that of every cluster.
  virtual std::string workdir() const { return ""; }
  // Whether this folder of the nodes stays when they are given back.
  virtual bool keeps(const std::string& /*folder*/) const { return false; }
  // A folder that all nodes see and that outlives them, such as the mount of a volume; "": none.
  virtual std::string shared_folder() const { return ""; }
  // Whether a folder below a volume's root that others may write to is fit as a workdir: see
  // NodeSpec.
  virtual bool shares_workdir() const { return false; }
};

// The cluster of a provider, known to every kind.
struct ProvidedCluster {
  std::string name;
  std::string folder;  // of the cluster file; the provider's programs run there
};

// Reads [provider]: its `kind`, and the keys of that kind. Mistakes are reported by the table's
// finish(); null if the kind is missing.
std::shared_ptr<const Provider> read_provider(config::TomlTable& table,
                                              const ProvidedCluster& cluster);
std::shared_ptr<const Provider> read_command_provider(config::TomlTable& table,
                                                      const ProvidedCluster& cluster);
std::shared_ptr<const Provider> read_kubernetes_provider(config::TomlTable& table,
                                                         const ProvidedCluster& cluster);
std::shared_ptr<const Provider> read_slurm_provider(config::TomlTable& table,
                                                    const ProvidedCluster& cluster);

constexpr std::int64_t kProvidedNodesMax = 4096;
constexpr std::int64_t kProviderTimeoutMaxS = 86400;

// Adds the "NAME=value" items of the key, replacing variables of the same name. A name that begins
// with `reserved` is a mistake; `example` is shown for an item that is no variable.
void read_variables(config::TomlTable& table, std::string_view key, std::string_view reserved,
                    std::string_view example, std::map<std::string, std::string>& variables);
// The wanted number of nodes, `nodes`; a mistake if it is absent.
std::uint32_t read_nodes_wanted(config::TomlTable& table);
// `timeout` in seconds, for create().
Duration read_create_timeout(config::TomlTable& table, std::chrono::seconds otherwise);

// "the nodes are taken back in 1h40m", or a warning if a job needs longer.
std::string time_limit_text(std::int64_t left_ms,
                            std::optional<std::int64_t> job_needs_ms = std::nullopt);

// A string or array of strings as TOML: "\"a\\\"b\"".
std::string toml_text(std::string_view text);
std::string toml_list(const std::vector<std::string>& texts);

}  // namespace paddle::cli

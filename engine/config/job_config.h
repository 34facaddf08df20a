// The content of job.toml, validated: data, network, optimizer, strategy and training. The engine
// and the CLI read it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/config/data_config.h"
#include "engine/math/gemm.h"
#include "proto/parameters.pb.h"

namespace paddle::wire {

// Protobuf messages have no operator==.
inline bool operator==(const TablePolicy& a, const TablePolicy& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

}  // namespace paddle::wire

namespace paddle::config {

struct ParameterAttributes {
  // Layers that give the same name share the parameter; "": "_<layer>.w0" or "_<layer>.wbias".
  std::string name;
  float initial_mean = 0;
  float initial_std = -1;  // negative: 1/sqrt(fan-in)
  float learning_rate = 1;
  std::optional<float> l1;  // unset: the optimizer's
  std::optional<float> l2;
  std::optional<float> clip_value;
  std::optional<float> clip_norm;
  bool sparse = false;
  bool is_static = false;
  wire::TablePolicy table;  // sparse only

  bool operator==(const ParameterAttributes&) const = default;
};

struct LayerConfig {
  std::string location;  // "job.toml:12", for messages; "": not from a file
  std::string name;
  std::string type;                 // one of layer_types()
  std::vector<std::string> inputs;  // data slots or earlier layers
  std::uint64_t size = 0;           // outputs per example (per id for embedding)
  // Rows of a dense embedding, 0 for a sparse table of any ids; classes of a sampled cost.
  std::uint64_t vocabulary = 0;
  std::string activation;  // one of kActivations
  // Embedding over a variable-length slot: sum, mean, concat; "" for one id per example.
  std::string pooling;
  std::uint32_t length = 0;  // concat pooling: ids per example and slot; fewer are padded by zeros
  // Embedding: the row of this id is zeros and never learns.
  std::optional<std::uint64_t> padding_id;
  float rate = 0;                     // dropout probability
  std::uint32_t rank = 0;             // cross: rank of a low-rank weight; 0: a full matrix
  float epsilon = 0;                  // layer_norm: added to the variance; 0: 1e-5
  float scale = 0;                    // cosine_similarity: multiplies the cosine; 0: 1
  std::uint32_t negatives = 0;        // sampled costs: number drawn for each example; 0: 10
  std::string distribution;           // of the negatives: uniform, unigram; "": uniform
  std::vector<std::uint64_t> counts;  // of each class, for unigram
  bool has_bias = true;
  std::string label;  // cost layers and evaluators: a data slot
  std::string group;  // gauc: a data slot whose only id is an example's group
  ParameterAttributes weight;
  ParameterAttributes bias;
};

constexpr std::size_t kEvaluatorsMax = 16;

// A sparse table of a job without a network: the job's own program trains it.
struct TableConfig {
  std::string location;  // "job.toml:12", for messages
  std::string name;
  std::uint64_t width = 0;     // floats of a row
  ParameterAttributes weight;  // sparse; its name is empty
};

// Two notations of [train]: a condition on a figure of a test, "auc >= 0.8", and a length of time,
// "1h30m".

struct StopWhen {
  enum class Relation { kLess, kAtMost, kMore, kAtLeast };

  std::string text;    // "auc >= 0.8"
  std::string figure;  // "cost", or the name of an evaluator's value
  Relation relation = Relation::kAtLeast;
  double limit = 0;

  bool holds(double value) const;  // false for NaN
};

std::optional<StopWhen> parse_stop_when(std::string_view text);

// "90s", "2h", "1h30m": whole numbers of days, hours, minutes and seconds, the larger units first.
// Empty for other text, for 0 and for more than ten years.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// kAuto is a GPU where the program and the machine have one.
enum class TrainDevice { kAuto, kCpu, kGpu };

struct TrainConfig {
  std::uint32_t passes = 1;
  std::uint32_t batch_size = 32;       // of each trainer
  std::uint32_t batch_size_total = 0;  // of all trainers together; 0: use batch_size
  // The number of examples in a batch of this trainer: batch_size, or its part of batch_size_total.
  // If that does not divide evenly, each of the first trainers has one more. kUsage: its part is 0.
  Result<std::uint32_t> batch_size_of(std::uint32_t trainer, std::uint32_t trainers) const;
  std::uint32_t trainer_count = 1;                        // threads inside one trainer
  kernels::Compute compute = kernels::Compute::kFloat32;  // precision of matrix products
  TrainDevice device = TrainDevice::kAuto;
  std::uint32_t log_period = 100;   // batches
  std::uint32_t test_period = 0;    // batches; 0: at the end of each pass
  std::uint32_t saving_period = 1;  // passes; 0: never
  // One of so many snapshots is full; the others are deltas since the last full one.
  std::uint32_t full_snapshot_period = 1;
  // Number of newest snapshots that are kept, with the bases of their deltas; 0: all.
  std::uint32_t snapshots_kept = 2;
  // Nodes that each snapshot is saved on: the node of trainer 0, and with 2 another one.
  std::uint32_t snapshot_copies = 1;
  // Seconds between two savepoints of a pserver; 0: none. They are made under `train --restarts`.
  std::uint32_t snapshot_seconds = 10;
  bool stop_on_divergence = false;
  bool skips_not_finite = false;  // batches with gradients that a pserver would refuse
  // Window of the seeded shuffle in records; 0: file order.
  std::uint64_t shuffle_records = 0;
  // The figure of tests that decides which pass is the best: "cost" or an evaluator's value; "":
  // none.
  std::string best;
  // The job ends after this number of passes in a row whose tests are worse than the best one; 0:
  // never.
  std::uint32_t stop_after_worse = 0;
  std::optional<StopWhen> stop_when;  // after a pass whose test fulfils it, the job ends
  // After this time the job stops, and can be resumed.
  std::optional<std::chrono::seconds> time_max;
  // Whether tests at the ends of passes lead to decisions that all trainers must receive.
  bool has_decisions() const { return !best.empty() || stop_when.has_value(); }
  // Locations of these keys, for messages about figures that the network does not have:
  // "job.toml:40".
  std::string best_location;
  std::string stop_when_location;
};

constexpr std::uint32_t kLanesMax = 16;

// The course of a pass when trainers have different numbers of batches.
enum class Uneven {
  kJoin,  // a trainer without a batch takes part with weight 0
  kDrop,  // the pass ends for all when one has no full batch
  kPad,   // a trainer repeats its data until none has any left
};

// The events of [notify].
constexpr auto kNotifyEvents =
    std::to_array<std::string_view>({"done", "failed", "stalled", "restarted", "best", "disk_low"});

// The section [notify]: a command that the nodes run once an event (docs/notify.md).
struct NotifyConfig {
  std::vector<std::string> command;  // the program and its arguments
  std::vector<std::string> events{"done", "failed", "stalled"};
  std::chrono::seconds timeout{10};
  std::chrono::seconds stalled_after{120};  // time without progress

  bool has(std::string_view event) const;
};

// Reads a user's notify.toml, whose keys are those of [notify]. kUsage.
Result<NotifyConfig> read_notify_file(const std::string& path);
// The error for a mistake in 'command' that its reader cannot see, such as a missing file. It shows
// the line in the job.toml at `path` or, with is_section false, in a notify.toml.
Error notify_mistake(const std::string& path, const std::vector<std::string>& overrides,
                     bool is_section, std::string_view message, std::string_view hint);

struct JobConfig {
  std::string name;
  std::uint64_t seed = 1;
  DataConfig data;
  std::vector<LayerConfig> layers;
  std::vector<TableConfig> tables;  // only without layers; dense_strategy is then sparse_strategy
  // Each has a name, a type, one input and a label. Empty: each cost adds its usual evaluators.
  std::vector<LayerConfig> evaluators;
  wire::Optimizer optimizer;
  wire::Strategy dense_strategy = wire::STRATEGY_SYNC;
  wire::Strategy sparse_strategy = wire::STRATEGY_SYNC;
  float async_lagged_grad_discard_ratio = 1.5F;
  std::uint64_t min_block_size = 8192;
  wire::Partitioning partitioning;
  wire::Merge merge = wire::MERGE_MEAN;
  Uneven uneven = Uneven::kJoin;  // collective
  bool bf16_wire = false;         // collective: dense gradients and values travel as bf16
  // sync: a node's trainers push one sum of their dense gradients. collective: they add their
  // gradients up before they exchange them with other nodes.
  bool node_groups = false;
  std::uint32_t lanes = 1;            // collective, local_sgd: TCP connections between two trainers
  std::uint32_t max_merge = 1;        // half_async: batches of one push
  std::uint32_t send_queue_size = 1;  // half_async: pushes that may be unanswered
  std::uint32_t update_frequency = 100;  // geo, local_sgd: batches between two pushes
  std::optional<std::uint32_t> staleness_max;
  TrainConfig train;
  std::optional<NotifyConfig> notify;
  std::vector<std::string> command;  // the user's own trainer program; empty: paddle train
  std::vector<std::string> setup;    // a program that prepares a node for trainers; empty: none
  std::string requirements;          // file of Python packages for the program; "": none

  // False only if the job has its own trainer program.
  bool has_network() const { return !layers.empty(); }
  // Whether the dense parameters or the tables follow this strategy.
  bool uses(wire::Strategy strategy) const {
    return dense_strategy == strategy || sparse_strategy == strategy;
  }
  bool is_collective() const { return dense_strategy == wire::STRATEGY_COLLECTIVE; }
  // Whether the trainers of a node add gradients up before they push them to pservers.
  bool has_node_groups() const { return node_groups && !is_collective(); }
  // Whether the trainers, and not pservers, store the dense parameters.
  bool has_group() const { return is_collective() || dense_strategy == wire::STRATEGY_LOCAL_SGD; }
  // Name of the first layer with a sparse table, or "".
  std::string sparse_layer() const;
  // True when trainers update any parameters themselves.
  bool is_local() const { return uses(wire::STRATEGY_GEO) || uses(wire::STRATEGY_LOCAL_SGD); }
};

// Reads <path>; relative file names in it are relative to its folder. Errors are kUsage and read
// "job.toml:12:8: unknown key 'pases', did you mean 'passes'?" followed by the line and a caret.
// Overrides are "train.passes=3", as --set takes them (toml_reader.h). `files` maps file names in
// the job to the paths that are read in their place.
Result<JobConfig> read_job(const std::string& path, const std::vector<std::string>& overrides = {},
                           const std::map<std::string, std::string>& files = {});

// A job.toml, read once: all that a command needs of it.
struct ResolvedJob {
  JobConfig config;
  std::string written;  // the text of the file
  // The same job in a text that needs no overrides. Without overrides it is `written`, so that line
  // numbers in errors are those of the user's file. With overrides it has no comments.
  std::string text;
};
// read_job() that also returns the texts. kUsage.
Result<ResolvedJob> resolve_job(const std::string& path,
                                const std::vector<std::string>& overrides = {});

// The job of a program that trains tables: the job.toml at `path` ("": none), with the sections
// [[table]], [optimizer] and [strategy] of `code`, a TOML text ("": none). An override is for the
// text that has its section. kUsage: no table; the same section in both texts; mistakes in `code`
// are located in "tables from code".
Result<JobConfig> read_tables_job(const std::string& path,
                                  const std::vector<std::string>& overrides,
                                  const std::string& code);

// How the shards know a parameter. `initial_std` is for attributes that set none.
wire::ParameterSpec parameter_spec(const ParameterAttributes& attributes, std::string_view name,
                                   std::span<const std::uint64_t> dims, double initial_std);
// The parameters of the job's tables, in their order: those of embeddings with the same keys.
std::vector<wire::ParameterSpec> table_parameters(const JobConfig& job);

// The keys that --set takes: "train.passes" and all others below tables, for a job.toml like the
// one at `path`; that file may be missing or wrong.
std::vector<std::string> override_keys(const std::string& path);

// A file that the network depends on: the dictionary, the statistics, or counts of classes.
struct JobFile {
  std::string name;  // in the text: "dictionary.txt", "statistics.json", "counts-1.txt"
  std::string path;
};

// A job.toml that needs no workspace, as snapshots store it: with plain names for the files that
// its network depends on.
struct JobDescription {
  std::string text;
  std::vector<JobFile> files;
};

// Describes the job of ResolvedJob::text, which was at `path`. kUsage.
Result<JobDescription> describe_job(std::string_view text, const std::string& path);

// folder_of() returns the folder of a path, "." for a bare name. in_folder() returns an absolute
// name as it is, and a relative one below the folder.
std::string folder_of(const std::string& path);
std::string in_folder(const std::string& folder, const std::string& name);

}  // namespace paddle::config

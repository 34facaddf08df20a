// The state of a cluster's jobs in Prometheus' text format, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/
// docs/metrics.md describes each family; a test compares the page with metric_families().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/job/run_record.h"
#include "cli/watch/view.h"

namespace paddle::cli {

struct MetricFamily {
  std::string_view name;    // without the suffixes of a histogram
  std::string_view type;    // gauge, counter or histogram
  std::string_view labels;  // "cluster, node"
  std::string_view help;
};
// In the order of the text.
std::span<const MetricFamily> metric_families();

struct JobMetrics {
  const JobView* view = nullptr;  // never null
  RunRecord record = {};
  bool may_run = false;  // on a node that does not answer
};

struct NodeMetrics {
  std::string node;
  bool is_up = false;                                   // its agent answers
  std::optional<double> cores = {}, memory_bytes = {};  // once known
};

// Job, node and process names, tags and evaluators are label values: escaped, at most
// kLabelBytesMax bytes of each. Bounds keep a job or a node from filling the Prometheus server.
constexpr std::size_t kLabelBytesMax = 1100;
constexpr std::size_t kEndedJobsMax = 100;       // the newest; all that run are shown
constexpr std::size_t kEvaluatorsShownMax = 32;  // of a process
constexpr std::size_t kPortsShownMax = 64;       // of a pserver

// One block for each family that has a sample. A job that has ended keeps only the families of the
// job; a job that only may run has no state. A process that does not run has only the families of
// its life. So no old figure looks new.
std::string prometheus_text(std::string_view cluster, std::span<const JobMetrics> jobs,
                            std::span<const NodeMetrics> nodes);

}  // namespace paddle::cli

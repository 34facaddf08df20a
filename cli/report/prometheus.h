// The state of a job in Prometheus' text format, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <string>

#include "cli/watch/view.h"

namespace paddle::cli {

// One sample of each family for each process, with the labels job, node and role. Families without
// a sample are left out.
std::string prometheus_text(const JobView& view);

}  // namespace paddle::cli

// .paddlectl/current in the directory: the cluster file that `up` used, so that later commands need
// no --cluster.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/cluster/cluster_file.h"

namespace paddle::cli {

Status remember_cluster(const std::string& directory, const std::string& file);
// Forgets it when it is `file`; leaves no empty folder behind.
void forget_cluster(const std::string& directory, const std::string& file);
// `asked` relative to the directory, or else the current cluster; read and checked.
Result<ClusterSpec> choose_cluster(const std::string& directory, const std::string& asked);

}  // namespace paddle::cli

// Names of jobs, and their folders on the nodes.
#pragma once

#include <string>

#include "base/result.h"

namespace paddle::cli {

// kUsage unless the name is 1 to 100 letters, digits, '.', '-' and '_', so that it can be a
// folder's name.
Status check_job_name(const std::string& job);

std::string job_folder(const std::string& job);                     // "jobs/<job>"
std::string workspace_folder(const std::string& job);               // "jobs/<job>/workspace"
std::string output_folder(const std::string& job);                  // "jobs/<job>/output"
std::string node_folder(const std::string& job, std::size_t node);  // "jobs/<job>/node_<i>"

}  // namespace paddle::cli

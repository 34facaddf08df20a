// The folder share/paddlectl beside the programs, which contains clusters/ and templates/.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

constexpr std::size_t kTemplateFilesMax = 1000;

// <prefix>/share/paddlectl for a paddlectl installed in <prefix>/bin, or the source tree around its
// build folder; "" if neither exists.
std::string find_share_folder(const std::string& folder_of_program);

// Names of the template workspaces, sorted.
Result<std::vector<std::string>> template_names(const std::string& share);
// The first line of a template's README without "name: "; "" if there is none.
std::string template_summary(const std::string& share, const std::string& name);

// Copies the template to `target`, a new or empty folder, without the output of `prepare`. job.toml
// is copied last, so that an incomplete copy is no workspace. Returns the files, relative to
// target. kUsage: the name is unknown (with the nearest one), or the folder is not empty.
Result<std::vector<std::string>> copy_template(const std::string& share, const std::string& name,
                                               const std::string& target);

}  // namespace paddle::cli

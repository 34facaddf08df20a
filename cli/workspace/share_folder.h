// What ships beside the programs: clusters/ and templates/.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

constexpr std::size_t kTemplateFilesMax = 1000;

// <prefix>/share/paddlectl of an installed paddlectl at <prefix>/bin, or the source tree that its
// build folder is in; "" when neither is there.
std::string find_share_folder(const std::string& folder_of_program);

// Names of the template workspaces, sorted.
Result<std::vector<std::string>> template_names(const std::string& share);
// The first line of a template's README without "name: "; "" when there is none.
std::string template_summary(const std::string& share, const std::string& name);

// A copy of the template at `target`, a folder that is not there yet or is empty, without what
// `prepare` made; job.toml comes last, so that half a copy is no workspace. The files, below
// target. kUsage for an unknown name (with the nearest one) or a folder with something in it.
Result<std::vector<std::string>> copy_template(const std::string& share, const std::string& name,
                                               const std::string& target);

}  // namespace paddle::cli

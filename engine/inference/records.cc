#include "engine/inference/records.h"

#include <filesystem>

#include "engine/trainer/held_out.h"

namespace paddle::inference {
namespace {

// A pattern of job.toml stays in its workspace; one of the command line may lead anywhere.
std::string without_parents(const std::string& folder, const std::string& glob) {
  if (glob.find("..") == std::string::npos) return glob;
  return std::filesystem::absolute(std::filesystem::path(folder) / glob)
      .lexically_normal()
      .string();
}

}  // namespace

Result<data::DatasetOptions> records_of(const config::JobConfig& job, const std::string& folder,
                                        const std::string& glob) {
  if (glob != "-") {
    const bool are_objects = !job.data.command.empty();
    auto found =
        trainer::held_out_data(job, folder, are_objects ? glob : without_parents(folder, glob));
    if (found) return found;
    Error error = std::move(found).error();
    if (error.hint.empty())
      error.hint = "--data=GLOB names files, --workspace=DIR the folder that they are below";
    return error;
  }
  data::DatasetOptions options = trainer::held_out_options(job, folder);
  // The name under which engine/data/source reads on from where standard input is.
  options.share.files = {"/dev/stdin"};
  return options;
}

}  // namespace paddle::inference

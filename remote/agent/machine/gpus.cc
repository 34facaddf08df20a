#include "remote/agent/machine/gpus.h"

#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "remote/agent/machine/proc.h"

namespace paddle::agent {
namespace {

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ...": the word that
// begins with a digit and holds a point.
std::string driver_version(const std::string& text) {
  std::istringstream words(value_of(text, "NVRM version:"));
  for (std::string word; words >> word;) {
    if (word[0] >= '0' && word[0] <= '9' && word.find('.') != std::string::npos) return word;
  }
  return "";
}

std::vector<std::string> files_of(const std::string& pattern) {
  std::vector<std::string> files;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return files;
}

// The version stands in the name of the file to which a link such as "libcuda.so.1" leads:
// "libcuda.so.535.104.05". Returns "" where no folder has the link. A file that is no link has its
// major version alone in its name, which is enough where `major` says so.
std::string library_version(const std::vector<std::string>& folders, const std::string& link,
                            bool major = false) {
  for (const std::string& folder : folders) {
    for (const std::string& path : files_of(folder + "/" + link)) {
      std::error_code error;
      const auto file = std::filesystem::canonical(path, error);
      if (error) continue;
      const std::string name = file.filename().string();
      const auto mark = name.find(".so.");
      const std::string version = mark == std::string::npos ? "" : name.substr(mark + 4);
      if (version.find('.') != std::string::npos || (major && !version.empty())) return version;
    }
  }
  return "";
}

}  // namespace

void add_gpu_facts(const GpuPlaces& places, wire::agent::Facts& facts) {
  const std::string folder = places.driver + "/gpus";
  std::vector<std::string> addresses = names_under(folder);
  std::ranges::sort(addresses);
  for (const std::string& address : addresses) {
    const std::string text = text_of(folder + "/" + address + "/information");
    if (text.empty() || value_of(text, "GPU Excluded:") == "Yes") continue;
    auto* const gpu = facts.add_gpus();
    gpu->set_model(value_of(text, "Model:"));
    // It is "GPU-????????-..." until a program has used the GPU.
    const std::string uuid = value_of(text, "GPU UUID:");
    if (uuid.find('?') == std::string::npos) gpu->set_uuid(uuid);
  }
  facts.set_gpu_driver(driver_version(text_of(places.driver + "/version")));
  facts.set_cuda_library(library_version(places.libraries, "libcuda.so.1"));
  facts.set_nccl_library(library_version(places.libraries, "libnccl.so.2"));
  facts.set_cublas_library(library_version(places.libraries, "libcublasLt.so.13", true));
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) facts.set_visible_gpus(visible);
}

}  // namespace paddle::agent

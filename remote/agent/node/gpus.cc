#include "remote/agent/node/gpus.h"

#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "remote/agent/node/proc.h"

namespace paddle::agent {
namespace {

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ...": the word that
// begins with a digit and contains a dot.
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

// The version of a library that pip has installed: PACKAGES/nvidia/nccl/lib/libnccl.so.2 belongs to
// PACKAGES/nvidia_nccl_cu13-2.27.7.dist-info.
std::string package_version(const std::filesystem::path& file) {
  const auto package = file.parent_path().parent_path();
  const auto packages = package.parent_path();
  if (packages.filename() != "nvidia") return "";
  const std::string infos = packages.string() + "_" + package.filename().string() + "*.dist-info";
  const std::vector<std::string> found = files_of(infos);
  if (found.empty()) return "";
  const std::string name = std::filesystem::path(found.front()).stem().string();
  return name.substr(name.rfind('-') + 1);
}

// Returns the version in the name of the file that a link such as "libcuda.so.1" leads to:
// "libcuda.so.535.104.05". If the name has only the major version, returns the version of its pip
// package or, with `major`, the major version. "" if neither is known or no folder has the link.
std::string library_version(const std::vector<std::string>& folders, const std::string& link,
                            bool major = false) {
  for (const std::string& folder : folders) {
    for (const std::string& path : files_of(folder + "/" + link)) {
      std::error_code error;
      const auto file = std::filesystem::canonical(path, error);
      if (error) continue;
      const std::string name = file.filename().string();
      const auto mark = name.find(".so.");
      std::string version = mark == std::string::npos ? "" : name.substr(mark + 4);
      if (version.find('.') != std::string::npos) return version;
      if (std::string of_package = package_version(file); !of_package.empty()) return of_package;
      if (major && !version.empty()) return version;
    }
  }
  return "";
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT: no thread changes the environment
  return value == nullptr ? "" : value;
}

}  // namespace

std::vector<std::string> library_folders(const std::string& home) {
  std::vector<std::string> folders{"/usr/lib/x86_64-linux-gnu",
                                   "/usr/lib64",
                                   "/usr/lib",
                                   "/usr/local/nvidia/lib64",
                                   "/usr/local/cuda/lib64",
                                   "/usr/local/cuda-*/lib64"};
  for (const std::string& prefix :
       {home + "/.local", std::string("/usr/local"), std::string("/usr")}) {
    folders.push_back(prefix + "/lib/python3*/*-packages/nvidia/*/lib");
  }
  return folders;
}

GpuPlaces gpu_places() {
  return {"/proc/driver/nvidia", library_folders(variable("HOME"))};
}

void add_gpu_facts(const GpuPlaces& places, wire::agent::Facts& facts) {
  const std::string folder = places.driver + "/gpus";
  std::vector<std::string> addresses = names_under(folder);
  std::ranges::sort(addresses);
  for (const std::string& address : addresses) {
    const std::string text = text_of(folder + "/" + address + "/information");
    if (text.empty() || value_of(text, "GPU Excluded:") == "Yes") continue;
    auto* const gpu = facts.add_gpus();
    gpu->set_model(value_of(text, "Model:"));
    // The UUID is "GPU-????????-..." until a program has used the GPU.
    const std::string uuid = value_of(text, "GPU UUID:");
    if (uuid.find('?') == std::string::npos) gpu->set_uuid(uuid);
  }
  facts.set_gpu_driver(driver_version(text_of(places.driver + "/version")));
  facts.set_cuda_library(library_version(places.libraries, "libcuda.so.1"));
  facts.set_nccl_library(library_version(places.libraries, "libnccl.so.2"));
  facts.set_cublas_library(library_version(places.libraries, "libcublasLt.so.13", true));
  facts.set_visible_gpus(variable("CUDA_VISIBLE_DEVICES"));
}

}  // namespace paddle::agent

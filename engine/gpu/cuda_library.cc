#include "engine/gpu/cuda_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace paddle::device {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT: no thread sets variables
  return value == nullptr ? "" : value;
}

void add_matches(const std::string& pattern, std::vector<std::string>& folders) {
  glob_t found{};
  if (::glob(pattern.c_str(), GLOB_ONLYDIR, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) folders.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
}

void add_listed(const std::string& list, std::vector<std::string>& folders) {
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) folders.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::string path_of(void* handle, const std::string& otherwise) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map->l_name[0] == 0) return otherwise;
  return map->l_name;
}

std::string last_error() {
  const char* const text = ::dlerror();
  return text == nullptr ? "unknown error" : text;
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  add_listed(variable("PADDLE_CUDA_LIBRARY_PATH"), folders);
  folders.emplace_back();
  add_matches("/usr/local/cuda*/lib64", folders);
  const std::string home = variable("HOME");
  std::vector<std::string> prefixes = {variable("VIRTUAL_ENV"), variable("CONDA_PREFIX"),
                                       home.empty() ? "" : home + "/.local", "/usr/local", "/usr"};
  for (const std::string& prefix : prefixes) {
    if (prefix.empty()) continue;
    for (const char* const packages : {"site-packages", "dist-packages"}) {
      add_matches(prefix + "/lib/python3*/" + packages + "/nvidia/*/lib", folders);
    }
  }
  return folders;
}

Result<Library> Library::open(const std::string& file, const std::vector<std::string>& folders) {
  std::string tried;
  for (const std::string& folder : folders) {
    const std::string path = folder.empty() ? file : folder + "/" + file;
    if (!folder.empty() && ::access(path.c_str(), F_OK) != 0) {
      tried += "; " + folder + ": no such file";
      continue;
    }
    if (void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return Library(handle, path_of(handle, path));
    }
    tried += "; " + last_error();
  }
  return Error{Errc::kResource, file + " cannot be loaded" + tried,
               "install it, or set PADDLE_CUDA_LIBRARY_PATH to its folder"};
}

Status Library::bind(const std::vector<Symbol>& symbols) const {
  std::string missing;
  for (const Symbol& symbol : symbols) {
    *symbol.address = ::dlsym(handle_, symbol.name);
    if (*symbol.address == nullptr)
      missing += (missing.empty() ? "" : ", ") + std::string(symbol.name);
  }
  if (missing.empty()) return {};
  return Error{Errc::kVersion, path_ + " has no " + missing,
               "install a later version of it, or set PADDLE_CUDA_LIBRARY_PATH to its folder"};
}

}  // namespace paddle::device

// Shared library that is loaded when it is needed, from where nodes have CUDA's. It stays loaded.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::device {

// Folders in the order in which they are searched; "" is the loader's own search, as
// LD_LIBRARY_PATH and ldconfig say: those of PADDLE_CUDA_LIBRARY_PATH, the loader's,
// /usr/local/cuda*/lib64, and those of packages of Python.
std::vector<std::string> library_folders();

// Function of a library, and the pointer to it.
struct Symbol {
  template <class Function>
  Symbol(const char* of, Function& function)
      : name(of), address(reinterpret_cast<void**>(&function)) {}

  const char* name;
  void** address;
};

class Library {
 public:
  // kResource: no folder has it, with all that were tried and what stood in the way.
  static Result<Library> open(const std::string& file, const std::vector<std::string>& folders);

  const std::string& path() const { return path_; }
  // kVersion: symbols are missing, with the names of all.
  Status bind(const std::vector<Symbol>& symbols) const;

 private:
  Library(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;
  std::string path_;
};

}  // namespace paddle::device

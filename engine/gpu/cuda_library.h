// Shared library that is loaded when it is needed, from the folders where nodes have CUDA's
// libraries. It is never unloaded.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::device {

// Folders in the order in which they are searched: those of PADDLE_CUDA_LIBRARY_PATH, then "" for
// the loader's own search (LD_LIBRARY_PATH, ldconfig), /usr/local/cuda*/lib64, and those of Python
// packages.
std::vector<std::string> library_folders();

// Name of a library's function, and the pointer that bind() sets to it.
struct Symbol {
  template <class Function>
  Symbol(const char* of, Function& function)
      : name(of), address(reinterpret_cast<void**>(&function)) {}

  const char* name;
  void** address;
};

class Library {
 public:
  // kResource: it cannot be loaded from any folder; the message lists the folders and why each
  // failed.
  static Result<Library> open(const std::string& file, const std::vector<std::string>& folders);

  const std::string& path() const { return path_; }
  // Sets the pointers of all symbols. kVersion: symbols are missing; the message names them all.
  Status bind(const std::vector<Symbol>& symbols) const;

 private:
  Library(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;
  std::string path_;
};

}  // namespace paddle::device

// A small disk for tests of what a full one does.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <functional>
#include <string>
#include <thread>

#include "base/fd.h"

namespace paddle::test {

// Runs `work` while a disk of `size` ("256k") lies at the folder, in a thread with mounts of its
// own, which programs started there share; false where none can be made.
inline bool on_small_disk(const std::string& folder, const std::string& size,
                          const std::function<void()>& work) {
  bool can_mount = false;
  std::thread([&] {
    const std::string options = "mode=0700,size=" + size;
    can_mount = ::unshare(CLONE_NEWNS) == 0 &&
                ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                ::mount("none", folder.c_str(), "tmpfs", 0, options.c_str()) == 0;
    if (can_mount) work();
  }).join();
  return can_mount;
}

// Writes the file until its disk is full.
inline void fill(const std::string& file) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const Bytes zeros(4096);
  while (write_all(fd.get(), zeros, TimePoint::max())) {
  }
}

}  // namespace paddle::test

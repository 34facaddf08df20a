// A small disk for tests of what a full one does.
#pragma once

#include <sched.h>
#include <sys/mount.h>

#include <functional>
#include <string>
#include <thread>

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

}  // namespace paddle::test

// A node's folder as another user prepares it, with a program that says that it ran.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"

namespace paddle::test {

class PlantedAgent {
 public:
  static constexpr uid_t kNobody = 65534;

  // `root` as a cluster's folder on a node; `agent` is the program that would be pushed there.
  PlantedAgent(std::string root, const std::string& agent)
      : root_(std::move(root)), ran_(root_ + "-ran") {
    Sha256 sha;
    sha.update(as_bytes(*read_file(agent)));
    program_ = root_ + "/bin/paddlectl-agent-" + to_hex(sha.finish()).substr(0, 16);
    std::filesystem::create_directories(root_ + "/bin");
    set_mode(root_, 0700);
    set_mode(root_ + "/bin", 0700);
    (void)replace_file(program_, as_bytes("#!/bin/sh\n: > " + ran_ + "\n"), 0755);
  }

  // The ways to plant it, by what belongs to nobody or is open to all; all else is ours.
  static std::vector<std::string> ways() {
    return {"all of it is nobody's", "the program is nobody's", "its folder is nobody's",
            "its folder is open",    "the program is open",     "the folder above is open",
            "its folder is a link"};
  }
  void plant(const std::string& way) const {
    const std::string bin = root_ + "/bin";
    const std::string above = std::filesystem::path(root_).parent_path();
    if (way.starts_with("all")) {
      for (const std::string& name : {root_, bin, program_}) give_away(name);
    } else if (way == "the program is nobody's") {
      give_away(program_);
    } else if (way == "its folder is nobody's") {
      give_away(bin);
    } else if (way == "its folder is open") {
      set_mode(bin, 0777);
    } else if (way == "the program is open") {
      set_mode(program_, 0777);
    } else if (way == "the folder above is open") {
      set_mode(above, 0777);
    } else {
      std::filesystem::rename(bin, above + "/elsewhere");
      std::filesystem::create_directory_symlink(above + "/elsewhere", bin);
    }
  }
  bool has_run() const { return std::filesystem::exists(ran_); }

 private:
  static void give_away(const std::string& name) { (void)!::chown(name.c_str(), kNobody, kNobody); }
  static void set_mode(const std::string& name, mode_t mode) { ::chmod(name.c_str(), mode); }

  std::string root_, ran_, program_;
};

}  // namespace paddle::test

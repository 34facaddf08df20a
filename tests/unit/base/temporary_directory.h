// A fresh directory that goes away with the test.
#pragma once

#include <fcntl.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/fd.h"

namespace paddle {

class TemporaryDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/paddle-base-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
    root_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(root_);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  std::string path_;
  UniqueFd root_;
};

}  // namespace paddle

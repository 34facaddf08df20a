// Fixture that reads a small job with every section, as it stands or with one place edited.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "engine/config/job_config.h"
#include "tests/support/temporary_folder.h"

namespace paddle::config {

class JobConfigTest : public testing::Test {
 protected:
  static constexpr const char* kJob = R"(name = "tiny"
seed = 5
[data]
train = "data/train.txt-*"
format = "ngram"
dictionary = "words.txt"
ngram = 3
[[layer]]
name = "e0"
type = "embedding"
input = ["word0"]
size = 4
weight = { name = "_proj", initial_std = 0.001, l2 = 0.0, sparse = true }
[[layer]]
name = "output"
type = "fc"
input = ["e0"]
size = "dictionary"
bias_attributes = { learning_rate = 2.0 }
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["output"]
label = "next"
[optimizer]
method = "adagrad"
learning_rate = 3e-3
l2 = 8e-4
[strategy]
dense = "async"
[train]
passes = 2
)";

  JobConfigTest() { folder_.write("words.txt", "a\nb\n<unk>"); }

  std::string edited(const std::string& from, const std::string& to) {
    std::string text = kJob;
    text.replace(text.find(from), from.size(), to);
    return folder_.write("job.toml", text);
  }
  std::string mistake(const std::string& from, const std::string& to) {
    const auto job = read_job(edited(from, to));
    if (job) return "none";
    EXPECT_EQ(job.error().code, Errc::kUsage);
    const std::string& message = job.error().message;
    return message.substr(folder_.path().size() + 1,
                          message.find('\n') - folder_.path().size() - 1);
  }

  test::TemporaryFolder folder_;
};

}  // namespace paddle::config

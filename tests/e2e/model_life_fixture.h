// Snapshots of real templates after their training, and the figures that it logged.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/local_training_job.h"
#include "tests/e2e/trained_model.h"

namespace paddle::test {

// The fields from "samples" on that stand in both lines of JSON.
inline std::string figures(const std::string& json) {
  const std::size_t begin = json.find("\"samples\":");
  EXPECT_NE(begin, std::string::npos) << json;
  if (begin == std::string::npos) return "";
  return json.substr(
      begin, std::min(json.find(",\"examples_per_second\""), json.find(",\"rows\"")) - begin);
}

inline double field(const std::string& json, const std::string& name) {
  const std::size_t at = json.find("\"" + name + "\":");
  EXPECT_NE(at, std::string::npos) << name << " in " << json;
  return at == std::string::npos ? 0 : std::stod(json.substr(at + name.size() + 3));
}

class ModelLife : public TrainedModel {
 protected:
  // Tests every pass, and expects the figures that training logged.
  void expect_the_digits_of_training(const std::string& name,
                                     const std::vector<std::string>& tests) {
    ASSERT_FALSE(tests.empty());
    for (std::size_t pass = 0; pass < tests.size(); ++pass) {
      const Ran tested = succeed(fmt::format(
          "paddle test --snapshot={0}-save/pass-{1:05} --workspace={0} --json", name, pass));
      EXPECT_EQ(figures(tested.out), figures(tests[pass])) << name << " pass " << pass;
    }
  }

  void expect_the_digits_of(const Job& job, std::size_t passes) {
    std::size_t pass = 0;
    for (const std::string& line : lines_of(job.metrics("job", 0))) {
      if (!line.starts_with(R"({"kind":"test")")) continue;
      const Ran tested =
          succeed(fmt::format("paddle test --snapshot={}/pass-{:05} --workspace={} --json",
                              job.save_dir("job"), pass++, job.folder().path()));
      EXPECT_EQ(figures(tested.out), figures(line)) << pass;
    }
    EXPECT_EQ(pass, passes);
  }
};

inline constexpr const char* kClicks = "--values 5 --examples 6000 --test 2000";

inline std::string topical_text() {
  std::string text;
  for (int i = 0; i < 600; ++i) {
    for (int j = 0; j < 8; ++j) text += fmt::format("t{}w{} ", i % 7, (i * 5 + j * j) % 6);
    text += '\n';
  }
  return text;
}

}  // namespace paddle::test

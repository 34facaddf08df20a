#include <gtest/gtest.h>

#include "cli/workspace/text_template.h"

namespace paddle::cli {
namespace {

PlatformJob job() {
  return {.name = "My_Job.v2",
          .workspace = "/data/it's",
          .engine = "/opt/paddle",
          .trainers = 3,
          .pservers = 2,
          .overrides = {"data.train='x y'"},
          .image = "a\"b"};
}

TEST(PlatformTemplate, ValuesAreQuotedForWhoeverReadsThem) {
  const auto made = fill_template("slurm.sh",
                                  "{{name}} {{processes}} {{last_pserver}} {{workspace}}"
                                  "{{set_flags}} {{image}}",
                                  job());
  ASSERT_TRUE(made);
  EXPECT_EQ(*made, "my-job-v2 5 1 '/data/it'\\''s' '--set=data.train='\\''x y'\\''' \"a\\\"b\"");
}

TEST(PlatformTemplate, NamesFitADnsLabel) {
  PlatformJob one = job();
  one.name = "2026-" + std::string(80, 'x') + "/../";
  EXPECT_EQ(*fill_template("kubernetes.yaml", "{{name}}", one), "job-2026-" + std::string(43, 'x'));
  one.name = "..";
  EXPECT_EQ(fill_template("kubernetes.yaml", "", one).error().message, "'..' names no job");
}

TEST(PlatformTemplate, WhatWouldLeaveItsPlaceIsRefused) {
  PlatformJob one = job();
  one.overrides = {"seed=1\nTASK\nrm -rf x"};
  EXPECT_EQ(fill_template("slurm.sh", "", one).error().code, Errc::kUsage);
  one = job();
  one.workspace = "/a\nb";
  EXPECT_FALSE(fill_template("slurm.sh", "", one));
  EXPECT_EQ(fill_template("slurm.sh", "a\nb {{name}}\n{{nmae}}", job()).error().message,
            "slurm.sh:3: {{nmae}} means nothing");
  EXPECT_FALSE(fill_template("slurm.sh", "{{name", job()));
}

}  // namespace
}  // namespace paddle::cli

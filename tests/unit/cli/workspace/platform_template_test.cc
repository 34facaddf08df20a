#include "cli/workspace/platform_template.h"

#include <gtest/gtest.h>

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
  const auto made = fill_template(Platform::kSlurm,
                                  "{{name}} {{processes}} {{last_pserver}} {{workspace}}"
                                  "{{set_flags}} {{image}}",
                                  job());
  ASSERT_TRUE(made);
  EXPECT_EQ(*made, "my-job-v2 5 1 '/data/it'\\''s' '--set=data.train='\\''x y'\\''' \"a\\\"b\"");
}

TEST(PlatformTemplate, NamesFitADnsLabel) {
  PlatformJob one = job();
  one.name = "2026-" + std::string(80, 'x') + "/../";
  EXPECT_EQ(*fill_template(Platform::kKubernetes, "{{name}}", one),
            "job-2026-" + std::string(43, 'x'));
  one.name = "..";
  EXPECT_EQ(fill_template(Platform::kKubernetes, "", one).error().message, "'..' names no job");
}

TEST(PlatformTemplate, WhatWouldLeaveItsPlaceIsRefused) {
  PlatformJob one = job();
  one.overrides = {"seed=1\nTASK\nrm -rf x"};
  EXPECT_EQ(fill_template(Platform::kSlurm, "", one).error().code, Errc::kUsage);
  one = job();
  one.workspace = "/a\nb";
  EXPECT_FALSE(fill_template(Platform::kSlurm, "", one));
  EXPECT_EQ(fill_template(Platform::kSlurm, "a\nb {{name}}\n{{nmae}}", job()).error().message,
            "slurm.sh:3: {{nmae}} means nothing");
  EXPECT_FALSE(fill_template(Platform::kSlurm, "{{name", job()));
}

}  // namespace
}  // namespace paddle::cli

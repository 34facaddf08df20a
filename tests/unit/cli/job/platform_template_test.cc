#include <gtest/gtest.h>

#include "base/fd.h"
#include "cli/job/text_template.h"

namespace paddle::cli {
namespace {

PlatformJob job() {
  return {.name = "My_Job.v2",
          .workspace = "/data/it's",
          .engine = "/opt/paddle",
          .trainers = 3,
          .pservers = 2,
          .overrides = {"data.train='x y'"},
          .kubernetes = {.image = "a\"b"}};
}

TEST(PlatformTemplate, ValuesAreQuotedForWhoeverReadsThem) {
  const auto made = fill_template("slurm.sh",
                                  "{{name}} {{processes}} {{pods}} {{workspace}}"
                                  "{{set_flags}} {{image}}",
                                  job());
  ASSERT_TRUE(made);
  EXPECT_EQ(*made, "my-job-v2 5 3 '/data/it'\\''s' '--set=data.train='\\''x y'\\''' \"a\\\"b\"");
}

TEST(PlatformTemplate, NamesFitADnsLabel) {
  PlatformJob one = job();
  one.name = "2026-" + std::string(80, 'x') + "/../";
  EXPECT_EQ(*fill_template("kubernetes.yaml", "{{name}}", one), "job-2026-" + std::string(43, 'x'));
  one.name = "..";
  EXPECT_EQ(fill_template("kubernetes.yaml", "", one).error().message,
            "'..' is not a valid job name");
}

TEST(PlatformTemplate, LinesOfAnotherKindOfJobAreLeftOut) {
  const std::string text =
      "a\n{{if pservers}}\n{{pservers}} servers\n{{end}}\n{{if own_program}}\n  {{own_program}}\n"
      "{{else}}\nengine\n{{end}}\n{{if cluster}}\nport {{first_port}}\n{{end}}\n";
  PlatformJob one = job();
  EXPECT_EQ(*fill_template("slurm.sh", text, one), "a\n2 servers\nengine\n");
  one.pservers = 0;
  one.command = {"./train", "it's"};
  one.own_program = "first of {{trainers}}\nexec {{command}}\n";
  one.has_cluster = true;
  one.first_port = 9000;
  EXPECT_EQ(*fill_template("slurm.sh", text, one),
            "a\n  first of 3\n  exec './train' 'it'\\''s'\nport 9000\n");
  EXPECT_EQ(*fill_template("kubernetes.yaml", "{{last_pod}} {{service_ports}}", one),
            "2 {name: trainer, port: 9000}, {name: master, port: 9001}");
  for (const char* bad : {"{{if x}}\n{{end}}\n", "\n{{end}}\n", "{{else}}\n",
                          "{{if pservers}}\n{{if cluster}}\n{{end}}\n{{end}}\n"}) {
    const auto refused = fill_template("slurm.sh", bad, one);
    ASSERT_FALSE(refused) << bad;
    EXPECT_NE(refused.error().message.find("is out of place"), std::string::npos);
  }
}

TEST(PlatformTemplate, AJobThatLacksStatisticsMakesThemFirst) {
  PlatformJob one = job();
  const std::string text = "{{if statistics}}\nstatistics\n{{end}}\ntrain\n";
  EXPECT_EQ(*fill_template("slurm.sh", text, one), "train\n");
  one.lacks_statistics = true;
  EXPECT_EQ(*fill_template("slurm.sh", text, one), "statistics\ntrain\n");
}

TEST(PlatformTemplate, ThePortsOfTheClusterFileAreOpenInEveryPod) {
  PlatformJob one = job();
  one.first_port = 8000;
  one.ports_num = 2;
  EXPECT_EQ(*fill_template("kubernetes.yaml", "[{{container_ports}}] {{ports_num}}", one),
            "[{name: dense-0, containerPort: 8000}, {name: dense-1, containerPort: 8001}, "
            "{name: sparse-0, containerPort: 8002}] 2");
}

TEST(PlatformTemplate, TrainersOfAGroupListenAndHaveASecretWithoutPservers) {
  PlatformJob one = job();
  const std::string text =
      "{{if secret}}\nkey\n{{end}}\n{{endpoints}}\n"
      "[{{service_ports}}]{{group_flag}}";
  one.endpoints = "of {{trainers}}\n";
  EXPECT_EQ(*fill_template("slurm.sh", text, one),
            "key\nof 3\n[{name: dense-0, port: 7164}, {name: sparse-0, port: 7165}]");
  one.has_group = true;
  one.ports_num = 0;
  EXPECT_EQ(*fill_template("slurm.sh", text, one),
            "key\nof 3\n[{name: sparse-0, port: 7164}, {name: trainer, port: 7165}] "
            "--trainers=\"$trainers\"");
  one.pservers = 0;
  EXPECT_EQ(*fill_template("slurm.sh", text, one),
            "key\nof 3\n[{name: trainer, port: 7164}] --trainers=\"$trainers\" --pservers=");
}

TEST(PlatformTemplate, TheTextForPodsStandsInItsPlace) {
  PlatformJob one = job();
  one.pservers = 0;
  one.command = {"./train"};
  one.own_program = "one\nexec {{command}}\n";
  one.kubernetes.pod = "{{if own_program}}\nrun() {\n  {{own_program}}\n}\n{{end}}\n{{last_pod}}\n";
  EXPECT_EQ(*fill_template("kubernetes.yaml", "- |\n  {{pod}}\nend\n", one),
            "- |\n  run() {\n    one\n    exec './train'\n  }\n  2\nend\n");
}

TEST(PlatformTemplate, AVolumeAndAKeyArePrintedWhereTheyAreAskedFor) {
  PlatformJob one = job();
  const std::string text =
      "{{if nfs}}\n{{nfs_server}} {{nfs_path}}\n{{end}}\n{{if printed_key}}\n{{key}}\n{{end}}\n"
      "{{if prepare}}\nprepare\n{{end}}\n{{claim}} {{secret}}\n";
  EXPECT_EQ(*fill_template("kubernetes.yaml", text, one), "\"my-job-v2\" \"my-job-v2-key\"\n");
  one.kubernetes.nfs = "fs-1.efs.lab:/data";
  one.kubernetes.new_key = "a2V5";
  one.kubernetes.has_data_job = true;
  EXPECT_EQ(*fill_template("kubernetes.yaml", text, one),
            "\"fs-1.efs.lab\" \"/data\"\na2V5\nprepare\n\"my-job-v2\" \"my-job-v2-key\"\n");
  one.kubernetes = {.image = "i", .claim = "mine", .secret = "its-key"};
  EXPECT_EQ(*fill_template("kubernetes.yaml", text, one), "\"mine\" \"its-key\"\n");
  for (const char* const wrong : {"fs-1.efs.lab", ":/data", "fs-1.efs.lab:data"}) {
    one.kubernetes.nfs = wrong;
    EXPECT_EQ(fill_template("kubernetes.yaml", text, one).error().message,
              "--nfs " + std::string(wrong) + " is not SERVER:/PATH");
  }
}

TEST(PlatformTemplate, WhatWouldLeaveItsPlaceIsRefused) {
  PlatformJob one = job();
  one.overrides = {"seed=1\nTASK\nrm -rf x"};
  EXPECT_EQ(fill_template("slurm.sh", "", one).error().code, Errc::kUsage);
  one = job();
  one.workspace = "/a\nb";
  EXPECT_FALSE(fill_template("slurm.sh", "", one));
  EXPECT_EQ(fill_template("slurm.sh", "a\nb {{name}}\n{{nmae}}", job()).error().message,
            "slurm.sh:3: {{nmae}} is unknown");
  EXPECT_FALSE(fill_template("slurm.sh", "{{name", job()));
}

TEST(PlatformTemplate, ScriptsCountProcessesWithoutANounInThePlural) {
  PlatformJob one = job();
  one.pservers = 1;
  one.trainers = 1;
  for (const char* const file : {"slurm.sh", "openmpi.sh"}) {
    const auto text = read_file(PADDLE_SOURCE_DIR "/templates/platforms/" + std::string(file));
    ASSERT_TRUE(text) << file;
    const auto made = fill_template(file, *text, one);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_NE(made->find("pservers first (1), then trainers (1)."), std::string::npos) << *made;
    for (const char* const wrong : {"1 pservers", "1 trainers"})
      EXPECT_EQ(made->find(wrong), std::string::npos) << file << ": " << wrong;
  }
}

}  // namespace
}  // namespace paddle::cli

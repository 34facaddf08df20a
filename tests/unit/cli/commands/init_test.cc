// paddlectl init: what it writes is what the other commands take.
#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "cli/cluster/cluster_file.h"
#include "cli/cluster/node_list.h"
#include "cli/command_line.h"
#include "cli/job/share_folder.h"
#include "cli/job/workspace.h"
#include "engine/config/job_config.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

class InitTest : public testing::Test {
 protected:
  int run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    Console console(out_, err_, {});
    Context context{console,
                    clock_,
                    {},
                    [](Duration) {},
                    [] { return false; },
                    [] { return std::int64_t{1}; },
                    "",
                    folder_.path()};
    context.share = share_;
    arguments.insert(arguments.begin(), "init");
    return run_app(context, std::move(arguments));
  }
  // "[user@]host[*capacity] " of each.
  std::string nodes_of(const std::string& file) const {
    const auto cluster = read_cluster(folder_ / file);
    if (!cluster) return cluster.error().message;
    std::string text;
    for (const ClusterNode& node : cluster->nodes) {
      text += (node.spec.user.empty() ? "" : node.spec.user + "@") + node.spec.host +
              (node.capacity == 1 ? "" : "*" + std::to_string(node.capacity)) + " ";
    }
    return text;
  }

  test::TemporaryFolder folder_;
  std::string share_ = PADDLE_SOURCE_DIR;
  SteadyClock clock_;
  std::ostringstream out_, err_;
};

TEST_F(InitTest, WritesAClusterFileThatIsGoodAndNeverOverOne) {
  ASSERT_EQ(run({"--hosts", "n1,n2"}), 0) << err_.str();
  EXPECT_TRUE(read_cluster(folder_ / "cluster.toml"));
  const std::string before = test::TemporaryFolder::read(folder_ / "cluster.toml");
  for (const std::vector<std::string>& again :
       {std::vector<std::string>{}, {"--local"}, {"--hosts", "n3"}})
    EXPECT_EQ(run(again), 2);
  EXPECT_NE(err_.str().find("hint: name another file: paddlectl init cluster-2.toml --hosts n3\n"),
            std::string::npos)
      << err_.str();
  EXPECT_EQ(run({"--hostfile", "hosts"}), 2);
  EXPECT_NE(err_.str().find("paddlectl init cluster-2.toml --hostfile hosts\n"), std::string::npos)
      << err_.str();
  EXPECT_EQ(run({"--local"}), 2);
  EXPECT_NE(err_.str().find("paddlectl init cluster-2.toml --local\n"), std::string::npos)
      << err_.str();
  EXPECT_EQ(test::TemporaryFolder::read(folder_ / "cluster.toml"), before);
  ASSERT_EQ(run({"here.toml", "--local"}), 0) << err_.str();
  EXPECT_TRUE(read_cluster(folder_ / "here.toml")->nodes[0].spec.is_local());
}

TEST_F(InitTest, ClusterFilesOfSeveralNamesShareNoFolderOnTheirNodes) {
  const auto name_in = [this](const std::string& file) {
    const auto cluster = read_cluster(folder_ / file);
    return cluster ? cluster->name : cluster.error().message;
  };
  ASSERT_EQ(run({"--hosts", "n1,n2"}), 0) << err_.str();
  EXPECT_EQ(name_in("cluster.toml"), "lab");
  ASSERT_EQ(run({"--hosts", "n1,n2", "cluster-2.toml"}), 0) << err_.str();
  EXPECT_EQ(name_in("cluster-2.toml"), "cluster-2");
  ASSERT_EQ(run({"--local", "here.toml"}), 0) << err_.str();
  EXPECT_EQ(name_in("here.toml"), "here");
  ASSERT_EQ(run({"--hosts", "n1", "my lab.toml"}), 0) << err_.str();
  EXPECT_EQ(name_in("my lab.toml"), "lab") << "no folder has such a name";
}

TEST_F(InitTest, HostsNamedMakeAClusterFileThatUpTakesAsItIs) {
  ASSERT_EQ(run({"--hosts", "node[08-10].lab,gpu:2,me@10.1.0.7"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "wrote cluster.toml with 5 nodes\n");
  EXPECT_EQ(err_.str(),
            "the number after 'gpu:' is its number of slots: 2 trainers; write an sshd port as "
            "ssh://gpu:2222\nnext: paddlectl up cluster.toml\n");
  EXPECT_EQ(nodes_of("cluster.toml"), "node08.lab node09.lab node10.lab gpu*2 me@10.1.0.7 ");
  const std::string text = test::TemporaryFolder::read(folder_ / "cluster.toml");
  EXPECT_NE(text.find("host = \"node[08-10].lab\""), std::string::npos) << text;
  const auto port = text.find("\n# port = 22 ");
  ASSERT_NE(port, std::string::npos) << text;
  EXPECT_GT(port, text.find("[ssh]"));
  EXPECT_LT(port, text.find("[[node]]"));
  folder_.write("hosts", "n1 slots=2\nn2 slots=2\n");
  ASSERT_EQ(run({"--hostfile", "hosts", "of-file.toml"}), 0) << err_.str();
  EXPECT_EQ(err_.str(), "next: paddlectl up of-file.toml\n") << "nothing is to be edited";
  EXPECT_EQ(nodes_of("of-file.toml"), "n1*2 n2*2 ");
  ASSERT_EQ(run({"--local", "here.toml"}), 0) << err_.str();
  EXPECT_EQ(err_.str(), "next: paddlectl up here.toml\n");
}

TEST_F(InitTest, HostsThatAreNoneAreNamed) {
  for (const auto& [hosts, what] : std::vector<std::pair<std::string, std::string>>{
           {"n1,,n2", "--hosts: '' is not a host name"},
           {"n1;n2", "--hosts: 'n1;n2' is not a host name"},
           {"", "--hosts: '' is not a host name"},
           {"n1 n2", "--hosts: 'n1 n2' is not a host name"},
           {"n1,n2:x", "--hosts: 'n2:x' needs a number of slots from 1 to 1023 after the ':'"},
           {"node[1-", "bad range in 'node[1-': '[' without ']'"},
           {"n1,n1", "--hosts: 'n1' is named twice"},
           {"n[1-3],n2", "--hosts: 'n2' is named twice"}}) {
    EXPECT_EQ(run({"--hosts", hosts}), 2) << hosts;
    EXPECT_NE(err_.str().find(what), std::string::npos) << hosts << ": " << err_.str();
    EXPECT_EQ(err_.str().find("slots=8"), std::string::npos) << "no hint at hostfiles";
  }
  EXPECT_EQ(run({"--hosts", "n1", "--local"}), 2);
  for (const std::string count : {"3", "12"}) {
    EXPECT_EQ(run({"--local", count}), 2);
    EXPECT_TRUE(err_.str().ends_with("then write count = " + count + " in cluster.toml\n"))
        << err_.str();
    EXPECT_FALSE(fs::exists(folder_ / count));
  }
  EXPECT_EQ(run({"--hosts", "n1", "--hostfile", "hosts"}), 2);
  EXPECT_EQ(run({"--hosts", "n1", "--template", "word2vec"}), 2);
  EXPECT_FALSE(fs::exists(folder_ / "cluster.toml"));
}

TEST_F(InitTest, WithoutHostsTheFileInventsNoneAndTheLineToEditIsNamed) {
  ASSERT_EQ(run({"lab.toml"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "wrote lab.toml\n");
  const std::string text = test::TemporaryFolder::read(folder_ / "lab.toml");
  std::istringstream lines(text);
  std::string line;
  int number = 0, node = 0;
  while (std::getline(lines, line)) {
    ++number;
    if (line.starts_with("# [[node]]") && node == 0) node = number;
    EXPECT_FALSE(line.starts_with("[[node]]")) << line;
    EXPECT_FALSE(line.starts_with("user")) << line;
  }
  ASSERT_GT(node, 0) << text;
  EXPECT_EQ(err_.str(), "next: name your servers in line " + std::to_string(node) +
                            " of lab.toml, then: paddlectl up lab.toml\n"
                            "or have init name them: paddlectl init --hosts n1,n2,n3 FILE\n");
  EXPECT_EQ(text.find("Copy this file"), std::string::npos);
  const auto unedited = read_cluster(folder_ / "lab.toml");
  ASSERT_FALSE(unedited);
  EXPECT_NE(unedited.error().message.find("the file has no [[node]]"), std::string::npos)
      << unedited.error().message;
  ASSERT_EQ(run({"other.toml", "--json"}), 0);
  EXPECT_NE(out_.str().find("\"nodes\": 0"), std::string::npos) << out_.str();
}

TEST_F(InitTest, MakesAClusterFileOfAHostfileWithRangesOfItsHosts) {
  folder_.write("hosts",
                "# the lab\nnode08.lab slots=8\nnode09.lab slots=8 max_slots=9\r\n"
                "node10.lab:8\n\nnode11.lab slots=4\n  gpu  \nme@10.1.0.7 slots=1\n");
  ASSERT_EQ(run({"--hostfile", "hosts", "lab.toml", "--json"}), 0) << err_.str();
  EXPECT_NE(out_.str().find("\"nodes\": 6"), std::string::npos) << out_.str();
  const auto cluster = read_cluster(folder_ / "lab.toml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  std::vector<std::string> hosts;
  for (const ClusterNode& node : cluster->nodes) hosts.push_back(node.spec.host);
  EXPECT_EQ(hosts, (std::vector<std::string>{"node08.lab", "node09.lab", "node10.lab", "node11.lab",
                                             "gpu", "10.1.0.7"}));
  EXPECT_EQ(cluster->nodes[5].spec.user, "me");
  std::vector<std::uint32_t> capacities;
  for (const ClusterNode& node : cluster->nodes) capacities.push_back(node.capacity);
  EXPECT_EQ(capacities, (std::vector<std::uint32_t>{8, 8, 8, 4, 1, 1}));
  const std::string text = test::TemporaryFolder::read(folder_ / "lab.toml");
  EXPECT_NE(text.find("host = \"node[08-10].lab\""), std::string::npos) << text;
}

// "[user@]host*slots " of each.
std::string entries_of(const std::string& text) {
  const auto entries = parse_hostfile(text, "hosts");
  if (!entries) return entries.error().message;
  std::string shown;
  for (const HostfileEntry& entry : *entries) {
    shown += (entry.user.empty() ? "" : entry.user + "@") + entry.host + "*" +
             std::to_string(entry.slots) + (entry.ssh_port == 0 ? "" : ":") +
             (entry.ssh_port == 0 ? "" : std::to_string(entry.ssh_port)) + " ";
  }
  return shown;
}

TEST_F(InitTest, ReadsHostfilesAsProgramsAndPeopleWriteThem) {
  EXPECT_EQ(entries_of("n1 slots = 4\nn2 slots= 2\nn3 slots =1 max_slots = 3\n"),
            "n1*4 n2*2 n3*1 ");
  EXPECT_EQ(entries_of("n1 cpu=4\nn2 count=2\nn3 cpus = 8\n"), "n1*4 n2*2 n3*8 ");
  EXPECT_EQ(entries_of("\xef\xbb\xbfn1 slots=4\r\n\r\nn2\tslots=4\r\n"), "n1*4 n2*4 ");
  EXPECT_EQ(entries_of("n1\nn1\nn2\nn2\n"), "n1*2 n2*2 ") << "PBS";
  EXPECT_EQ(entries_of("n1 slots=4 # fast\n#n2 slots=4\n  # x\n"), "n1*4 ");
  EXPECT_EQ(entries_of("node[01-02,07] slots=8\ngpu[1,3],cpu2\n"),
            "node01*8 node02*8 node07*8 gpu1*0 gpu3*0 cpu2*0 ")
      << "Slurm";
  EXPECT_EQ(entries_of("n1 4 all.q@n1 UNDEFINED\nn2 2 all.q@n2 <NULL>\nn3 8\n"), "n1*4 n2*2 n3*8 ")
      << "Grid Engine";
  EXPECT_EQ(
      entries_of("2001:db8::1 slots=8\n[2001:db8::2] slots=4\n[2001:db8::3]:2\nfe80::1%eth0\n"),
      "2001:db8::1*8 2001:db8::2*4 2001:db8::3*2 fe80::1%eth0*0 ");
  EXPECT_EQ(entries_of("CORP\\alice@n1 slots=1\nalice@corp.example@n2\nn3 user=bob port=2222\n"),
            "CORP\\alice@n1*1 alice@corp.example@n2*0 bob@n3*0:2222 ");
  EXPECT_EQ(entries_of("n1:4,n2:2\n"), "n1*4 n2*2 ") << "Horovod";
  EXPECT_EQ(entries_of(std::string("\xff\xfen\0", 4)), "hosts is in UTF-16");
  for (const char* bad : {"n[1-", "2001:db8:::1", "[::1", "a slots=", "a = 4", "a cpu=-1",
                          "a port=0", "a user=;", "a 4 b", "a 0"}) {
    EXPECT_TRUE(entries_of(std::string("ok\n") + bad + "\n").starts_with("hosts:2: "))
        << bad << ": " << entries_of(std::string("ok\n") + bad + "\n");
  }
}

TEST_F(InitTest, ListsOfSlurmAndAddressesOfIPv6BecomeClusterFiles) {
  ASSERT_EQ(run({"a.toml", "--hosts", "node[01-03,07]"}), 0) << err_.str();
  EXPECT_EQ(nodes_of("a.toml"), "node01 node02 node03 node07 ");
  ASSERT_EQ(run({"b.toml", "--hosts", "gpu[1,3],cpu[02-03]"}), 0) << err_.str();
  EXPECT_EQ(nodes_of("b.toml"), "gpu1 gpu3 cpu02 cpu03 ");
  ASSERT_EQ(run({"c.toml", "--hosts", "2001:db8::1,[2001:db8::2]:4,::1"}), 0) << err_.str();
  EXPECT_EQ(nodes_of("c.toml"), "2001:db8::1 2001:db8::2*4 ::1 ");
  ASSERT_EQ(run({"d.toml", "--hosts", "CORP\\alice@n1,alice@corp.example@n2"}), 0) << err_.str();
  EXPECT_EQ(nodes_of("d.toml"), "CORP\\alice@n1 alice@corp.example@n2 ");
  folder_.write("hosts", "n1 port=2222\nn2 port=2222\n");
  ASSERT_EQ(run({"e.toml", "--hostfile", "hosts"}), 0) << err_.str();
  EXPECT_EQ(read_cluster(folder_ / "e.toml")->nodes[1].spec.ssh_port, 2222);
  EXPECT_EQ(run({"f.toml", "--hosts", "2001:db8::g"}), 2);
  EXPECT_NE(err_.str().find("IPv6"), std::string::npos) << err_.str();
}

TEST_F(InitTest, WhatMayBeAPortOfSshdIsNotTakenForSlots) {
  for (const char* word : {"n1:2221", "me@n1:22122", "[::1]:2222"}) {
    EXPECT_EQ(run({"a.toml", "--hosts", word}), 2) << word;
    EXPECT_NE(err_.str().find("for an sshd port, write ssh://" + std::string(word)),
              std::string::npos)
        << err_.str();
    ASSERT_EQ(run({std::string("of-") + word + ".toml", "--hosts", "ssh://" + std::string(word)}),
              0)
        << err_.str();
    EXPECT_GT(read_cluster(folder_ / ("of-" + std::string(word) + ".toml"))->nodes[0].spec.ssh_port,
              2000);
  }
  EXPECT_EQ(entries_of("n1:2221\n").substr(0, 7), "hosts:1");
  EXPECT_EQ(entries_of("n1 slots=2221\nssh://me@n2:2222/\n"), "n1*2221 me@n2*0:2222 ");
  ASSERT_EQ(run({"b.toml", "--hosts", "n1:22"}), 0) << err_.str();
  EXPECT_NE(err_.str().find("write an sshd port as ssh://n1:2222"), std::string::npos);
  EXPECT_EQ(run({"c.toml", "--hosts", "ssh://n1:0"}), 2);
}

TEST_F(InitTest, PortsOfOneAddressAreNodesOfTheirOwn) {
  ASSERT_EQ(run({"a.toml", "--hosts", "ssh://lab:2221,ssh://lab:2222,"}), 0) << err_.str();
  folder_.write("hosts", "lab port=2221 user=me\nlab port=2222\nlab port=2222 user=you\nn2\n");
  ASSERT_EQ(run({"b.toml", "--hostfile", "hosts"}), 0) << err_.str();
  for (const char* file : {"a.toml", "b.toml"}) {
    const auto cluster = read_cluster(folder_ / file);
    ASSERT_TRUE(cluster) << cluster.error().message;
    EXPECT_EQ(cluster->nodes[0].spec.name, "lab-2221");
    EXPECT_EQ(cluster->nodes[0].spec.host, "lab");
    EXPECT_EQ(cluster->nodes[1].spec.name, "lab-2222");
    EXPECT_EQ(cluster->nodes[1].spec.ssh_port, 2222);
  }
  EXPECT_EQ(nodes_of("b.toml"), "me@lab you@lab*2 n2 ");
  EXPECT_EQ(run({"c.toml", "--hosts", "ssh://lab:2221,ssh://lab:2221"}), 2);
  EXPECT_TRUE(entries_of("n1 user=me\nn1 user=you\n").starts_with("hosts:2: ")) << "whose slots?";
}

TEST_F(InitTest, ASecondHostIsNotTakenForTheFileToWrite) {
  EXPECT_EQ(run({"--hosts", "n1.lab", "n2.lab"}), 2);
  EXPECT_NE(err_.str().find("separate hosts by commas: --hosts n1.lab,n2.lab;"), std::string::npos)
      << err_.str();
  EXPECT_FALSE(fs::exists(folder_ / "n2.lab"));
  EXPECT_EQ(run({"--hosts", "gpu,", "cpu"}), 2) << "of gpu, cpu";
  EXPECT_NE(err_.str().find("--hosts gpu,cpu;"), std::string::npos) << err_.str();
  EXPECT_EQ(run({"--hosts", "n1", "lab"}), 0) << err_.str();
}

TEST_F(InitTest, NamesTheLineOfAHostfileThatCannotBeRead) {
  for (const char* bad : {"a slots=x", "a slots=0", "a slots=99999", "a rank=1", "-oProxy slots=1",
                          "a;b", "a\x1b[2J", "a:", "@a", "$(id)", "a b", "\"a\"", "a:1:2"}) {
    const auto entries = parse_hostfile(std::string("ok\n") + bad + "\n", "hosts");
    ASSERT_FALSE(entries) << bad;
    EXPECT_EQ(entries.error().code, Errc::kUsage);
    EXPECT_TRUE(entries.error().message.starts_with("hosts:2: ")) << entries.error().message;
    EXPECT_EQ(entries.error().message.find('\x1b'), std::string::npos);
  }
  const auto inventory = parse_hostfile("[gpu]\nn1 ansible_port=2222\n", "hosts");
  ASSERT_FALSE(inventory);
  EXPECT_EQ(inventory.error().message, "hosts:1: '[gpu]' is the head of a section, not a host");
  EXPECT_NE(inventory.error().hint.find("user=me port=2222"), std::string::npos);
  EXPECT_TRUE(parse_hostfile("[1-3] slots=2\n[fe80::1]\n", "hosts"));
  EXPECT_FALSE(parse_hostfile("# nothing\n", "hosts"));
  EXPECT_EQ((*parse_hostfile("a slots=2\nb\na slots=3", "hosts"))[0].slots, 5U);
  EXPECT_EQ(run({"--hostfile", "absent"}), 2);
  EXPECT_FALSE(fs::exists(folder_ / "cluster.toml"));
}

TEST_F(InitTest, EveryTemplateIsCopiedAsAWorkspaceWithItsScripts) {
  const auto names = template_names(share_);
  ASSERT_TRUE(names);
  EXPECT_GE(names->size(), 8U);
  ASSERT_EQ(run({"--list"}), 0);
  for (const std::string& name : *names) {
    EXPECT_NE(out_.str().find(name), std::string::npos);
    EXPECT_NE(template_summary(share_, name), "") << name;
  }
  for (const std::string& name : *names) {
    ASSERT_EQ(run({"--template", name, "new/" + name}), 0) << err_.str();
    for (const char* file : {"job.toml", "README.md", "prepare"}) {
      const std::string source = share_ + "/templates/" + name + "/" + file;
      const std::string copy = folder_ / ("new/" + name + "/" + file);
      EXPECT_EQ(test::TemporaryFolder::read(copy), test::TemporaryFolder::read(source)) << copy;
      EXPECT_EQ(fs::status(copy).permissions(), fs::status(source).permissions()) << copy;
    }
    EXPECT_FALSE(fs::exists(folder_ / ("new/" + name + "/data")));
  }
}

// 3,000 records of a number that is sometimes missing, a category and a label.
std::string small_table() {
  std::string text = "age;city;bought\n";
  for (int i = 0; i < 3000; ++i) {
    text += (i % 10 == 0 ? "" : std::to_string(i * 7 % 60)) + ";city-" + std::to_string(i % 5) +
            (i % 3 == 0 ? ";yes\n" : ";no\n");
  }
  return text;
}

TEST_F(InitTest, ATableBecomesAWorkspaceWithACopyOfIt) {
  folder_.write("people.csv", small_table());
  ASSERT_EQ(run({"--from", "people.csv"}), 0) << err_.str();
  for (const char* said :
       {"bought", "yes or no: yes is 'yes', no is 'no'", "age (10 %)", "city", "wide and deep",
        "a guess", "--label COLUMN", "wrote people/job.toml and people/data/table.csv"})
    EXPECT_NE(out_.str().find(said), std::string::npos) << said << "\n" << out_.str();
  EXPECT_EQ(err_.str(), "next: paddlectl train people\n");
  EXPECT_EQ(test::TemporaryFolder::read(folder_ / "people/data/table.csv"), small_table());
  const auto job = config::read_job(folder_ / "people/job.toml");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->data.delimiter, ';');
  EXPECT_TRUE(job->data.has_header);
  EXPECT_EQ(job->data.slots[0].labels, (std::vector<std::string>{"no", "yes"}));
  EXPECT_TRUE(job->data.slots[1].missing_indicator);
  EXPECT_EQ(run({"--from", "people.csv"}), 2) << "the folder is not empty";
  EXPECT_NE(err_.str().find("paddlectl init --from people.csv DIR"), std::string::npos)
      << err_.str();
}

TEST_F(InitTest, FoldersOfTablesAreQuotedAndFilesInTheirPlaceNamed) {
  folder_.write("my people.csv", small_table());
  ASSERT_EQ(run({"--from", "my people.csv"}), 0) << err_.str();
  EXPECT_EQ(err_.str(), "next: paddlectl train 'my people'\n");
  folder_.write("taken", "");
  EXPECT_EQ(run({"--from", "my people.csv", "taken"}), 2);
  EXPECT_NE(err_.str().find("taken exists and is no folder"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("--from 'my people.csv' DIR"), std::string::npos) << err_.str();
}

TEST_F(InitTest, ATablesLabelAndFolderCanBeNamed) {
  folder_.write("people.csv", small_table());
  ASSERT_EQ(run({"--from", "people.csv", "--label", "city", "work", "--json"}), 0) << err_.str();
  EXPECT_NE(out_.str().find("\"what\": \"label\", \"guess\": \"city: --label\""), std::string::npos)
      << out_.str();
  const auto job = config::read_job(folder_ / "work/job.toml");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->data.slots[0].labels.size(), 5U);
}

TEST_F(InitTest, NamesThatAreNoneAndThoseOfLayersMakeAGoodJob) {
  std::string text = ",linear,numbers,words,\"q\"\"\\\x1b\",cost\n";
  for (int i = 0; i < 3000; ++i) {
    text += "c" + std::to_string(i % 3) + "," + std::to_string(i * 7 % 60) + ",k" +
            std::to_string(i % 4) + ",the quick brown fox " + std::to_string(i) + "," +
            std::to_string(i % 11) + ",l" + std::to_string(i % 3) + "\n";
  }
  folder_.write("odd.csv", text);
  ASSERT_EQ(run({"--from", "odd.csv"}), 0) << err_.str();
  const auto job = config::read_job(folder_ / "odd/job.toml");
  ASSERT_TRUE(job) << job.error().message;
  std::set<std::string> names;
  for (const auto& slot : job->data.slots) names.insert(slot.name);
  EXPECT_EQ(names, (std::set<std::string>{"cost", "unnamed", "numbers_", "numbers", "words"}));
  EXPECT_EQ(std::ranges::count(out_.str(), '\x1b'), 0);
}

TEST_F(InitTest, MistakesAboutTablesWriteNothing) {
  folder_.write("people.csv", small_table());
  EXPECT_EQ(run({"--from", "people.csv", "--label", "agee"}), 2);
  EXPECT_NE(err_.str().find("did you mean 'age'?"), std::string::npos) << err_.str();
  EXPECT_EQ(run({"--from", "absent.csv"}), 2);
  EXPECT_NE(err_.str().find("absent.csv: there is no such file"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("name a csv, jsonl, npz or libsvm file: paddlectl init --from FILE"),
            std::string::npos)
      << err_.str();
  EXPECT_EQ(run({"--label", "age"}), 2);
  EXPECT_NE(err_.str().find("name the table: --from FILE"), std::string::npos) << err_.str();
  EXPECT_EQ(run({"--from", "people.csv", "--template", "word2vec"}), 2);
  EXPECT_EQ(run({"--from", "people.csv", "--hosts", "n1"}), 2);
  folder_.write("one.csv", "a\n1\n2\n");
  EXPECT_EQ(run({"--from", "one.csv"}), 6);
  for (const char* name : {"people", "one", "cluster.toml", "word2vec"})
    EXPECT_FALSE(fs::exists(folder_ / name)) << name;
}

TEST_F(InitTest, WritesIntoNoFolderWithSomethingInIt) {
  folder_.write("mine/notes", "keep");
  EXPECT_EQ(run({"--template", "word2vec", "mine"}), 2);
  EXPECT_FALSE(fs::exists(folder_ / "mine/job.toml"));
  fs::create_directory(folder_ / "empty");
  EXPECT_EQ(run({"--template", "word2vec", "empty"}), 0) << err_.str();
  EXPECT_EQ(run({"--template", "word2vec"}), 0) << err_.str();
  EXPECT_TRUE(fs::exists(folder_ / "word2vec/job.toml"));
}

TEST_F(InitTest, ATemplateWithoutItsOptionIsNoClusterFile) {
  EXPECT_EQ(run({"word2vec"}), 2);
  EXPECT_NE(err_.str().find("paddlectl init --template word2vec my-word2vec; "), std::string::npos)
      << err_.str();
  EXPECT_FALSE(fs::exists(folder_ / "word2vec"));
  EXPECT_EQ(run({"word2vec.toml"}), 0) << err_.str();
  EXPECT_EQ(run({"skipgram", "--local"}), 2);
}

TEST_F(InitTest, AnUnknownTemplateNamesTheNearestOne) {
  EXPECT_EQ(run({"--template", "word2vek"}), 2);
  EXPECT_NE(err_.str().find("did you mean 'word2vec'?"), std::string::npos) << err_.str();
  EXPECT_EQ(run({"--template", "../clusters"}), 2);
  share_ = "";
  EXPECT_EQ(run({"--template", "word2vec"}), 2);
  EXPECT_NE(err_.str().find("share/paddlectl"), std::string::npos) << err_.str();
}

TEST_F(InitTest, TheShareFolderIsThatOfTheInstallationOrTheSourceTree) {
  for (const char* folder :
       {"usr/share/paddlectl/templates", "usr/share/paddlectl/clusters", "usr/bin", "src/templates",
        "src/clusters", "src/build/dev/bin", "alone/bin"}) {
    fs::create_directories(folder_ / folder);
  }
  EXPECT_EQ(find_share_folder(folder_ / "usr/bin"), folder_ / "usr/share/paddlectl");
  EXPECT_EQ(fs::path(find_share_folder(folder_ / "src/build/dev/bin") + "/x").parent_path(),
            fs::path(folder_ / "src/x").parent_path());
  EXPECT_EQ(find_share_folder(folder_ / "alone/bin"), "");
}

}  // namespace
}  // namespace paddle::cli

#include "cli/cluster/cluster_file.h"

#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/fd.h"

namespace paddle::cli {
namespace {

std::string message_of(std::string_view text) {
  const auto cluster = parse_cluster(text, "lab.toml");
  return cluster ? "no error" : cluster.error().message;
}

// "user@host:ssh_port name address" of each node.
std::vector<std::string> nodes_of(std::string_view text) {
  const auto cluster = parse_cluster(text, "/etc/labs/lab.toml");
  if (!cluster) return {cluster.error().message};
  std::vector<std::string> nodes;
  for (const ClusterNode& node : cluster->nodes) {
    nodes.push_back(fmt::format("{}@{}:{} {} {}", node.spec.user, node.spec.host,
                                node.spec.ssh_port, node.spec.name, node.address));
  }
  return nodes;
}

TEST(ClusterFile, AHostIsWrittenAsSlurmAndPeopleWriteIt) {
  using Nodes = std::vector<std::string>;
  EXPECT_EQ(nodes_of("[[node]]\nhost = \"node[01-02,07]\"\naddress = \"10.0.0.[1-2,7]\"\n"),
            (Nodes{"@node01:0 node01 10.0.0.1", "@node02:0 node02 10.0.0.2",
                   "@node07:0 node07 10.0.0.7"}));
  EXPECT_EQ(nodes_of("[[node]]\nhost = \"gpu[1,3],cpu02\"\n"),
            (Nodes{"@gpu1:0 gpu1 ", "@gpu3:0 gpu3 ", "@cpu02:0 cpu02 "}));
  EXPECT_EQ(nodes_of("[[node]]\nhost = \"r[1-2]n[1-2]\"\nname = \"a[1-4]\"\n").back(),
            "@r2n2:0 a4 ");
  EXPECT_EQ(nodes_of("[[node]]\nhost = \"me@node1:2222\"\n"), Nodes{"me@node1:2222 node1 "});
}

TEST(ClusterFile, AddressesOfIPv6AreHosts) {
  using Nodes = std::vector<std::string>;
  EXPECT_EQ(nodes_of("[[node]]\nhost = \"2001:db8::1\"\naddress = \"[fd00::1]\"\n"),
            Nodes{"@2001:db8::1:0 2001-db8--1 fd00::1"});
  EXPECT_EQ(nodes_of("[[node]]\nhost = \"[::1]\"\nname = \"here\"\n"), Nodes{"@::1:0 here "});
  EXPECT_EQ(nodes_of("[[node]]\nhost = \"[::1]:22\"\n"), Nodes{"@::1:22 ip6--1 "});
  EXPECT_EQ(nodes_of("[ssh]\nport = 9\n[[node]]\nhost = \"fe80::1%eth0\"\n"),
            Nodes{"@fe80::1%eth0:9 fe80--1-eth0 "});
  EXPECT_EQ(nodes_of("[[node]]\nhost = \"a\"\naddress = \"FD00:0:0::0001\"\n"),
            Nodes{"@a:0 a fd00::1"});
  EXPECT_NE(message_of("[[node]]\nhost = \"a\"\naddress = \"fe80::1%eth0\"\n").find("has a zone"),
            std::string::npos);
  EXPECT_NE(message_of("[[node]]\nhost = \"a\"\naddress = \"[fd00::1]:7164\"\n")
                .find("is not an address"),
            std::string::npos);
  EXPECT_EQ(nodes_of("[[node]]\nhost = \"ssh://me@n1:2222\"\n"), Nodes{"me@n1:2222 n1 "});
  EXPECT_NE(message_of("[[node]]\nhost = \"\"\n").find("'host' is empty"), std::string::npos);
  for (const char* bad : {"[::1]:x", "[::1]:0", "[::1]:65536", "[::g]", "node1:", "node1:70000",
                          "-oProxyCommand=x", "a b", "$(id)", "me@", "x;y@n"}) {
    EXPECT_EQ(message_of(fmt::format("[[node]]\nhost = \"{}\"\n", bad)).rfind("lab.toml:2:8: ", 0),
              0U)
        << bad << ": " << message_of(fmt::format("[[node]]\nhost = \"{}\"\n", bad));
  }
}

TEST(ClusterFile, UsersOfADirectoryHaveBackslashesAndAtsInTheirNames) {
  for (const char* user : {"CORP\\alice", "alice@corp.example", "CORP+alice", "alice.b-c_d"}) {
    const auto cluster =
        parse_cluster(fmt::format("[ssh]\nuser = '{}'\n[[node]]\nhost = \"n\"\n", user), "l");
    ASSERT_TRUE(cluster) << cluster.error().message;
    EXPECT_EQ(cluster->nodes[0].spec.user, user);
  }
  for (const char* bad :
       {"-l", "a b", "a;b", "a\\", "\\a", "$(id)", "a\"b", "`id`", "a%h", "a'b"}) {
    const std::string message =
        message_of(fmt::format("[ssh]\nuser = '''{}'''\n[[node]]\nhost = \"n\"\n", bad));
    EXPECT_EQ(message.rfind("lab.toml:2:", 0), 0U) << bad << ": " << message;
  }
}

TEST(ClusterFile, FilesThatItNamesLieBesideIt) {
  const auto cluster = parse_cluster(R"(
[ssh]
known_hosts = "known_hosts"
directory = "../dot_ssh"
[[node]]
host = "a"
[[node]]
host = "b"
known_hosts = "~/x/known_hosts"
[[node]]
host = "c"
known_hosts = "/h"
)",
                                     "/etc/labs/lab.toml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->nodes[0].spec.known_hosts, "/etc/labs/known_hosts");
  EXPECT_EQ(cluster->nodes[0].spec.ssh_directory, "/etc/dot_ssh");
  EXPECT_EQ(cluster->nodes[1].spec.known_hosts, "~/x/known_hosts");
  EXPECT_EQ(cluster->nodes[2].spec.known_hosts, "/h");
  EXPECT_NE(message_of("[ssh]\nidentity = \"no_such_key\"\n[[node]]\nhost = \"a\"\n")
                .find("cannot read the private key /"),
            std::string::npos);
}

// A file that would take gigabytes, or minutes, is refused with the line.
TEST(ClusterFile, ALargeFileTakesLittle) {
  const auto list = [](const std::string& item, int count) {
    std::string text = "[";
    for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + item;
    return text + "]\n";
  };
  std::string variables = "[";
  for (int i = 0; i < 4000; ++i)
    variables += fmt::format("{}\"A{}={}\"", i > 0 ? "," : "", i, std::string(200, 'x'));
  variables += "]\n";
  std::string tables;
  for (int i = 0; i < 100'000; ++i) tables += "[[node]]\n";
  const std::string head = "[[node]]\nhost = \"n[1-1000]\"\n";
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {head + "groups = " + list("\"a\"", 190'000), "'groups' has 190000 values"},
           {head + "groups = " + list("\"a\"", 250'000), "over 200000 keys and values"},
           {head + "gpus = " + list("\"0\"", 190'000), "'gpus' has 190000 values"},
           {head + "env = " + variables, "too much together"},
           {head + "env = " + list("\"A=\"", 5000), "'env' has 5000 values"},
           {head + "user = \"" + std::string(100'000, 'a') + "\"\n", "user name"},
           {head + "jump = \"" + std::string(100'000, 'a') + "\"\n", "'jump' is over 1024 bytes"},
           {head + "workdir = \"/" + std::string(100'000, 'a') + "\"\n", "'workdir' is over"},
           {"[[node]]\nhost = \"" + std::string(100'000, 'a') + "[1-1000]\"\n", "too long"},
           {"[[node]]\nlauncher = [\"" + std::string(500'000, 'a') + "\", \"n[1-1000]\"]\n",
            "bytes long"},
           {tables, "there are 100000 [[node]]"},
           {"[[node]]\nhost = \"n[1-4096]\"\n[[node]]\nhost = \"m\"\n", "over 4096 nodes"}}) {
    const std::string message = message_of(text);
    EXPECT_NE(message.substr(0, 300).find(why), std::string::npos) << message.substr(0, 300);
    EXPECT_EQ(message.rfind("lab.toml:", 0), 0U);
  }
}

TEST(ClusterFile, NodeInheritsDefaultsAndOverridesThem) {
  const auto cluster = parse_cluster(R"(
name = "lab"
workdir = "/data/p"
port = 8000
ports_num = 2
ports_num_for_sparse = 3
[ssh]
user = "train"
port = 2222
identity = "/dev/null"
jump = "bastion"
[[node]]
host = "node[1-2].lab"
address = "10.1.0.[1-2]"
[[node]]
host = "gpu"
user = "root"
jump = ""
roles = ["trainer"]
port = 9000
ssh_port = 22
workdir = "~/x"
)",
                                     "lab.toml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  ASSERT_EQ(cluster->nodes.size(), 3U);
  EXPECT_EQ(cluster->block(), 5);
  const ClusterNode& second = cluster->nodes[1];
  EXPECT_EQ(second.spec.name, "node2.lab");
  EXPECT_EQ(second.spec.host, "node2.lab");
  EXPECT_EQ(second.address, "10.1.0.2");
  EXPECT_EQ(second.spec.user, "train");
  EXPECT_EQ(second.spec.ssh_port, 2222);
  EXPECT_EQ(second.spec.jump, "bastion");
  EXPECT_EQ(second.spec.root, "/data/p/lab/" + second.spec.name);
  EXPECT_EQ(second.port, 8000);
  EXPECT_TRUE(second.runs_pserver);
  const ClusterNode& gpu = cluster->nodes[2];
  EXPECT_EQ(gpu.spec.user, "root");
  EXPECT_EQ(gpu.spec.jump, "");
  EXPECT_EQ(gpu.spec.ssh_port, 22);
  EXPECT_EQ(gpu.spec.root, "~/x/lab/" + gpu.spec.name);
  EXPECT_EQ(gpu.port, 9000);
  EXPECT_FALSE(gpu.runs_pserver);
  EXPECT_EQ(gpu.address, "");
}

TEST(ClusterFile, LocalNodesHaveTheirOwnFolders) {
  const auto cluster = parse_cluster(
      "name = \"l\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = 2\n", "l.toml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  ASSERT_EQ(cluster->nodes.size(), 2U);
  EXPECT_TRUE(cluster->nodes[1].spec.is_local());
  EXPECT_EQ(cluster->nodes[1].spec.root, "~/.paddlectl/l/n-1");
  EXPECT_EQ(cluster->nodes[1].address, "127.0.0.1");
}

TEST(ClusterFile, MistakesAreShownWhereTheyAre) {
  const std::string unknown = message_of("name = \"lab\"\nprot = 1\n[[node]]\nhost = \"a\"\n");
  EXPECT_TRUE(unknown.starts_with("lab.toml:2:1: unknown key 'prot', did you mean 'port'?\n"))
      << unknown;
  EXPECT_NE(unknown.find("^"), std::string::npos);
  const std::string role = message_of("[[node]]\nhost = \"a\"\nroles = [\"server\"]\n");
  EXPECT_TRUE(role.starts_with("lab.toml:3:")) << role;
  EXPECT_NE(role.find("unknown role 'server'"), std::string::npos) << role;
  const std::string range = message_of("[[node]]\nhost = \"n[3-1]\"\n");
  EXPECT_TRUE(range.starts_with("lab.toml:2:")) << range;
  EXPECT_NE(message_of("[[node]]\nhost = \"a\"\n[[node]]\nhost = \"a\"\n")
                .find("two nodes have the name 'a'"),
            std::string::npos);
  EXPECT_NE(message_of("[[node]]\nname = \"here\"\nlancher = \"local\"\n")
                .find("unknown key 'lancher', did you mean 'launcher'?"),
            std::string::npos);
  EXPECT_NE(message_of("[[node]]\nroles = [\"trainer\"]\n").find("missing host"),
            std::string::npos);
  EXPECT_NE(message_of("name = \"x\"\n").find("the file has no [[node]]"), std::string::npos);
  EXPECT_NE(message_of("[[node]]\nhost = \"n[1-2]\"\naddress = \"10.0.0.[1-3]\"\n")
                .find("3 addresses for 2 nodes"),
            std::string::npos);
  EXPECT_NE(message_of("name = \"../x\"\n[[node]]\nhost = \"a\"\n").find("folder"),
            std::string::npos);
  EXPECT_NE(message_of("workdir = \"rel\"\n[[node]]\nhost = \"a\"\n").find("workdir"),
            std::string::npos);
  EXPECT_NE(message_of("port = 65535\n[[node]]\nhost = \"a\"\n").find("65535"), std::string::npos);
}

TEST(ClusterFile, TextThatWouldEndTheProcessIsRefusedAtItsPlace) {
  EXPECT_TRUE(message_of("name = 'x'\n[\n").starts_with("lab.toml:2:1: a table's name must "))
      << message_of("name = 'x'\n[\n");
}

TEST(ClusterFile, AKeyFileThatIsNotThereIsAMistake) {
  const std::string everywhere =
      message_of("[ssh]\nidentity = \"/no/such/file\"\n[[node]]\nhost = \"a\"\n");
  EXPECT_TRUE(
      everywhere.starts_with("lab.toml:2:12: cannot read the private key /no/such/file: No "
                             "such file or directory"))
      << everywhere;
  const std::string node = message_of("[[node]]\nhost = \"a\"\nidentity = \"~/no/such/file\"\n");
  EXPECT_TRUE(node.starts_with("lab.toml:3:12: cannot read the private key /")) << node;
  EXPECT_EQ(node.find('~'), node.find("~/no")) << "the folder that ~ stands for is shown\n" << node;
  EXPECT_EQ(message_of("[ssh]\nidentity = \"\"\n[[node]]\nhost = \"a\"\n"), "no error");
}

TEST(ClusterFile, AMistakeIsNotHiddenByItsConsequences) {
  EXPECT_TRUE(message_of("[[node]]\nlauncher = \"locl\"\ncount = 2\n")
                  .starts_with("lab.toml:2:12: 'launcher' is 'locl'"));
  EXPECT_TRUE(message_of("[[node]]\nlauncher = \"local\"\nhost = \"a\"\n")
                  .starts_with("lab.toml:3:8: a local node cannot have a host"));
  EXPECT_TRUE(message_of("[[node]]\nhost = \"a\"\ncount = 2\n")
                  .starts_with("lab.toml:3:9: `count` needs launcher = \"local\""));
  EXPECT_TRUE(message_of("workdir = \"/my nodes\"\n[[node]]\nhost = \"a\"\n")
                  .starts_with("lab.toml:1:11: unsafe folder '/my nodes'"));
  EXPECT_TRUE(message_of("[[node]]\nhost = \"a\"\nworkdir = \"here\"\n")
                  .starts_with("lab.toml:3:11: workdir must begin with '/' or '~/'"));
}

TEST(ClusterFile, ANodesVariablesComeAfterThoseOfTheCluster) {
  const auto cluster = parse_cluster(
      "env = [\"A=1\", \"B=x=y \"]\n[[node]]\nhost = \"a\"\nenv = [\"A=2\", \"C=\"]\n"
      "gpus = [\"0\", \"GPU-1f\"]\n[[node]]\nhost = \"b\"\n",
      "lab.toml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  using Variables = std::map<std::string, std::string>;
  EXPECT_EQ(cluster->nodes[0].environment, (Variables{{"A", "2"}, {"B", "x=y "}, {"C", ""}}));
  EXPECT_EQ(cluster->nodes[1].environment, (Variables{{"A", "1"}, {"B", "x=y "}}));
  EXPECT_EQ(cluster->nodes[0].gpus, (std::vector<std::string>{"0", "GPU-1f"}));
  for (const char* bad :
       {"env = [\"A\"]", "env = [\"=1\"]", "env = [\"1A=1\"]", "env = [\"A B=1\"]",
        "env = [\"PADDLECTL_PROCESS=x\"]", "env = [\"A=\\u0000\"]", "gpus = [\"0\", \"0\"]",
        "gpus = [\"0,1\"]", "gpus = [\"\"]"}) {
    EXPECT_NE(message_of(std::string("[[node]]\nhost = \"a\"\n") + bad + "\n"), "") << bad;
  }
}

TEST(ClusterFile, ALauncherCommandStandsForANodeForEachNumberOfItsRanges) {
  const auto cluster = parse_cluster(
      "name = \"lab\"\n[[node]]\nlauncher = [\"podman\", \"--url\", \"u[7-9]\", \"exec\", "
      "\"c-[1-3]\"]\n"
      "[[node]]\nname = \"train\"\nlauncher = [\"sudo\", \"-u\", \"a b\"]\nport = 7200\n",
      "lab.toml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  ASSERT_EQ(cluster->nodes.size(), 4U);
  const remote::NodeSpec& second = cluster->nodes[1].spec;
  EXPECT_EQ(second.launcher, "command");
  EXPECT_EQ(second.name, "c-2");
  EXPECT_EQ(second.command, (std::vector<std::string>{"podman", "--url", "u8", "exec", "c-2"}));
  EXPECT_EQ(second.host, "") << "it is not reached by SSH";
  EXPECT_EQ(second.root, "~/.paddlectl/lab/c-2") << "such nodes may share a machine";
  EXPECT_EQ(cluster->nodes[3].spec.name, "train");
  EXPECT_EQ(cluster->nodes[3].spec.command, (std::vector<std::string>{"sudo", "-u", "a b"}));
  EXPECT_EQ(cluster->nodes[3].spec.push_port, 7199) << "a container has ports of its own";

  EXPECT_NE(message_of("[[node]]\nlauncher = []\n").find("has no program"), std::string::npos);
  EXPECT_NE(message_of("[[node]]\nlauncher = \"command\"\n").find("must be an array"),
            std::string::npos);
  EXPECT_NE(message_of("[[node]]\nlauncher = [\"a[1-2]\", \"b[1-3]\"]\n")
                .find("the ranges have different sizes: 2 and 3 nodes"),
            std::string::npos);
  EXPECT_NE(
      message_of("[[node]]\nlauncher = [\"sudo\", \"-i\"]\n").find("'-i' cannot be a node's name"),
      std::string::npos);
  EXPECT_NE(message_of("[[node]]\nlauncher = [\"sh\"]\nhost = \"a\"\n").find("cannot have a host"),
            std::string::npos);
  EXPECT_NE(message_of("[[node]]\nlauncher = [\"ssh\", 3]\n"), "");
}

TEST(ClusterFile, TheFilesWeShipAreGood) {
  const auto local = read_cluster(PADDLE_SOURCE_DIR "/clusters/local.toml");
  ASSERT_TRUE(local) << local.error().message;
  EXPECT_EQ(local->nodes.size(), 4U);
  EXPECT_TRUE(local->nodes[0].spec.is_local());
  EXPECT_EQ(local->nodes[0].port, kDefaultPort);
  // All of its servers are comments; what they say is good too.
  auto text = read_file(PADDLE_SOURCE_DIR "/clusters/ssh.toml");
  ASSERT_TRUE(text);
  const std::regex commented(R"((^|\n)# (?=(?!identity)[a-z_]+ = |\[))");
  const std::string given = std::regex_replace(*text, commented, "$1");
  EXPECT_NE(given.find("\nuser = "), std::string::npos) << given;
  const auto ssh = parse_cluster(given, "ssh.toml");
  ASSERT_TRUE(ssh) << ssh.error().message;
  ASSERT_EQ(ssh->nodes.size(), 5U);
  EXPECT_EQ(ssh->nodes[3].spec.host, "node04.lab");
  EXPECT_EQ(ssh->nodes[3].address, "10.1.0.4");
  const auto command = read_cluster(PADDLE_SOURCE_DIR "/clusters/command.toml");
  ASSERT_TRUE(command) << command.error().message;
  ASSERT_EQ(command->nodes.size(), 4U);
  EXPECT_EQ(command->nodes[3].spec.command,
            (std::vector<std::string>{"podman", "exec", "-i", "node-4"}));
  const auto ec2 = read_cluster(PADDLE_SOURCE_DIR "/clusters/aws-ec2.toml");
  ASSERT_TRUE(ec2) << ec2.error().message;
  ASSERT_TRUE(ec2->provider);
  EXPECT_EQ(ec2->provider->describe(), "4 nodes, by providers/aws-ec2");
  auto slurm_text = read_file(PADDLE_SOURCE_DIR "/clusters/slurm.toml");
  ASSERT_TRUE(slurm_text);
  const auto slurm = parse_cluster(std::regex_replace(*slurm_text, commented, "$1"), "slurm.toml");
  ASSERT_TRUE(slurm) << slurm.error().message;
  EXPECT_EQ(slurm->provider->describe(), "4 nodes of Slurm, partition gpu");
}

TEST(ClusterFile, SlashesAtTheEndOfAWorkdirDoNotMatter) {
  const std::pair<const char*, const char*> cases[] = {
      {"/tmp/w/", "/tmp/w/lab/a"},
      {"/tmp//w//", "/tmp/w/lab/a"},
      {"/", "/lab/a"},
      {"//", "/lab/a"},
      {"~/", "~/lab/a"},
      {"~/w/", "~/w/lab/a"},
      {"~//w", "~/w/lab/a"},
  };
  for (const auto& [workdir, root] : cases) {
    for (const bool of_node : {false, true}) {
      const std::string line = fmt::format("workdir = \"{}\"\n", workdir);
      const auto cluster = parse_cluster("name = \"lab\"\n" + (of_node ? "" : line) +
                                             "[[node]]\nhost = \"a\"\n" + (of_node ? line : ""),
                                         "lab.toml");
      ASSERT_TRUE(cluster) << workdir << ": " << cluster.error().message;
      EXPECT_EQ(cluster->nodes[0].spec.root, root) << workdir;
    }
  }
}

TEST(ClusterFile, AnIPv4AddressInBracketsIsNamedWithHowToWriteIt) {
  EXPECT_TRUE(
      message_of("[[node]]\nhost = \"[10.0.0.1]\"\n").find("only an IPv6 address is in '[]'") !=
      std::string::npos);
}

}  // namespace
}  // namespace paddle::cli

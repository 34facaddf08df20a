// Clusters with [provider]: mistakes in the file, and programs of kind "command".
#include "cli/cluster/provider.h"

#include <sys/stat.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/fd.h"
#include "cli/cluster/cluster_file.h"
#include "cli/cluster/program.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

class CommandProvider : public testing::Test {
 protected:
  // Each program is a script of the shell; $1 is "create", "list" or "destroy".
  Result<ClusterSpec> cluster_with(const std::string& script) {
    const std::string program = folder_.path() + "/provider";
    EXPECT_TRUE(replace_file(program, as_bytes("#!/bin/sh\n" + script), 0755));
    return parse_cluster(R"(name = "lab"
port = 8000
[provider]
kind = "command"
create = ["./provider", "create"]
list = ["./provider", "list"]
destroy = ["./provider", "destroy"]
nodes = 2
env = ["SIZE=small"]
)",
                         folder_.path() + "/lab.toml");
  }
  ProviderWork work() {
    return {.progress = [this](std::string_view line) { progress_ += std::string(line) + "\n"; },
            .note = [this](std::string_view line) { notes_ += std::string(line) + "\n"; },
            .interrupted = [this] { return interrupted_; },
            .pause = [](Duration) {}};
  }

  test::TemporaryFolder folder_;
  std::string progress_, notes_;
  bool interrupted_ = false;
};

TEST_F(CommandProvider, NodesAreWhatListPrints) {
  auto cluster = cluster_with(R"sh(
printf '{"name":"lab-0","host":"10.0.0.4","user":"admin","ssh_port":2222,"gpus":["0"],'
printf '"host_key":"ssh-ed25519 AAAAC3Nz host","price_per_hour":0.5,"x_id":{"any":1},'
printf '"created":"2026-11-27T10:00:00.000Z"}\n\n'
echo '{"name":"lab-1","launcher":["sh","-c","exec \"$0\""],"price_per_hour":1.5}'
echo '{"name":"lab-2","state":"shutting-down"}'
)sh");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_TRUE(cluster->nodes.empty());
  const Status added = add_nodes(*cluster);
  ASSERT_TRUE(added) << added.error().message;
  ASSERT_EQ(cluster->nodes.size(), 2U);
  const remote::NodeSpec& first = cluster->nodes[0].spec;
  EXPECT_EQ(first.host, "10.0.0.4");
  EXPECT_EQ(first.user, "admin");
  EXPECT_EQ(first.ssh_port, 2222);
  EXPECT_EQ(first.host_key, "ssh-ed25519 AAAAC3Nz");
  EXPECT_EQ(first.root, "~/.paddlectl/lab/lab-0");
  EXPECT_EQ(cluster->nodes[0].port, 8000);
  EXPECT_EQ(cluster->nodes[0].gpus, std::vector<std::string>{"0"});
  EXPECT_EQ(cluster->nodes[1].spec.command, (std::vector<std::string>{"sh", "-c", "exec \"$0\""}));
  EXPECT_EQ(nodes_not_running(*cluster), "lab-2 is shutting-down");
  // 2026-11-27T12:00:00Z: two hours of the first; the second does not say since when.
  const auto cost = cost_of(*cluster, 1795780800);
  ASSERT_TRUE(cost);
  EXPECT_DOUBLE_EQ(cost->hourly, 2);
  EXPECT_DOUBLE_EQ(cost->total, 1);
}

TEST_F(CommandProvider, AskedTwiceListsOnce) {
  auto cluster = cluster_with(R"(echo '{"name":"lab-0","host":"a"}')");
  ASSERT_TRUE(cluster && add_nodes(*cluster) && add_nodes(*cluster));
  EXPECT_EQ(cluster->nodes.size(), 1U);
}

TEST_F(CommandProvider, LinesThatAreNoNodesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"echo hello", "list, line 1"},
      {R"(echo; echo '{"host":"a"}')", "line 2: the node has no name"},
      {R"(echo '{"name":"a","host":{"b":1}}')", "'host' has a value of the wrong type"},
      {R"(echo '{"name":"a","host":"b","created":"today"}')", "`created` is no time"},
      {R"(echo '{"name":"a","hosst":"b"}')", "unknown key 'hosst', did you mean 'host'?"},
      {R"(echo '{"name":"a","host":"b"}'; echo '{"name":"a","host":"c"}')",
       "two nodes have the name 'a'"},
      {R"(echo '{"name":"../a","host":"b"}')", "cannot be a node's name"},
      {R"(echo '{"name":"a","host":"-oProxyCommand=x"}')", "-oProxyCommand"},
      {R"(echo '{"name":"a","host":"b","host_key":"junk"}')", "'host_key' is no public key"},
      {"echo 'Unable to locate credentials' >&2; exit 3", "list: Unable to locate credentials"},
      {"exit 3", "list: ./provider exited with status 3"},
      {"exit 0", "cluster 'lab' has no nodes yet"},
      {R"(echo '{"name":"a","state":"pending"}')", "no node of cluster 'lab' runs: a is pending"},
  };
  for (const auto& [script, message] : cases) {
    auto cluster = cluster_with(script);
    ASSERT_TRUE(cluster);
    const Status added = add_nodes(*cluster);
    ASSERT_FALSE(added) << script;
    EXPECT_NE(added.error().message.find(message), std::string::npos) << added.error().message;
    EXPECT_FALSE(added.error().hint.empty()) << script;
  }
}

TEST_F(CommandProvider, ValuesAreTextAndNoToml) {
  auto cluster = cluster_with(
      R"(printf '%s\n' '{"name":"a","host":"b","user":"x\"\nworkdir = \"/etc","groups":["\"]\n"]}')");
  ASSERT_TRUE(cluster);
  const Status added = add_nodes(*cluster);
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().message.find(R"(user name "x"\x0aworkdir = "/etc" is refused)"),
            std::string::npos)
      << added.error().message;
  auto key = cluster_with(R"(printf '%s\n' '{"name":"a","host":"b","x = 1\nport":2}')");
  ASSERT_TRUE(key);
  const Status unknown = add_nodes(*key);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("unknown key"), std::string::npos)
      << unknown.error().message;
}

TEST_F(CommandProvider, ProgramsGetTheClusterAndSettings) {
  auto cluster =
      cluster_with(R"(echo "$1 $PROVIDER_CLUSTER $PROVIDER_NODES $SIZE $PROVIDER_DRY_RUN"; pwd)");
  ASSERT_TRUE(cluster);
  ASSERT_TRUE(cluster->provider->create(work()));
  EXPECT_EQ(progress_, "create lab 2 small \n" + folder_.path() + "\n");
  const auto plan = cluster->provider->plan(work());
  ASSERT_TRUE(plan);
  EXPECT_EQ(*plan, "create lab 2 small 1\n" + folder_.path() + "\n");
  progress_.clear();
  ASSERT_TRUE(cluster->provider->destroy(work()));
  EXPECT_EQ(progress_.substr(0, 8), "destroy ");
}

TEST_F(CommandProvider, CausesOfNodesAreTheError) {
  auto cluster = cluster_with(R"sh(
echo waiting
echo '{"name":"lab-1","error":"InsufficientInstanceCapacity: none left"}'
echo '{"name":"lab-2"}'
echo Failed >&2
exit 1
)sh");
  ASSERT_TRUE(cluster);
  const Status made = cluster->provider->create(work());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "lab-1: InsufficientInstanceCapacity: none left");
  EXPECT_EQ(progress_, "waiting\n{\"name\":\"lab-2\"}\n");
  EXPECT_EQ(notes_, "lab-1: InsufficientInstanceCapacity: none left\n");
}

TEST_F(CommandProvider, AfterCtrlCTheProgramEnds) {
  auto cluster = cluster_with(R"(echo $$ > pid; exec sleep 600)");
  ASSERT_TRUE(cluster);
  interrupted_ = true;
  const Status made = cluster->provider->create(work());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::kInterrupted);
}

TEST_F(CommandProvider, ProgramThatIsMissingIsNamed) {
  auto cluster = parse_cluster(
      "[provider]\nkind = \"command\"\nnodes = 1\ncreate = [\"./none\"]\nlist = [\"./none\"]\n"
      "destroy = [\"./none\"]\n",
      folder_.path() + "/lab.toml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  const Status added = add_nodes(*cluster);
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().message.find("./none"), std::string::npos);
  EXPECT_NE(added.error().hint.find("correct its path"), std::string::npos);
}

TEST(ProviderTable, MistakesAreNamedWithTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"[provider]\nnodes = 1\n", "missing `kind`"},
      {"[provider]\nkind = \"aws\"\n", "c.toml:2:8: 'kind' is 'aws', but must be one of"},
      {"[provider]\nkind = \"command\"\nnodes = 1\n", "[provider] names no program to create"},
      {"[provider]\nkind = \"kubernetes\"\n", "missing `nodes`"},
      {"[provider]\nkind = \"kubernetes\"\nnodes = 1\n[[node]]\nhost = \"a\"\n",
       "a cluster with [provider] names no [[node]]"},
      {"name = \"Lab_1\"\n[provider]\nkind = \"kubernetes\"\nnodes = 1\n",
       "'Lab_1' cannot be the name of a cluster on Kubernetes"},
      {"name = \"l\"\n[provider]\nkind = \"kubernetes\"\nnodes = 1\nnode_selector = [\"gpu\"]\n",
       "'gpu' is no label"},
      {"name = \"l\"\n[provider]\nkind = \"kubernetes\"\nnodes = 1\nvolume = \"a\"\nnfs = "
       "\"b:/\"\n",
       "`volume` and `nfs` exclude each other"},
      {"name = \"l\"\n[provider]\nkind = \"kubernetes\"\nnodes = 1\nreplicas = 2\n",
       "unknown key 'replicas'"},
      {"name = \"l\"\n[provider]\nkind = \"kubernetes\"\nnodes = 1\nuser = 0\n", "user"},
  };
  for (const auto& [text, message] : cases) {
    const auto cluster = parse_cluster(text, "c.toml");
    ASSERT_FALSE(cluster) << text;
    EXPECT_NE(cluster.error().message.find(message), std::string::npos)
        << text << cluster.error().message;
  }
}

TEST(Program, InputIsReadAndOutputComesInLines) {
  std::string lines;
  const auto end = run_program(
      {.arguments = {"sh", "-c", "cat; printf last; echo no >&2; exit 7"},
       .input = std::string(300000, 'a') + "\nb\n",
       .on_line = [&](std::string_view line) { lines += fmt::format("{} ", line.size()); }});
  ASSERT_TRUE(end);
  EXPECT_EQ(lines, "300000 1 4 ");
  EXPECT_EQ(end->output.size(), 300007U);
  EXPECT_EQ(end->status, 7);
  EXPECT_EQ(end->cause("sh"), "no");
}

TEST(Program, ThatHangsIsEndedAtItsTimeout) {
  const auto end =
      run_program({.arguments = {"sleep", "600"}, .timeout = std::chrono::milliseconds(50)});
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::kUnreachable);
}

TEST(Program, ThatIsKilledHasAStatusAsInAShell) {
  const auto end = run_program({.arguments = {"sh", "-c", "kill -9 $$"}});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->status, 137);
}

}  // namespace
}  // namespace paddle::cli

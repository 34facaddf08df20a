// templates/providers/aws-ec2 with Debian's aws client, against tests/support/ec2: an endpoint
// whose instances are namespaces with a real sshd. Needs root.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "base/rng.h"
#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Words = std::vector<std::string>;

constexpr const char* kProvider = TEMPLATES_FOLDER "/providers/aws-ec2";
constexpr const char* kSecret = "secret-access-key-of-the-test";
constexpr auto kDeadline = std::chrono::seconds(200);
const Words kNodeKeys = {"name",     "host",           "address", "user",  "identity",
                         "host_key", "price_per_hour", "created", "state", "x_instance"};

// Why the endpoint cannot run here; "" if it can.
std::string obstacle(const TemporaryFolder& folder) {
  if (::geteuid() != 0) return "only root can make namespaces";
  const std::pair<const char*, const char*> programs[] = {
      {"/usr/bin/aws", "awscli"},         {"/usr/sbin/sshd", "openssh-server"},
      {"/usr/bin/ssh", "openssh-client"}, {"/usr/bin/python3", "python3"},
      {"/usr/sbin/ip", "iproute2"},       {"/usr/bin/setpriv", "util-linux"}};
  for (const auto& [program, package] : programs) {
    if (!fs::exists(program))
      return fmt::format("no {} here: apt-get install {}", program, package);
  }
  const std::string overlay =
      "mount -t tmpfs tmpfs \"$0\" && cd \"$0\" && mkdir upper work root && "
      "mount -t overlay overlay -o lowerdir=/,upperdir=$0/upper,workdir=$0/work root && "
      "ip link add hub type bridge";
  Process probe({"/usr/bin/unshare", "--net", "--mount", "--pid", "--fork", "/bin/sh", "-c",
                 overlay, folder.make("probe")},
                folder / "probe.txt", {"PATH=/usr/sbin:/usr/bin:/bin"});
  return probe.wait() == 0 ? "" : "no namespaces with an overlay and a bridge: " + probe.output();
}

struct Printed {
  int code = -1;  // -1: it did not end
  std::string out, errors;

  std::string last_error() const {
    const std::string text = errors.substr(0, errors.find_last_not_of('\n') + 1);
    return text.substr(text.rfind('\n') + 1);
  }
};

class Ec2Provider : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = obstacle(folder_); !why.empty()) GTEST_SKIP() << why;
    cloud_ = folder_.make("cloud");
    for (const char* name : {"home", "bin"}) folder_.make(name);
    // Notes the arguments of every call of the client.
    folder_.write("bin/aws", "#!/bin/sh\necho \"$*\" >>\"" + folder_.path() +
                                 "/arguments\"\nexec " + of_stand_in("aws_call.py") + " \"$@\"\n");
    fs::permissions(folder_ / "bin/aws", fs::perms::owner_all);
    endpoint_ = std::make_unique<Process>(
        Words{"/usr/bin/setpriv", "--pdeathsig", "KILL", "/usr/bin/unshare", "--net", "--mount",
              "/usr/bin/python3", EC2_ENDPOINT, cloud_},
        folder_ / "endpoint.txt", Words{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"});
    ASSERT_TRUE(comes([&] { return fs::exists(cloud_ + "/ready"); })) << endpoint_->output();
    client_ = std::make_unique<Process>(begin(
        {"/usr/bin/setpriv", "--pdeathsig", "KILL", of_stand_in("aws_server.py"), folder_ / "aws"},
        {}, folder_ / "client.txt"));
    ASSERT_TRUE(client_->prints("ready")) << client_->output();
  }
  static std::string of_stand_in(const std::string& name) {
    return (fs::path(EC2_ENDPOINT).parent_path() / name).string();
  }
  void TearDown() override {
    if (!HasFailure()) return;
    for (const auto& entry : fs::directory_iterator(cloud_ + "/instances"))
      printf("%s:\n%s", entry.path().c_str(), TemporaryFolder::read(entry.path() / "log").c_str());
  }

  static bool comes(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(20));
    }
    return true;
  }

  Words variables(const Words& more) const {
    Words all = {"PATH=" + (folder_ / "bin") + ":/usr/sbin:/usr/bin:/bin",
                 "HOME=" + (folder_ / "home"),
                 "AWS_ACCESS_KEY_ID=AKIDOFTHETEST",
                 std::string("AWS_SECRET_ACCESS_KEY=") + kSecret,
                 "AWS_REGION=eu-west-1",
                 "AWS_MAX_ATTEMPTS=1",
                 "AWS_SERVER=" + (folder_ / "aws"),
                 "AWS_ENDPOINT=http://127.0.0.1:8000",
                 "PROVIDER_CLUSTER=lab",
                 "PROVIDER_NODES=2",
                 "INSTANCE_TYPE=c7i.large",
                 "SSH_FROM=203.0.113.0/24"};
    for (const std::string& one : more) {
      const std::string name = one.substr(0, one.find('=') + 1);
      std::erase_if(all, [&](const std::string& old) { return old.starts_with(name); });
      all.push_back(one);
    }
    return all;
  }
  // Runs in the endpoint's network.
  Process begin(Words command, const Words& more, const std::string& output) {
    command.insert(command.begin(),
                   {"/usr/bin/nsenter", fmt::format("--net=/proc/{}/ns/net", endpoint_->pid()),
                    "--", "/bin/sh", "-c", "exec \"$@\" 2>\"$0\"", output + ".errors"});
    return {command, output, variables(more)};
  }
  Process begin_provider(const std::string& what, const Words& more = {}) {
    return begin({kProvider, what}, more, folder_ / fmt::format("run-{}", runs_++));
  }
  Printed provider(const std::string& what, const Words& more = {}) {
    const std::string output = folder_ / fmt::format("run-{}", runs_++);
    Process process = begin({kProvider, what}, more, output);
    const int code = process.wait(kDeadline).value_or(-1);
    return {code, process.output(), TemporaryFolder::read(output + ".errors")};
  }
  void expect_ok(const Printed& printed) {
    EXPECT_EQ(printed.code, 0) << printed.out << printed.errors;
    EXPECT_EQ(printed.errors, "");
  }

  void fail_with(const std::string& faults) const { folder_.write("cloud/faults.json", faults); }
  std::string objects() const { return TemporaryFolder::read(cloud_ + "/objects"); }
  int calls(const std::string& name) const {
    std::istringstream lines(TemporaryFolder::read(cloud_ + "/calls"));
    int count = 0;
    for (std::string line; std::getline(lines, line);) count += line.starts_with(name) ? 1 : 0;
    return count;
  }
  Words keys() const {
    Words names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder_ / "home/.paddlectl-keys", none))
      names.push_back(entry.path().string());
    return names;
  }
  // Processes of instances.
  int instances_running() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string command = TemporaryFolder::read(entry.path() / "cmdline");
      count += command.starts_with("unshare") && command.find(cloud_) != command.npos ? 1 : 0;
    }
    return count;
  }
  void expect_nothing_left() {
    expect_ok(provider("destroy"));
    EXPECT_EQ(objects(), "");
    EXPECT_EQ(instances_running(), 0);
    EXPECT_EQ(keys(), Words());
  }

  TemporaryFolder folder_;
  std::string cloud_;
  std::unique_ptr<Process> endpoint_;
  std::unique_ptr<Process> client_;  // the AWS CLI, loaded once
  int runs_ = 0;
};

// Text of a node's key, in a line of `list`.
std::string value_of(const std::string& line, const std::string& key) {
  JsonReader reader({key});
  const Status read = reader.read(line);
  EXPECT_TRUE(read) << line;
  return read && reader.find(0) ? std::string(reader.find(0)->text()) : "";
}

Words lines_of(const std::string& text) {
  std::istringstream stream(text);
  Words lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void expect_node(const std::string& line, const std::string& name, const std::string& identity) {
  const auto matches = [&](const char* key, const char* pattern) {
    const std::string value = value_of(line, key);
    EXPECT_TRUE(std::regex_match(value, std::regex(pattern))) << key << " is " << value;
  };
  JsonReader reader(kNodeKeys);
  ASSERT_TRUE(reader.read(line)) << line;
  EXPECT_FALSE(reader.unknown()) << line;
  EXPECT_EQ(reader.object().size(), kNodeKeys.size()) << line;
  EXPECT_EQ(value_of(line, "name"), name);
  EXPECT_EQ(value_of(line, "user"), "train");
  EXPECT_EQ(value_of(line, "identity"), identity);
  EXPECT_EQ(value_of(line, "state"), "running");
  EXPECT_EQ(value_of(line, "price_per_hour"), "0.25");
  matches("host", R"(203\.0\.113\.\d+)");
  matches("address", R"(10\.88\.0\.\d+)");
  matches("host_key", R"(ssh-ed25519 AAAA[A-Za-z0-9+/]+)");
  matches("created", R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)");
  matches("x_instance", R"(i-[0-9a-f]{17})");
}

TEST_F(Ec2Provider, CreateListAndDestroyByHand) {
  const Words priced = {"PRICE_PER_HOUR=0.25"};
  const Printed none = provider("list");
  expect_ok(none);
  EXPECT_EQ(none.out, "");
  const Printed plan = provider("create", {"PROVIDER_DRY_RUN=1", "PRICE_PER_HOUR=0.25"});
  expect_ok(plan);
  EXPECT_EQ(plan.out,
            "lab-0: a new c7i.large with debian-12-amd64-20250103-1 in subnet-a (eu-west-1a), "
            "0.25 USD an hour\n"
            "lab-1: a new c7i.large with debian-12-amd64-20250103-1 in subnet-a (eu-west-1a), "
            "0.25 USD an hour\n");
  EXPECT_EQ(objects(), "") << "a dry run makes nothing";

  expect_ok(provider("create", {"PROVIDER_CLUSTER=lab-2", "PROVIDER_NODES=1"}));
  const std::string of_other = objects();
  fail_with(R"({"refuse_once": {"RunInstances lab-1": ["InvalidGroup.NotFound", "It is new."]}})");
  expect_ok(provider("create", priced));
  const Printed listed = provider("list");
  expect_ok(listed);
  const Words nodes = lines_of(listed.out);
  ASSERT_EQ(nodes.size(), 2U) << listed.out;
  const std::string identity = value_of(nodes[0], "identity");
  expect_node(nodes[0], "lab-0", identity);
  expect_node(nodes[1], "lab-1", identity);
  EXPECT_NE(value_of(nodes[0], "host_key"), value_of(nodes[1], "host_key"));
  struct stat key {};
  ASSERT_EQ(::stat(identity.c_str(), &key), 0) << identity;
  EXPECT_EQ(key.st_mode & 0777U, 0600U);

  // Nodes that are there stay, and only the rest is made.
  EXPECT_EQ(calls("RunInstances lab-1"), 2) << "AWS did not know the new group at first";
  EXPECT_EQ(calls("RunInstances"), 4);
  expect_ok(provider("create", {"PRICE_PER_HOUR=0.25", "PROVIDER_NODES=3"}));
  EXPECT_EQ(calls("RunInstances"), 5);
  const std::string more = provider("list").out;
  EXPECT_TRUE(more.starts_with(listed.out)) << more;
  EXPECT_EQ(lines_of(more).size(), 3U);

  expect_ok(provider("destroy"));
  EXPECT_EQ(objects(), of_other) << "that of another cluster stays";
  EXPECT_FALSE(fs::exists(identity));
  expect_ok(provider("destroy"));
  EXPECT_EQ(provider("list").out, "");
  expect_ok(provider("destroy", {"PROVIDER_CLUSTER=lab-2"}));
  EXPECT_EQ(objects(), "");
  EXPECT_EQ(TemporaryFolder::read(folder_ / "arguments").find(kSecret), std::string::npos);
}

TEST_F(Ec2Provider, EveryObjectIsTaggedByTheCallThatMakesIt) {
  fail_with(R"({"refuse": {"CreateTags": ["UnauthorizedOperation", "You are not authorized."]}})");
  const Printed created = provider("create", {"SPOT=1", "PROVIDER_NODES=1"});
  EXPECT_EQ(created.code, 1) << "the host key is noted in a tag, by a later call";
  const Words lines = lines_of(objects());
  ASSERT_EQ(lines.size(), 4U) << objects();
  const std::string id = fs::path(keys().at(0)).filename().string().substr(4);
  const std::string tags = "paddlectl-cluster=lab paddlectl-id=" + id;
  const std::string node = " Name=lab-0 " + tags + " paddlectl-node=0 paddlectl-price=0.1234";
  EXPECT_EQ(lines[0], "groups Name=paddlectl-lab " + tags + " -1:all:itself tcp:22:203.0.113.0/24");
  EXPECT_EQ(lines[1], "instances" + node);
  EXPECT_EQ(lines[2], "key_pairs Name=paddlectl-lab " + tags);
  EXPECT_EQ(lines[3], "volumes" + node);
  fail_with("{}");
  expect_nothing_left();
}

struct Refusal {
  const char* name;
  std::string faults;
  Words variables;
  std::string sentence;  // a regular expression
};

// One sentence, which ends with the next step, on stderr; the node's cause as JSON too.
TEST_F(Ec2Provider, EachRefusalIsOneSentenceWithTheNextStep) {
  const auto refuse = [](const char* call, const char* code, const char* message) {
    return fmt::format(R"({{"refuse": {{"{}": ["{}", "{}"]}}}})", call, code, message);
  };
  const std::vector<Refusal> refusals = {
      {"no credentials",
       "{}",
       {"AWS_ACCESS_KEY_ID=", "AWS_EC2_METADATA_DISABLED=true"},
       "aws describe-instances: Unable to locate credentials.*aws configure.*"},
      {"wrong credentials",
       "{}",
       {"AWS_ACCESS_KEY_ID=AKIDOTHER"},
       "AuthFailure: AWS was not able to validate .*; log in again, with `aws sso login` .*"},
      {"expired",
       refuse("*", "RequestExpired", "Request has expired."),
       {},
       "RequestExpired: Request has expired; log in again, with `aws sso login` .*"},
      {"no client",
       "{}",
       {"PATH=" + (folder_ / "client"), "LC_ALL=C"},
       "aws is not installed on this machine: install it .*apt-get install awscli.*"},
      {"no type", "{}", {"INSTANCE_TYPE="}, "INSTANCE_TYPE is not set: write env = .*"},
      {"own address",
       "{}",
       {"SSH_FROM="},
       "https://checkip.amazonaws.com does not answer .*: set SSH_FROM, as SSH_FROM=.*"},
      {"quota",
       refuse("RunInstances", "VcpuLimitExceeded", "You have requested more."),
       {"PROVIDER_NODES=3"},
       "lab-1: VcpuLimitExceeded: You have requested more; ask for .* \\(and 1 more nodes\\)"},
      {"capacity",
       refuse("RunInstances lab-1", "InsufficientInstanceCapacity", "No c7i now."),
       {},
       "lab-1: InsufficientInstanceCapacity: No c7i now; try again later, or set another .*"},
      {"never boots",
       R"({"never_boots": ["lab-1"]})",
       {"BOOT_SECONDS=4"},
       "lab-1: it accepts no login after 4 seconds; "
       "(its console shows no host key yet: see .*|it does not run yet)"},
      {"another host key than that of the console",
       R"({"intruder": ["lab-2"]})",
       {"PROVIDER_NODES=3"},
       "lab-2: 203.0.113.\\d+ has another host key than the console of i-\\w+ shows, so .*: "
       "terminate the instance, and run it again"},
      {"file system",
       "{}",
       {"EFS=fs-2:/", "PROVIDER_NODES=1"},
       "lab-0: fs-2:/ is not mounted at /efs; see /var/log/cloud-init-output.log on .*, and set "
       "SECURITY_GROUPS to .*"},
      {"no permission",
       refuse("DescribeInstances", "UnauthorizedOperation", "You are not."),
       {},
       "UnauthorizedOperation: You are not; your AWS user needs the permission for this call"},
  };
  expect_ok(provider("create", {"PROVIDER_NODES=1"}));  // lab-0 is well
  folder_.make("client");
  fs::create_symlink("/usr/bin/python3", folder_ / "client/python3");
  fs::create_symlink("/usr/bin/env", folder_ / "client/env");
  for (const Refusal& refusal : refusals) {
    fail_with(refusal.faults);
    const Printed refused = provider("create", refusal.variables);
    EXPECT_EQ(refused.code, 1) << refusal.name << refused.out;
    EXPECT_EQ(lines_of(refused.errors).size(), 1U) << refusal.name << "\n" << refused.errors;
    EXPECT_TRUE(std::regex_match(refused.last_error(), std::regex(refusal.sentence)))
        << refusal.name << ": " << refused.errors;
    if (!refused.errors.starts_with("lab-")) continue;
    const Words lines = lines_of(refused.out);
    const auto cause =
        std::ranges::find_if(lines, [](const auto& a) { return a.starts_with("{"); });
    ASSERT_NE(cause, lines.end()) << refused.out;
    const std::string said = value_of(*cause, "name") + ": " + value_of(*cause, "error");
    EXPECT_TRUE(refused.errors.starts_with(said)) << said << "\n" << refused.errors;
  }
  fail_with("{}");
  const Words nodes = lines_of(provider("list").out);
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(value_of(nodes[0], "state"), "running");
  for (const std::size_t fresh : {1, 2}) {
    EXPECT_EQ(value_of(nodes[fresh], "state"), "pending: booting");
    EXPECT_EQ(value_of(nodes[fresh], "host_key"), "") << "no key is trusted";
    const std::string log = TemporaryFolder::read(cloud_ + "/instances/" +
                                                  value_of(nodes[fresh], "x_instance") + "/log");
    EXPECT_EQ(log.find("Accepted"), std::string::npos) << log;
  }
  expect_nothing_left();
}

TEST_F(Ec2Provider, ASpotInstanceThatAwsTookIsNamedAndReplaced) {
  const Words spot = {"SPOT=1", "EFS=fs-1:/"};
  const std::string shared = folder_.make("cloud/file_systems");
  folder_.make("cloud/file_systems/fs-1");
  expect_ok(provider("create", spot));
  struct stat there {};
  ASSERT_EQ(::stat((shared + "/fs-1/paddlectl").c_str(), &there), 0) << "all nodes mount it";
  EXPECT_GE(there.st_uid, 1000U) << "the user may write there";
  const std::string before = provider("list").out;
  fail_with(R"({"interrupt": ["lab-1"]})");
  const Words left = lines_of(provider("list").out);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0] + "\n", before.substr(0, before.find('\n') + 1));
  EXPECT_EQ(value_of(left[0], "price_per_hour"), "0.1234") << "that of spot instances now";
  const Printed replaced = provider("create", spot);
  expect_ok(replaced);
  EXPECT_NE(replaced.out.find("lab-1 has ended (Server.SpotInstanceTermination: Spot instance "
                              "termination), and is replaced\n"),
            std::string::npos)
      << replaced.out;
  const Words nodes = lines_of(provider("list").out);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(value_of(nodes[1], "name"), "lab-1");
  EXPECT_NE(value_of(nodes[1], "host_key"), value_of(lines_of(before)[1], "host_key"));

  const std::string key = keys().at(0);
  fs::remove(key);
  const Printed refused = provider("create", spot);
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(refused.last_error().starts_with(
      "the private key of cluster lab is not on this machine: copy " + key + " from the machine "))
      << refused.errors;
  EXPECT_EQ(calls("ImportKeyPair"), 1);
  expect_nothing_left();
  EXPECT_TRUE(fs::exists(shared + "/fs-1/paddlectl")) << "what was not made by us stays";
}

// paddlectl in the folder of a local cluster, whose files ec2.toml is beside.
class Ec2Cluster : public Ec2Provider {
 protected:
  void SetUp() override {
    Ec2Provider::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    write_cluster("ec2.toml", kProvider);
    local_.copy_template("word2vec");
    const Outcome prepared = local_.prepare("word2vec", {"--minimum", "1"}, chained_sentences(300));
    ASSERT_EQ(prepared.code, 0) << prepared.output;
  }
  void write_cluster(const std::string& name, const std::string& lister) const {
    local_.folder().write(name, fmt::format(R"(name = "lab"
[provider]
kind = "command"
create = ["{0}", "create"]
list = ["{1}", "list"]
destroy = ["{0}", "destroy"]
nodes = 2
env = ["INSTANCE_TYPE=c7i.large", "SSH_FROM=203.0.113.0/24", "PRICE_PER_HOUR=0.25"]
)",
                                            kProvider, lister));
  }
  Process begin_paddlectl(Words arguments) {
    arguments.insert(arguments.begin(),
                     {"/usr/bin/env", "-C", local_.folder().path(), PADDLECTL_PROGRAM});
    last_output_ = folder_ / fmt::format("run-{}", runs_++);
    return begin(arguments, {}, last_output_);
  }
  Outcome paddlectl(const Words& arguments) {
    Process process = begin_paddlectl(arguments);
    const int code = process.wait(kDeadline).value_or(-1);
    return {code, process.output() + TemporaryFolder::read(last_output_ + ".errors")};
  }
  Words train(const std::string& name) const {
    return {"train",  "--trainers", "2",     "--pservers",     "2",
            "--name", name,         "--set", "train.passes=2", "word2vec"};
  }
  // Parameters of the last snapshot, by file.
  std::map<std::string, std::string> parameters(const std::string& job) const {
    std::map<std::string, std::string> files;
    const std::string pass = local_.folder() / ("output/" + job + "/pass-00001");
    for (const auto& entry : fs::directory_iterator(pass)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("_")) files[name] = TemporaryFolder::read(entry.path());
    }
    return files;
  }

  LocalCluster local_{2};
  std::string last_output_;
};

TEST_F(Ec2Cluster, TrainsWithTheBitsOfALocalClusterAndLeavesNothing) {
  ASSERT_EQ(local_.run({"up", "cluster.toml"}).code, 0);
  const Outcome here = local_.run(train("here"));
  ASSERT_EQ(here.code, 0) << here.output;
  ASSERT_EQ(local_.run({"teardown", "--yes", "--discard"}).code, 0);

  const Outcome planned = paddlectl({"up", "--dry-run", "ec2.toml"});
  EXPECT_EQ(planned.code, 0) << planned.output;
  EXPECT_TRUE(planned.says("lab-1: a new c7i.large")) << planned.output;
  EXPECT_EQ(objects(), "");
  const Outcome up = paddlectl({"up", "ec2.toml"});
  ASSERT_EQ(up.code, 0) << up.output;
  const Outcome there = paddlectl(train("there"));
  ASSERT_EQ(there.code, 0) << there.output;
  EXPECT_GE(parameters("here").size(), 5U);
  EXPECT_TRUE(parameters("here") == parameters("there"));
  const Outcome logs = paddlectl({"logs"});
  EXPECT_EQ(logs.code, 0) << logs.output;
  EXPECT_TRUE(logs.says("lab-0/trainer-0 | ")) << logs.output;
  const Outcome status = paddlectl({"status"});
  EXPECT_TRUE(status.says(" USD so far, 0.50 an hour")) << status.output;

  // The same cluster with another key for each of its nodes.
  const std::string other =
      std::string("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI") + std::string(43, 'B');
  local_.folder().write("lies", fmt::format("#!/bin/sh\n{} list | sed 's|\"host_key\": \"[^\"]*|"
                                            "\"host_key\": \"{}|'\n",
                                            kProvider, other));
  fs::permissions(local_.folder() / "lies", fs::perms::owner_all);
  write_cluster("lies.toml", "./lies");
  const Outcome refused = paddlectl({"up", "lies.toml"});
  EXPECT_EQ(refused.code, 5) << refused.output;
  EXPECT_TRUE(refused.says("not the `host_key` of its node")) << refused.output;

  const Outcome torn_down = paddlectl({"teardown", "--cluster", "ec2.toml", "--yes", "--discard"});
  EXPECT_EQ(torn_down.code, 0) << torn_down.output;
  EXPECT_EQ(objects(), "");
  EXPECT_EQ(instances_running(), 0);
  EXPECT_EQ(keys(), Words());
  for (const auto& entry : fs::recursive_directory_iterator(local_.folder().path())) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(TemporaryFolder::read(entry.path()).find(kSecret), std::string::npos) << entry.path();
  }
}

// Kills the provider's programs, and paddlectl with them left alone. EC2_KILLS=30 for more kills.
TEST_F(Ec2Cluster, KilledAtAnyMomentTheNextTeardownFindsEverything) {
  const char* const asked = std::getenv("EC2_KILLS");
  const int kills = asked == nullptr ? 2 : std::atoi(asked);
  const Words kTeardown = {"teardown", "--cluster", "ec2.toml", "--yes", "--discard"};
  const auto begin_up = [&] { return begin_paddlectl({"up", "ec2.toml"}); };
  const std::function<Process()> victims[] = {[&] { return begin_paddlectl(kTeardown); }, begin_up,
                                              [&] { return begin_provider("destroy"); },
                                              [&] { return begin_provider("create"); }};
  Rng rng(42);
  std::map<std::string, int> left;  // by the killed one
  milliseconds whole{0};            // time of `up`
  for (int kill = 0; kill < kills; ++kill) {
    const bool is_removal = kill % 2 == 0;
    if (is_removal) {
      const auto start = std::chrono::steady_clock::now();
      const Outcome up = paddlectl({"up", "ec2.toml"});
      ASSERT_EQ(up.code, 0) << up.output;
      whole = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
    }
    Process victim = victims[kill % 4]();
    const auto moment = rng.below(static_cast<std::uint64_t>(whole.count()) / (is_removal ? 2 : 1));
    std::this_thread::sleep_for(milliseconds(moment));
    victim.signal(SIGKILL);
    victim.wait();
    ++left[std::regex_replace(objects(), std::regex("(\\w+)[^\n]*\n"), "$1 ")];
    const Outcome torn_down = paddlectl(kTeardown);
    EXPECT_EQ(torn_down.code, 0) << torn_down.output;
    EXPECT_EQ(objects(), "") << "after kill " << kill;
    EXPECT_EQ(instances_running(), 0) << "after kill " << kill;
    EXPECT_EQ(keys(), Words()) << "after kill " << kill;
  }
  printf("%d kills, and each teardown found what they left:\n", kills);
  for (const auto& [objects, count] : left) printf("%4d  %s\n", count, objects.c_str());
}

}  // namespace
}  // namespace paddle::test

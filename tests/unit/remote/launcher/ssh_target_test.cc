// Targets that a node and a configuration give, and one without a configuration or an ssh.
#include "remote/launcher/ssh_target.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

#include <gtest/gtest.h>

#include "base/pool.h"
#include "remote/launcher/ssh_login.h"
#include "remote/launcher/ssh_tokens.h"
#include "tests/unit/remote/launcher/ssh_target_fixture.h"

namespace paddle::remote {
namespace {

TEST_F(SshTargetTest, WithoutAConfigurationSshNeedNotBeInstalled) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nonexistent", 1);
  const auto target = resolve(node_, soon());
  const Error error = refusal_of("Host *\n  User u\n");
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_TRUE(target) << target.error().message;
  EXPECT_EQ(target->host, "n2");
  EXPECT_EQ(target->port, 22);
  EXPECT_EQ(target->user, local_user());
  EXPECT_EQ(joined(target->methods), "publickey keyboard-interactive password");
  EXPECT_EQ(target->default_identities.front(), folder_ / "id_ed25519");
  EXPECT_EQ(error.code, Errc::kUsage);
  EXPECT_TRUE(error.message.starts_with(config_file() +
                                        ": the SSH configuration is read with OpenSSH's `ssh -G`"))
      << error.message;
  EXPECT_NE(error.hint.find("install OpenSSH's client"), std::string::npos);
}

// Counts the starts of ssh by a program of this name before it in PATH.
class SshStarts {
 public:
  explicit SshStarts(const test::TemporaryFolder& folder)
      : counted_(folder / "starts"), path_(std::getenv("PATH")) {
    folder.write("bin/ssh",
                 fmt::format("#!/bin/sh\necho >>{}\nPATH='{}' exec ssh \"$@\"\n", counted_, path_));
    std::filesystem::permissions(folder / "bin/ssh", std::filesystem::perms::owner_all);
    ::setenv("PATH", fmt::format("{}:{}", folder / "bin", path_).c_str(), 1);
  }
  ~SshStarts() { ::setenv("PATH", path_.c_str(), 1); }
  SshStarts(const SshStarts&) = delete;
  SshStarts& operator=(const SshStarts&) = delete;
  std::size_t count() const { return test::TemporaryFolder::read(counted_).size(); }

 private:
  std::string counted_;
  std::string path_;
};

// "name:port" of a host with this config, as the user's own ssh reads it.
std::string place_by_ssh(const std::string& config, const std::string& host) {
  const std::string command = fmt::format("ssh -T -G -F {} {} 2>/dev/null", config, host);
  const std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(command.c_str(), "r"), ::pclose);
  std::string name, port;
  char line[4096];
  while (output && std::fgets(line, sizeof line, output.get()) != nullptr) {
    std::istringstream words(line);
    std::string option, value;
    words >> option >> value;
    if (option == "hostname") name = value;
    if (option == "port") port = value;
  }
  return fmt::format("{}:{}", name, port);
}

TEST_F(SshTargetTest, SshIsAskedOncePerHostOnlyWhereItsFilesDependOnTheHost) {
  constexpr std::size_t kHosts = 4;
  folder_.write("config", "");
  ASSERT_TRUE(resolve(node_, soon()));  // asks for ssh's defaults, once
  std::filesystem::create_directory(folder_ / "bin");
  folder_.write("conf.d/1.conf", "Port 1\nHost n3\n  User three\n");
  folder_.write("hosts.d/1.conf", "Host n2\n  Port 21\n");
  folder_.write("hosts.d/2.conf", "Host n*\n  Port 22\n");
  const std::string include = "Include " + folder_.path() + "/conf.d/*.conf\n";
  const std::string hosts = "Include " + folder_.path() + "/hosts.d/*.conf\n";
  // One start for all hosts for which the same Host lines hold.
  for (const auto& [config, expected] : std::vector<std::pair<std::string, std::size_t>>{
           {"User u\nHost *\n  Port 2\n", 1},
           {"ControlPath ~/.ssh/%r@%h:%p\n", 1},
           {"# Host n1\n\nUser u\n", 1},
           {include, 2},
           {"Host n1\n  Port 2\n", 2},
           {"Host n1 n2\n  Port 2\nHost n2 n3\n  User u\n", 4},
           {"Host n?\n  Port 2\nHost *\n  Port 3\n", 1},
           {"Host * !n1\n  Port 2\n", 2},
           {"Host !n1\n  Port 2\n", 1},
           {"Host !n1 n*\n  Port 2\nHost n1\nPort 3\n", 2},
           {"Host N1 n\n  Port 2\n", 1},
           {"Host other\n  HostName %h.lab\n  ProxyJump n9\nHost *\nPort 2\n", 1},
           {"Host n1\n  HostName n9\n", 2},
           {"Host other\n" + include + "Port 3\nHost *\nPort 4\n", 1},
           {"Host n2\n" + hosts + "Port 3\nHost *\nPort 4\n", 2},
           {hosts + "Port 3\n", 2},
           {"Host n[1]\n  Port 2\n", kHosts},
           {"Host n1 # mine\n  Port 2\n", kHosts},
           {"Host \"n1\"\n  Port 2\n", kHosts},
           {"Host n1,n2\n  Port 2\n", kHosts},
           {"Host = n1\n  Port 2\n", 2},
           {"Host ==!* *\n  HostName %h.localdomain\n", kHosts},
           {"=Host n1\n  Port 2\n", kHosts},
           {"\rMatch host n1\n  Port 2\n", kHosts},
           {"Match all\n  Port 2\n", kHosts},
           {"Host other\nMatch host n1\n  Port 2\n", kHosts},
           {"ProxyJump n9\n", kHosts},
           {"\"Host\" n1\n  Port 2\n", kHosts},
           {"HostName %h.lab\n", kHosts},
           {"IdentityFile ~/keys/%h\n", kHosts},
           {"CanonicalizeHostname yes\n", kHosts},
           {"Include ~/other*\n", kHosts}}) {
    folder_.write("config", config);
    std::vector<std::string> places;
    for (std::size_t i = 0; i < kHosts; ++i) {
      places.push_back(place_by_ssh(folder_ / "config", fmt::format("n{}", i)));
    }
    const SshStarts starts(folder_);
    const std::size_t before = starts.count();
    for (std::size_t i = 0; i < kHosts; ++i) {
      node_.host = fmt::format("n{}", i);
      const auto target = resolve(node_, soon());
      ASSERT_TRUE(target) << config;
      EXPECT_EQ(fmt::format("{}:{}", target->host, target->port), places[i]) << config;
    }
    EXPECT_EQ(starts.count() - before, expected) << config;
  }
  // ssh reads another file than the one in this user's home.
  std::filesystem::create_directories(folder_ / "home/.ssh");
  folder_.write("home/.ssh/more", "Host n1\n  Port 99\n");
  folder_.write("config", "Include more\n");
  const std::string home = std::getenv("HOME");
  ::setenv("HOME", (folder_ / "home").c_str(), 1);
  node_.host = "n1";
  EXPECT_EQ(resolve(node_, soon())->port, 99);
  node_.host = "n2";
  EXPECT_EQ(resolve(node_, soon())->port, 22);
  ::setenv("HOME", home.c_str(), 1);
  // An answer is not used after a change of a file, which need not be the first one.
  folder_.write("config", include);
  EXPECT_EQ(resolve(node_, soon())->port, 1);
  folder_.write("conf.d/1.conf", "Port 20\n");
  EXPECT_EQ(resolve(node_, soon())->port, 20);
}

TEST_F(SshTargetTest, ARefusedConfigurationIsNamedForEveryHostAtOnce) {
  constexpr std::size_t kHosts = 16;
  std::filesystem::create_directory(folder_ / "bin");
  const SshStarts starts(folder_);
  folder_.write("config", "NoSuchOption 1\n");
  std::vector<std::string> messages(kHosts);
  const auto ask = [&](std::size_t i) {
    NodeSpec node = node_;
    node.host = fmt::format("n{}", i);
    const auto target = resolve(node, soon());
    messages[i] = target ? "" : target.error().message;
  };
  for_each_parallel(kHosts, ask, kHosts);
  for (const std::string& message : messages) {
    EXPECT_NE(message.find("nosuchoption"), std::string::npos) << message;
    EXPECT_EQ(message.find("debug1"), std::string::npos) << message;
  }
  // Short forms of an address are those of each host.
  folder_.write("config", "User u\n");
  for (const auto& [host, real] : {std::pair{"127.0.0.1", "127.0.0.1"}, {"127.1", "127.0.0.1"}}) {
    node_.host = host;
    EXPECT_EQ(resolve(node_, soon())->host, real);
  }
}

TEST_F(SshTargetTest, LoginMethodsComeInTheirOrderWithoutThoseThatAreOff) {
  for (const auto& [config, methods] : std::vector<std::pair<std::string, std::string>>{
           {"PreferredAuthentications gssapi-with-mic,password,publickey", "password publickey"},
           {"PasswordAuthentication no", "publickey keyboard-interactive"},
           {"KbdInteractiveAuthentication no", "publickey password"},
           {"PubkeyAuthentication no", "keyboard-interactive password"},
           {"BatchMode yes", "publickey"},
           {"PreferredAuthentications hostbased", ""}}) {
    folder_.write("config", config + "\n");
    const auto target = resolve(node_, soon());
    ASSERT_TRUE(target) << target.error().message;
    EXPECT_EQ(joined(target->methods), methods) << config;
  }
}

TEST_F(SshTargetTest, AQuestionNamesAServerAsItsUserDoes) {
  SshTarget target;
  target.host = "10.0.0.1";
  node_.name = "pw1";
  EXPECT_EQ(known_name(node_, target), "pw1");
  node_.name = "10.0.0.1";
  EXPECT_EQ(known_name(node_, target), "");
  target.host = "2001:db8::1";
  node_.name = "2001-db8--1";
  EXPECT_EQ(known_name(node_, target), "2001-db8--1");
  node_.bastion = 1;
  target.asked_host = "door";
  EXPECT_EQ(known_name(node_, target), "door");
}

TEST_F(SshTargetTest, NamesInKnownHostsAreInLowerCaseWithOrWithoutThePort) {
  SshTarget target;
  target.host = "PC-Node01";
  EXPECT_EQ(target.known_name(), "pc-node01");
  EXPECT_EQ(target.known_name_without_port(), "");
  target.port = 2222;
  EXPECT_EQ(target.known_name(), "[pc-node01]:2222");
  EXPECT_EQ(target.known_name_without_port(), "pc-node01");
  target.key_alias = "Box";
  EXPECT_EQ(target.known_name(), "box");
  EXPECT_EQ(target.known_name_without_port(), "");
}

TEST_F(SshTargetTest, UsersOfADirectoryAreTaken) {
  for (const char* user : {"CORP\\alice", "alice@corp.example", "CORP+alice"}) {
    node_.user = user;
    const auto target = resolve(node_, soon());
    ASSERT_TRUE(target) << target.error().message;
    EXPECT_EQ(target->user, user);
    const auto jump = parse_jump(std::string(user) + "@[2001:db8::1]:2222");
    ASSERT_TRUE(jump) << jump.error().message;
    EXPECT_EQ(jump->user, user);
    EXPECT_EQ(jump->host, "2001:db8::1");
    EXPECT_EQ(jump->port, 2222);
  }
  for (const char* bad : {"-x", "a b", "a\\", "\\a", "a;b", "a$b", "a`b", "a\"b", "a%b"}) {
    EXPECT_FALSE(check_user_name(bad)) << bad;
  }
}

TEST_F(SshTargetTest, TheClusterFileComesBeforeTheConfiguration) {
  folder_.write("config",
                "User u1\nPort 1\nIdentityFile /k1\nUserKnownHostsFile /h1\nProxyJump gate\n"
                "ConnectTimeout 3\nMatch user typed\n  HostName typed.lab\n");
  node_.user = "typed";
  node_.ssh_port = 2;
  node_.identity = "/k2";
  node_.known_hosts = "/h2";
  node_.jump = "other";
  node_.timeout = std::chrono::seconds(60);
  const auto target = resolve(node_, soon());
  ASSERT_TRUE(target) << target.error().message;
  EXPECT_EQ(target->host, "typed.lab") << "as with ssh -l typed";
  EXPECT_EQ(target->user, "typed");
  EXPECT_EQ(target->port, 2);
  EXPECT_EQ(joined(target->identities), "/k2 /k1");
  EXPECT_EQ(joined(target->known_hosts), "/h2");
  EXPECT_EQ(target->jump, "other");
  EXPECT_EQ(target->connect_timeout, Duration());
}

}  // namespace
}  // namespace paddle::remote

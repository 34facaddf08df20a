// Targets of generated configurations, beside what `ssh -G` and `ssh -v` of this machine say.
#include "remote/launcher/ssh/target.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "remote/launcher/ssh/tokens.h"
#include "tests/support/temporary_folder.h"

namespace paddle::remote {
namespace {

using Words = std::vector<std::string>;

constexpr std::uint64_t kConfigurations = 80;
constexpr std::size_t kLeading = 11;  // of the options below

TimePoint soon() {
  return SteadyClock().now() + std::chrono::seconds(60);
}

// Both outputs of a command, which may fail.
std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((command + " 2>&1").c_str(), "r"),
                                                   ::pclose);
  std::string text;
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe.get())) > 0;) {
    text.append(buffer, got);
  }
  return text;
}

// The rests of all lines that begin with `begin`, without the carriage returns of ssh.
Words after(const std::string& text, const std::string& begin) {
  Words found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    while (line.ends_with('\r')) line.pop_back();
    if (line.starts_with(begin)) found.push_back(line.substr(begin.size()));
  }
  return found;
}

std::string joined(const Words& words, const char* between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

// Configurations with every form of block, pattern, quoting and inclusion, from a seed.
class Generator {
 public:
  Generator(std::uint64_t seed, std::string folder) : rng_(seed), folder_(std::move(folder)) {}

  std::string config() {
    std::string text = "# generated\n\n" + options(rng_.below(3));
    for (std::uint64_t blocks = 2 + rng_.below(5); blocks > 0; --blocks) {
      text += block() + options(1 + rng_.below(6));
      if (rng_.below(4) == 0) text += "  Include " + folder_ + "/conf.d/*.conf\n";
    }
    return text;
  }
  std::string included() { return options(1 + rng_.below(2)) + block() + options(2); }
  std::string host() { return one_of({"n2", "web.lab", "10.0.0.7", "db-01"}); }
  bool chance(std::uint64_t of) { return rng_.below(of) == 0; }

 private:
  std::string one_of(const Words& all) { return all[rng_.below(all.size())]; }

  std::string pattern() {
    return one_of({"*", "n*", "n?", "!n2", "web.*", "*.lab", "n2", "db-0?", "10.0.0.*", "N2",
                   "127.0.0.2", "gate", "!web.lab"});
  }

  std::string block() {
    if (chance(2))
      return fmt::format("{} {} {}\n", one_of({"Host", "host", "HOST"}), pattern(),
                         one_of({"", pattern(), "* " + pattern(), "\"n2\""}));
    return one_of({"Match", "match"}) + " " +
           one_of({"all", "host " + pattern(), "originalhost " + pattern() + ",n2",
                   "!host " + one_of({"n2", "web.lab"}), "user u1,*-user", "!user u1",
                   "localuser " + one_of({local_user(), "nobody-here"}), "exec true",
                   "exec \"test %h = 127.0.0.2\"", "exec \"test %n = n2 -a %p = 22\" host *",
                   "exec false", "final", "final host *.lab", "canonical", "final all",
                   "host=n* user=*", "originalhost n2 !exec \"false\""}) +
           "\n";
  }

  std::string options(std::uint64_t count) {
    std::string text;
    for (; count > 0; --count) text += option();
    return text;
  }

  std::string option() {
    static const std::vector<std::pair<std::string, Words>> kOptions = {
        {"HostName", {"127.0.0.2", "%h.example", "n9.lab", "\"web.lab\"", "Upper.Lab"}},
        {"User", {"u1", "\"u2\"", "train-user"}},
        {"Port", {"22", "2222", "65535"}},
        {"IdentityFile",
         {"~/.ssh/k1", "~/k-%h-%r-%p-%n", "%d/x-%u-%i", "~root/z", "\"/tmp/a b/%%k\"",
          "${PADDLE_TEST_KEY}/y", "none", "/abs/%l.%L.%k", "\"~/quoted\"", "~/.ssh/id_rsa"}},
        {"UserKnownHostsFile",
         {"~/kh", "~/kh1 ~/kh2", "/tmp/%h-%r \"/tmp/a b\"", "none", "%d/kh", "/dev/null"}},
        {"GlobalKnownHostsFile", {"/etc/other", "/etc/one /etc/two", "none"}},
        {"HostKeyAlias", {"alias", "Alias.Lab"}},
        {"ProxyJump",
         {"gate", "u@gate:33", "a,b:2", "none", "ssh://x@y:44", "10.0.0.1", "[::1]:5"}},
        {"ProxyCommand", {"none", "true %h %p %r \"%n\" %%", "true 'a b' %k", "true ${x-y}"}},
        {"IdentitiesOnly", {"yes", "no"}},
        {"IdentityAgent",
         {"none", "SSH_AUTH_SOCK", "~/agent-%h", "$PADDLE_TEST_KEY", "${PADDLE_TEST_KEY}/agent"}},
        {"ConnectTimeout", {"7", "1m", "none"}},
        {"PreferredAuthentications", {"password,publickey", "keyboard-interactive", "hostbased"}},
        {"PasswordAuthentication", {"no", "yes"}},
        {"PubkeyAuthentication", {"no", "yes", "unbound"}},
        {"ChallengeResponseAuthentication", {"no", "yes"}},
        {"BatchMode", {"yes", "no"}},
        {"AddressFamily", {"inet", "inet6", "any"}},
        {"Ciphers", {"+aes128-cbc", "-chacha20*", "^aes256-ctr", "aes128-ctr,aes256-ctr"}},
        {"KexAlgorithms", {"-diffie*", "ecdh-sha2-nistp256"}},
        {"HostKeyAlgorithms", {"^ssh-ed25519", "ssh-ed25519,rsa-sha2-512"}},
        {"PubkeyAcceptedKeyTypes", {"+ssh-rsa", "ssh-ed25519"}},
        {"RekeyLimit", {"1G 1h", "default none"}},
        {"StrictHostKeyChecking", {"no", "accept-new"}},
        {"ServerAliveInterval", {"15"}},
        {"ForwardAgent", {"yes"}},
        {"ControlMaster", {"auto"}},
        {"SendEnv", {"LANG LC_*"}},
        {"LocalForward", {"8080 localhost:80"}},
        {"LogLevel", {"ERROR"}}};
    // The first are those that lead somewhere else.
    const auto& [name, values] = kOptions[rng_.below(chance(3) ? kOptions.size() : kLeading)];
    std::string keyword = name;
    if (chance(3)) {
      for (char& c : keyword) c = static_cast<char>(std::tolower(c));
    }
    return one_of({"", "  ", "\t"}) + keyword + one_of({" ", "  ", "=", " = "}) + one_of(values) +
           one_of({"", "", " "}) + "\n";
  }

  Rng rng_;
  std::string folder_;
};

class SshTargetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (output_of("ssh -V").find("OpenSSH") == std::string::npos) GTEST_SKIP() << "no ssh here";
    ::setenv("PADDLE_TEST_KEY", "/variable", 1);
    ::unsetenv("SSH_AUTH_SOCK");
    std::filesystem::create_directory(folder_ / "conf.d");
    node_.host = "n2";
    node_.name = "node-0";
    node_.ssh_directory = folder_.path();
    node_.allow_proxy_command = true;
  }

  std::string config_file() const { return folder_ / "config"; }
  // The command line of ssh for the node, from `-F` on.
  std::string arguments() const {
    return fmt::format("-F {}{}{} {}", config_file(), node_.user.empty() ? "" : " -l " + node_.user,
                       node_.ssh_port == 0 ? "" : fmt::format(" -p {}", node_.ssh_port),
                       node_.host);
  }
  Error refusal_of(const std::string& config) {
    folder_.write("config", config);
    const auto target = resolve(node_, soon());
    EXPECT_FALSE(target) << config;
    return target ? Error{} : target.error();
  }

  Result<SshTarget> compare_with_ssh();

  test::TemporaryFolder folder_;
  NodeSpec node_;
};

// Every value that is used: most are printed by `ssh -G`, keys and proxies only by `ssh -v`.
Result<SshTarget> SshTargetTest::compare_with_ssh() {
  auto target = resolve(node_, soon());
  const std::string said = output_of("ssh -G " + arguments());
  static const std::string kPlain = output_of("ssh -G -F none localhost");
  const auto value = [](const std::string& text, const std::string& option) {
    const Words found = after(text, option + " ");
    return found.empty() ? "" : found.front();
  };
  EXPECT_EQ(bool(target), !value(said, "hostname").empty()) << said;
  if (!target) return target;
  EXPECT_EQ(target->host, value(said, "hostname"));
  EXPECT_EQ(fmt::format("{}", target->port), value(said, "port"));
  EXPECT_EQ(target->user, value(said, "user"));
  EXPECT_EQ(target->key_alias, value(said, "hostkeyalias"));
  EXPECT_EQ(target->jump, value(said, "proxyjump"));
  EXPECT_EQ(target->identities_only ? "yes" : "no", value(said, "identitiesonly"));
  const std::string family = value(said, "addressfamily");
  EXPECT_EQ(target->address_family, family == "inet" ? 2 : family == "inet6" ? 10 : 0);
  const std::string timeout = value(said, "connecttimeout");
  EXPECT_EQ(target->connect_timeout, std::chrono::seconds(std::atoi(timeout.c_str())));
  for (const auto& [option, files] :
       {std::pair("userknownhostsfile", target->known_hosts),
        std::pair("globalknownhostsfile", target->system_known_hosts)}) {
    const std::string listed = value(said, option);
    const bool usual = listed == value(kPlain, option);
    if (listed == "none") {
      EXPECT_EQ(joined(files), "/dev/null");
    } else if (usual && std::string(option) == "userknownhostsfile") {
      EXPECT_EQ(joined(files), fmt::format("{0}/known_hosts {0}/known_hosts2", folder_.path()));
    } else {
      EXPECT_EQ(joined(files), listed);
    }
  }
  for (const char* option : {"ciphers", "macs", "kexalgorithms", "hostkeyalgorithms", "rekeylimit",
                             "pubkeyacceptedalgorithms", "compression", "requiredrsasize"}) {
    EXPECT_EQ(target->config.value(option), value(said, option)) << option;
    EXPECT_EQ(target->config.is_set(option), value(said, option) != value(kPlain, option))
        << option;
  }
  const std::string agent = value(said, "identityagent");
  EXPECT_EQ(target->agent, agent == "$PADDLE_TEST_KEY" ? "/variable"
                           : agent.starts_with('/')    ? agent
                                                       : "");
  // The command that ssh would run is `true`, or our own, so nothing is connected to.
  Words keys;
  for (const std::string& line :
       after(output_of("ssh -v -o ProxyCommand=true " + arguments()), "debug1: identity file ")) {
    const std::string path = line.substr(0, line.rfind(" type "));
    if (!path.ends_with("-cert")) keys.push_back(path);
  }
  const bool named = joined(after(said, "identityfile ")) != joined(after(kPlain, "identityfile "));
  EXPECT_EQ(joined(target->identities), named ? joined(keys) : "");
  EXPECT_EQ(target->default_identities.empty(), named);
  const std::string proxy = value(said, "proxycommand");
  EXPECT_EQ(target->proxy_command.empty(), proxy.empty());
  if (!proxy.empty()) {
    EXPECT_EQ("exec " + target->proxy_command, joined(after(output_of("ssh -v " + arguments()),
                                                            "debug1: Executing proxy command: ")));
  }
  return target;
}

TEST_F(SshTargetTest, GeneratedConfigurationsMeanWhatTheyMeanToSsh) {
  std::uint64_t refused = 0, with_keys = 0, with_jump = 0, with_command = 0;
  for (std::uint64_t seed = 1; seed <= kConfigurations && !HasFailure(); ++seed) {
    Generator generator(seed, folder_.path());
    for (const char* file : {"conf.d/1.conf", "conf.d/2.conf"}) {
      folder_.write(file, generator.included());
    }
    const std::string config = generator.config();
    folder_.write("config", config);
    node_.host = generator.host();
    node_.user = generator.chance(3) ? "typed-user" : "";
    node_.ssh_port = generator.chance(3) ? 2200 : 0;
    SCOPED_TRACE(fmt::format("seed {}, ssh {}\n{}", seed, arguments(), config));
    const auto target = compare_with_ssh();
    refused += target ? 0U : 1U;
    if (!target) continue;
    with_keys += target->identities.empty() ? 0U : 1U;
    with_jump += target->jump.empty() ? 0U : 1U;
    with_command += target->proxy_command.empty() ? 0U : 1U;
  }
  EXPECT_LT(refused, kConfigurations / 4);
  for (const std::uint64_t seen : {with_keys, with_jump, with_command}) EXPECT_GT(seen, 5U);
}

TEST_F(SshTargetTest, AConfigOfAClusterFileRunsNothingUnlessAllowed) {
  const std::string ran = folder_ / "ran";
  const std::string run = fmt::format("exec \"touch {}\"", ran);
  folder_.write("more", "Match " + run + "\n  User other\n");
  for (const std::string& text : std::vector<std::string>{
           "Match " + run + "\n", "match host=n2 !" + run + "\n", "\tMATCH EXEC touch\n",
           "Include " + (folder_ / "more") + "\n",
           "Host *\n include=\"" + (folder_ / "more") + "\"\n", "ProxyCommand touch " + ran + "\n",
           "Host n*\n  proxycommand = sh -c 'touch " + ran + "'\n"}) {
    node_.allow_proxy_command = false;
    const Error refused = refusal_of(text);
    EXPECT_EQ(refused.code, Errc::kUsage) << text;
    EXPECT_TRUE(refused.message.starts_with(folder_.path() + "/")) << refused.message;
    EXPECT_NE(refused.hint.find("--allow-proxy-command"), std::string::npos)
        << refused.message << refused.hint;
    EXPECT_FALSE(std::filesystem::exists(ran)) << text;
  }
  for (const char* text : {"Host exec\n  User x\n", "Match host executor\n", "# Match exec x\n"}) {
    folder_.write("config", text);
    EXPECT_TRUE(resolve(node_, soon())) << text;
  }
  node_.allow_proxy_command = true;
  folder_.write("config", "Include " + (folder_ / "more") + "\n");
  EXPECT_TRUE(resolve(node_, soon()));
  EXPECT_TRUE(std::filesystem::exists(ran)) << "allowed";
}

TEST_F(SshTargetTest, AFolderThatOthersMayWriteIsNotBelieved) {
  folder_.write("config", "User x\n");
  folder_.write("known_hosts", "");
  EXPECT_TRUE(resolve(node_, soon()));
  for (const std::string& open : {folder_.path(), config_file(), folder_ / "known_hosts"}) {
    std::filesystem::permissions(open, std::filesystem::perms::others_write,
                                 std::filesystem::perm_options::add);
    const auto refused = resolve(node_, soon());
    ASSERT_FALSE(refused) << open;
    EXPECT_EQ(refused.error().code, Errc::kAuth);
    EXPECT_EQ(refused.error().hint, "chmod go-w " + open);
    std::filesystem::permissions(open, std::filesystem::perms::others_write,
                                 std::filesystem::perm_options::remove);
  }
}

TEST_F(SshTargetTest, UnsupportedOptionsAreRefusedByNameFileAndLine) {
  const std::string included =
      folder_.write("more", "# first\nHost n2\n  BindInterface=\"eth7\"\n");
  for (const auto& [config, place] : std::vector<std::pair<std::string, std::string>>{
           {"Host *\n  BindAddress 10.0.0.1\n", "config:2: bindaddress 10.0.0.1"},
           {"Host other\n BindAddress 1.1.1.1\nHost *\n BINDADDRESS = 10.0.0.1\n",
            "config:4: bindaddress 10.0.0.1"},
           {"Include " + included + "\n", "more:3: bindinterface eth7"},
           {"CertificateFile ~/key-cert.pub\n", "config:1: certificatefile ~/key-cert.pub"},
           {"Host *\nPKCS11Provider /lib/token.so\n", "config:2: pkcs11provider /lib/token.so"},
           {"KnownHostsCommand /bin/keys %H\n", "config:1: knownhostscommand /bin/keys %H"},
           {"RevokedHostKeys /etc/revoked\n", "config:1: revokedhostkeys /etc/revoked"},
           {"ProxyUseFdpass yes\n", "config:1: proxyusefdpass yes"}}) {
    const Error error = refusal_of(config);
    EXPECT_EQ(error.code, Errc::kUsage);
    EXPECT_EQ(error.message, folder_ / (place + ": not supported")) << config;
    EXPECT_NE(error.hint.find("launcher = [\"ssh\", \"-o\", \"BatchMode=yes\", \"n2\"]"),
              std::string::npos)
        << error.hint;
  }
  EXPECT_EQ(refusal_of("Host *\n  IdentityFile ~/k\n  IdentityFile ~/k-%C\n").message,
            folder_ / "config:3: identityfile ~/k-%C: the token %C is not supported");
  EXPECT_EQ(refusal_of("ProxyCommand nc %j\n").message,
            folder_ / "config:1: proxycommand nc %j: the token %j is not supported");
  EXPECT_EQ(refusal_of("IdentityFile ${PADDLE_TEST_NOTHING}/k\n").message,
            folder_ /
                "config:1: identityfile ${PADDLE_TEST_NOTHING}/k: the variable "
                "PADDLE_TEST_NOTHING is not set");
}

TEST_F(SshTargetTest, UnsupportedOptionsThatSayNothingAreNotRefused) {
  folder_.write(
      "config",
      "RevokedHostKeys none\nPKCS11Provider none\nKnownHostsCommand none\n"
      "ProxyUseFdpass no\nSecurityKeyProvider internal\nHost other\n  BindAddress 1.1.1.1\n");
  const auto target = resolve(node_, soon());
  EXPECT_TRUE(target) << target.error().message;
}

TEST_F(SshTargetTest, APipeOrDeviceAmongItsFilesIsRefusedByName) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string option : {"UserKnownHostsFile", "UserKnownHostsFile /dev/null",
                                   "GlobalKnownHostsFile", "IdentityFile"}) {
    const Error error = refusal_of(option + " " + pipe + "\n");
    EXPECT_EQ(error.code, Errc::kUsage);
    EXPECT_EQ(error.message, pipe + ": not a regular file") << option;
    EXPECT_NE(error.hint.find(config_file()), std::string::npos) << error.hint;
  }
  EXPECT_EQ(refusal_of("IdentityFile /dev/zero\n").message, "/dev/zero: not a regular file");
  std::filesystem::create_symlink(pipe, folder_ / "k.pub");
  EXPECT_EQ(refusal_of("IdentityFile " + (folder_ / "k") + "\n").message,
            folder_ / "k.pub: not a regular file");
  node_.identity = pipe;
  EXPECT_EQ(refusal_of("").message, pipe + ": not a regular file");
  node_.identity.clear();
  node_.known_hosts = pipe;
  EXPECT_EQ(refusal_of("").message, pipe + ": not a regular file");
  node_.known_hosts.clear();
  folder_.write("config", "UserKnownHostsFile /dev/null\nGlobalKnownHostsFile none\n");
  EXPECT_TRUE(resolve(node_, soon()));
  ASSERT_EQ(::mkfifo((folder_ / "id_rsa").c_str(), 0600), 0);
  EXPECT_EQ(refusal_of("").message, folder_ / "id_rsa: not a regular file");
}

TEST_F(SshTargetTest, WhatSshRefusesIsSaidInItsWords) {
  const Error unknown = refusal_of("Host *\n  Foo bar\n  Port x\n");
  EXPECT_EQ(unknown.code, Errc::kUsage);
  EXPECT_NE(unknown.message.find("line 2: Bad configuration option: foo"), std::string::npos)
      << unknown.message;
  EXPECT_NE(unknown.message.find("line 3: Bad port 'x'"), std::string::npos) << unknown.message;
  EXPECT_NE(unknown.hint.find("ssh -T -G -F " + config_file() + " -- n2"), std::string::npos)
      << unknown.hint;
  EXPECT_NE(refusal_of("Host n2\n  ProxyJump n2\n").message.find("jumphost loop via n2"),
            std::string::npos);
}

TEST_F(SshTargetTest, AnExecThatHangsEndsAtTheDeadline) {
  folder_.write("config", "Match exec \"sleep 100\"\n  User x\n");
  const auto target = resolve(node_, SteadyClock().now() + std::chrono::milliseconds(300));
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().code, Errc::kUnreachable);
  EXPECT_NE(target.error().hint.find("Match exec"), std::string::npos) << target.error().hint;
}

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
  EXPECT_TRUE(error.message.starts_with(config_file() + ": OpenSSH's `ssh -G` reads it"))
      << error.message;
  EXPECT_NE(error.hint.find("install OpenSSH's client"), std::string::npos);
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

// Targets of generated configurations, beside what `ssh -G` and `ssh -v` of this machine say.
#include <cctype>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "remote/launcher/ssh_tokens.h"
#include "tests/unit/remote/launcher/ssh_target_fixture.h"

namespace paddle::remote {
namespace {

constexpr std::uint64_t kConfigurations = 80;
constexpr std::size_t kLeading = 11;  // of the options below

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
  // As most people have it: the same for all hosts.
  std::string config_for_all_hosts() {
    return one_of({"", "Host *\n", "# all\nHost=*\n"}) + options(1 + rng_.below(5)) +
           one_of({"", "Include " + folder_ + "/conf.d/*.conf\n"});
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
         {"~/.ssh/k1", "~/k-%h-%r-%p-%n", "%d/x-%u-%i", "~root/z", "\"/nowhere/a b/%%k\"",
          "${PADDLE_TEST_KEY}/y", "none", "/abs/%l.%L.%k", "\"~/quoted\"", "~/.ssh/id_rsa"}},
        {"UserKnownHostsFile",
         {"~/kh", "~/kh1 ~/kh2", "/nowhere/%h-%r \"/nowhere/a b\"", "none", "%d/kh", "/dev/null"}},
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

// The command line of ssh for the node, from `-F` on.
std::string arguments(const NodeSpec& node) {
  return fmt::format("-F {}/config{}{} {}", node.ssh_directory,
                     node.user.empty() ? "" : " -l " + node.user,
                     node.ssh_port == 0 ? "" : fmt::format(" -p {}", node.ssh_port), node.host);
}

// Every value that is used: most are printed by `ssh -G`, keys and proxies only by `ssh -v`.
Result<SshTarget> compare_with_ssh(const NodeSpec& node, TimePoint deadline) {
  auto target = resolve(node, deadline);
  const std::string said = output_of("ssh -G " + arguments(node));
  static const std::string kPlain = output_of("ssh -G -F none localhost");
  const auto value = [](const std::string& text, const std::string& option) {
    const Words found = after(text, option + " ");
    return found.empty() ? "" : found.front();
  };
  EXPECT_EQ(bool(target), !value(said, "hostname").empty())
      << (target ? "" : target.error().message) << said;
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
      EXPECT_EQ(joined(files), fmt::format("{0}/known_hosts {0}/known_hosts2", node.ssh_directory));
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
  for (const std::string& line : after(output_of("ssh -v -o ProxyCommand=true " + arguments(node)),
                                       "debug1: identity file ")) {
    const std::string path = line.substr(0, line.rfind(" type "));
    if (!path.ends_with("-cert")) keys.push_back(path);
  }
  const bool named = joined(after(said, "identityfile ")) != joined(after(kPlain, "identityfile "));
  EXPECT_EQ(joined(target->identities), named ? joined(keys) : "");
  EXPECT_EQ(target->default_identities.empty(), named);
  const std::string proxy = value(said, "proxycommand");
  EXPECT_EQ(target->proxy_command.empty(), proxy.empty());
  if (!proxy.empty()) {
    EXPECT_EQ("exec " + target->proxy_command, joined(after(output_of("ssh -v " + arguments(node)),
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
    SCOPED_TRACE(fmt::format("seed {}, ssh {}\n{}", seed, arguments(node_), config));
    const auto target = compare_with_ssh(node_, soon());
    refused += target ? 0U : 1U;
    if (!target) continue;
    with_keys += target->identities.empty() ? 0U : 1U;
    with_jump += target->jump.empty() ? 0U : 1U;
    with_command += target->proxy_command.empty() ? 0U : 1U;
  }
  EXPECT_LT(refused, kConfigurations / 4);
  for (const std::uint64_t seen : {with_keys, with_jump, with_command}) EXPECT_GT(seen, 5U);
}

TEST_F(SshTargetTest, OneAnswerForAllHostsIsThatOfEachHost) {
  for (std::uint64_t seed = 1; seed <= kConfigurations / 4 && !HasFailure(); ++seed) {
    Generator generator(seed, folder_.path());
    folder_.write("conf.d/1.conf", seed % 3 == 0 ? generator.included() : "  User included\n");
    const std::string config = generator.config_for_all_hosts();
    folder_.write("config", config);
    for (const char* const host : {"n2", "web.lab", "N2", "10.0.0.7"}) {
      node_.host = host;
      SCOPED_TRACE(fmt::format("seed {}, ssh {}\n{}", seed, arguments(node_), config));
      (void)compare_with_ssh(node_, soon());
    }
  }
}

}  // namespace
}  // namespace paddle::remote
